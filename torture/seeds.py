"""Valid files, and texts by hypothesis, from which bad inputs are made; faults begin with the same files."""

import csv
import io
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from torture.common import describe
from torture.server import Call, Ended, Fault, Server

TINY = ("--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--epochs", "3", "--checkpoint-every", "0")
FIT = ("--target", "y", "--hidden", "4", "--networks", "1", "--max-steps", "2", "--no-estimate")


@dataclass(frozen=True)
class Prepared:
    """An input, in its folder, and the command that reads it."""

    argv: list[str]
    stdin: str | None = None
    same: bool | None = None  # whether a file with a checksum has the same meaning as before


class Seeds:
    """Valid files, written by the commands, from which bad ones are made."""

    def __init__(self, folder: Path, server: Server, shim: bool, seed: int) -> None:
        self.folder = folder
        self.texts = odd_texts(seed)
        folder.mkdir()
        rng = np.random.default_rng(0)
        rows = [["id", "size", "colour", "when", "y"]]
        for row in range(60):
            label = "" if row % 3 else "cat" if row % 2 else "dog"
            colour = ("red", "blue", "grün, hell")[row % 3]
            rows.append([str(row), f"{rng.normal():.3f}", colour, f"2024-01-{row % 28 + 1:02d}", label])
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(rows)
        (folder / "table.csv").write_text(text.getvalue(), "utf-8")
        x = rng.normal(size=(30, 4)).astype(np.float32)
        y = np.where(np.arange(30) % 3, -1, np.arange(30) % 2)
        np.savez(folder / "table.npz", X=x, y=y)
        import pandas

        frame = pandas.read_csv(folder / "table.csv")
        frame.to_parquet(folder / "table.parquet")
        setup = [
            ["fit", "table.csv", *FIT, "--out", "model.safetensors"],
            ["fit", "table.npz", *FIT, "--out", "arrays.safetensors"],
            ["train", *TINY, "--out", "finished"],
            ["study", "--models", "vanilla,baseline", "--seeds", "1", *TINY, "--out", "study"],
            ["tune", "vanilla", *TINY, "--trials", "2", "--draws", "1", "--sampler", "random", "--out", "tune"],
            ["tune", "report", "--out", "tune", "--write", "tuned.toml"],
        ]
        for argv in setup:
            self._expect(server.one(Call(argv, str(folder), inline=True, seconds=600)), argv, 0)
        argv = ["train", *TINY, "--out", "run"]
        # A finished run has no checkpoints. Without a compiler there is no shim, and no kill at the right moment.
        if shim:
            fault = Fault(str(folder / "run"), server.one(_counted(argv, folder)).calls - 12, "kill")
            shutil.rmtree(folder / "run")
            server.one(Call(argv, str(folder), seconds=600, fault=fault))
        (folder / "space.toml").write_text(
            server.one(Call(["tune", "vanilla", "--show-space"], str(folder), seconds=600)).out, "utf-8"
        )
        for useless in [*folder.rglob("*.html"), *folder.rglob(".*.tmp")]:
            useless.unlink()
        self.has_checkpoint = any((folder / "run" / "checkpoints").glob("*.json"))

    @staticmethod
    def _expect(ended: Ended, argv: list[str], code: int) -> None:
        if ended.code != code or ended.signal or ended.hung:
            raise RuntimeError(f"{describe(argv)} should end with {code}: {ended}")

    def bytes(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()

    def copy(self, name: str, folder: Path) -> Path:
        source = self.folder / name
        if source.is_dir():
            return Path(shutil.copytree(source, folder / name))
        return Path(shutil.copy(source, folder / name))


def _counted(argv: list[str], folder: Path) -> Call:
    return Call(argv, str(folder), seconds=600, fault=Fault(str(folder / "run")))


def odd_texts(seed: int, count: int = 600) -> list[str]:
    """Texts by hypothesis: letters, numbers and signs of all kinds, small and large."""
    import hypothesis
    from hypothesis import strategies as st

    found: list[str] = []
    values = st.one_of(
        st.text(max_size=30),
        st.integers().map(str),
        st.floats().map(repr),
        st.lists(st.integers(-5, 2000).map(str), max_size=4).map(",".join),
        st.lists(st.floats().map(repr), min_size=1, max_size=4).map(",".join),
        st.dates().map(str),
        st.datetimes().map(str),
        st.from_regex(r"[-+]?[0-9]{0,4}[.,eE_ ]?[0-9]{0,4}", fullmatch=True),
    )

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count, database=None, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(values)
    def collect(value: str) -> None:
        found.append(value)

    collect()
    return found
