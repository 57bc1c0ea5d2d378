"""Bad inputs: tables, model files, checkpoints, stores, plans, TOML files and options, damaged or made up.

Each is refused with exit code 2 and one sentence, or accepted if it happens to be valid. There is no traceback, crash or
hang, memory is bounded, and a refusal changes no existing file. An accepted study or search leaves
all finished runs as they are, and replaces no table by one with fewer runs. A file with a checksum is accepted only if it
has the same meaning, unless the checksum was computed anew.
"""

import csv
import hashlib
import io
import json
import os
import random
import shutil
import sqlite3
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

from torture.common import Failure, Options, Outcome, changed, complaint, contents, describe, environment, keep
from torture.server import Call, Ended, Fault, Pool, Server

COUNT, LONG_COUNT = 2_000, 12_000
BATCH = 40  # calls of one forked process
GROWTH = 400 << 20  # bytes by which a refusal may make the process grow
ADDRESSES = 3 << 30  # bytes of address space that a call may take
SECONDS = 20.0

TINY = ("--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--epochs", "3", "--checkpoint-every", "0")
FIT = ("--target", "y", "--hidden", "4", "--networks", "1", "--max-steps", "2", "--no-estimate")


@dataclass(frozen=True)
class Prepared:
    """An input, in its folder, and the command that reads it."""

    argv: list[str]
    stdin: str | None = None
    same: bool | None = None  # whether a file with a checksum has the same meaning as before


Kind = Callable[["Seeds", random.Random, Path], Prepared]


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
        self.kinds = dict(KINDS)
        if not list((folder / "run" / "checkpoints").glob("*.json")):
            del self.kinds["checkpoint"]

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


# --- Odd values -------------------------------------------------------------------------------------------------

CLASSICS = [
    "", " ", "0", "-0", "-1", "1", "2", "1.5", "1e3", "1e400", "-1e400", "nan", "NaN", "inf", "-inf", "None", "null",
    "true", "False", "0x10", "0b1", "1_000", "٣", "½", "１２", "9" * 25, "9" * 5000, "-" + "9" * 400, "1" + "0" * 300,
    str(2**31), str(2**32), str(2**53 + 1), str(2**63), str(2**64), "1,2", ",", ",,", "1,", "1;2", "a,b", "all",
    "x" * 300, "y" * 5000, "../x", "~", "~nobody", ".", "..", "/", "a/b/c", "-", "--", "---", "*", "?", "[", "[bold]",
    "[/]", "$HOME", "$x^2", "%s%n", "%", "{0}", "{", "\\", "\\t", "\t", "\n", "a\nb", "\r", "\x1b[31mred\x1b[0m", "\x07",
    "\u202e", "\ufeff", "\ud800"[:0], "e\u0301", "é", "日本語", "🙂", "\udcff", "\udc80x", "a\u2028b", "'", '"', '"a',
    "=1+1", "=HYPERLINK(\"x\")", "@", "#", "digits", "vanilla", "no.py:Nothing", "table.csv", "model.safetensors",
]  # fmt: skip


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


def text(seeds: Seeds, rng: random.Random) -> str:
    return rng.choice(CLASSICS) if rng.random() < 0.5 else rng.choice(seeds.texts)


def odd_json(seeds: Seeds, rng: random.Random) -> Any:
    """A value that JSON can hold, mostly where another is expected."""
    return rng.choice(
        [
            lambda: None, lambda: True, lambda: {}, lambda: [], lambda: [None], lambda: {"": None}, lambda: 10**12,
            lambda: -1, lambda: 0, lambda: 10**400, lambda: 1.5, lambda: float("nan"), lambda: float("inf"),
            lambda: 1e308, lambda: text(seeds, rng), lambda: text(seeds, rng), lambda: [1] * 1000, lambda: [[]] * 3,
            lambda: {text(seeds, rng): odd_json(seeds, rng)}, lambda: [odd_json(seeds, rng)], lambda: "a" * 100_000,
            lambda: 2**63, lambda: -(2**63) - 1, lambda: [0.5, "x"], lambda: list(range(5)),
        ]
    )()  # fmt: skip


def mutated(seeds: Seeds, rng: random.Random, value: Any) -> Any:
    """The same JSON with one or a few places changed, removed, added or swapped."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        place = value
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            if not keys:
                return odd_json(seeds, rng)
            key = rng.choice(keys)
            if isinstance(place[key], (dict, list)) and place[key] and rng.random() < 0.75:
                place = place[key]
                continue
            break
        how = rng.randrange(5)
        if how == 0:
            del place[key]
        elif how == 1 and isinstance(place, dict):
            place[text(seeds, rng)] = odd_json(seeds, rng)
        elif how == 2:
            place[key] = place[rng.choice(keys)]
        elif how == 3 and isinstance(place[key], (int, float)):
            place[key] = rng.choice(
                [
                    -place[key],
                    place[key] * 10**6,
                    place[key] + (0.5 if abs(place[key]) < 1e300 else 1),
                    str(place[key]),
                    [place[key]],
                ]
            )
        else:
            place[key] = odd_json(seeds, rng)
        if not isinstance(value, (dict, list)) or not value:
            break
    return value


def as_json(rng: random.Random, value: Any) -> bytes:
    """JSON, now and then nested deeply, with a key twice, or with a number of thousands of digits."""
    whole = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1]))
    how = rng.randrange(24)
    if how == 0:
        whole = whole.replace(": ", ": " + "[" * 10_000 + "]" * 10_000 + ', "x": ', 1)
    elif how == 1:
        whole = "[" * 100_000
    elif how == 2:
        whole = whole.replace("1", "9" * 5000, 1)
    elif how == 3 and whole.startswith("{"):
        whole = "{" + whole[1:-1] + ", " + whole[1:]
    return whole.encode("utf-8", "surrogatepass")


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Bytes flipped, cut off, repeated, moved, or replaced by extreme numbers."""
    held = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        size = len(held)
        if not size:
            return rng.randbytes(rng.randrange(100))
        at = rng.randrange(size)
        if rng.random() < 0.4:  # headers stand at the beginning, and in some formats at the end
            at = min(rng.randrange(128), size - 1) if rng.random() < 0.6 else max(size - 1 - rng.randrange(128), 0)
        how = rng.randrange(9)
        if how <= 1:
            held[at] ^= 1 << rng.randrange(8)
        elif how == 2:
            held[at] = rng.randrange(256)
        elif how == 3:
            del held[at:]
        elif how == 4:
            del held[at : at + rng.randrange(1, 64)]
        elif how == 5:
            held[at:at] = held[at : at + rng.randrange(1, 200)]
        elif how == 6:
            number = rng.choice([0, -1, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 1, 127, 10**12])
            width = rng.choice([1, 2, 4, 8])
            value = (number & ((1 << 8 * width) - 1)).to_bytes(width, rng.choice(["little", "big"]))
            held[at : at + width] = value
        elif how == 7:
            other = rng.randrange(size)
            length = rng.randrange(1, 64)
            held[at : at + length] = held[other : other + length]
        else:
            held[at:at] = rng.randbytes(rng.randrange(1, 32))
    return bytes(held)


# --- Tables -----------------------------------------------------------------------------------------------------


def _table_command(rng: random.Random, name: str, target: str = "y") -> list[str]:
    """Choose a command that reads a table; the files that it would write exist already."""
    model = "arrays.safetensors" if name.endswith("npz") else "model.safetensors"
    commands = [
        ["predict", model, name, "--out", "out.csv"],
        ["predict", model, name, "--proba", "--keep", "id"] if model[0] == "m" else ["predict", model, name, "--proba"],
        ["suggest", model, name, "--count", "3", "--out", "out.csv"],
        ["fit", name, "--target", target, "--out", "old.safetensors"],
        ["fit", name, "--target", target, "--also", name, "--category", "size" if model[0] == "m" else "x0"],
        ["fit", name, "--target", target, "--labels", name, "--out", "old.safetensors"],
        ["curve", name, "--target", target, "--out", "out.svg"],
    ]
    return rng.choice(commands)


def _around_a_table(seeds: Seeds, folder: Path) -> None:
    seeds.copy("model.safetensors", folder)
    seeds.copy("arrays.safetensors", folder)
    shutil.copy(folder / "model.safetensors", folder / "old.safetensors")
    (folder / "out.csv").write_text("kept\n")
    (folder / "out.svg").write_text("<svg/>")


def csv_table(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    _around_a_table(seeds, folder)
    seed = seeds.bytes("table.csv")
    how = rng.randrange(10)
    if how < 4:
        data = damaged(rng, seed)
    elif how < 7:
        rows = list(csv.reader(io.StringIO(seed.decode())))
        for _ in range(rng.choice([1, 2, 10, 100])):
            row = rows[0 if rng.random() < 0.2 else rng.randrange(len(rows))]
            if row:
                place = rng.randrange(len(row))
                row[place] = rng.choice([text(seeds, rng), text(seeds, rng), "z" * 140_000, "1e999", "0" * 4000])
            if rng.random() < 0.1:
                row.append("more")
        written = io.StringIO()
        style: dict[str, Any] = {"delimiter": rng.choice(",;\t|"), "lineterminator": rng.choice(["\n", "\r\n", "\r"])}
        csv.writer(written, quoting=rng.choice([0, 1]), **style).writerows(rows)
        encoding = rng.choice(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "cp1252", "latin-1", "utf-7"])
        data = written.getvalue().encode(encoding, "replace" if encoding != "utf-8" else "surrogatepass")
    else:
        header = "id,size,colour,when,y\n"
        data = rng.choice(
            [
                lambda: b"", lambda: b"\n" * rng.randrange(5), lambda: header.encode(), lambda: header.encode()[:-1],
                lambda: (header + "1,2,red,2024-01-01,cat\n").encode(), lambda: b"\0" * 1000,
                lambda: (header * 2).encode(), lambda: ("," * 100_000 + "\n").encode(), lambda: b'"' * 1001,
                lambda: ("c" + ",c".join(map(str, range(20_000))) + "\n").encode() * 2, lambda: rng.randbytes(5000),
                lambda: seed.replace(b"\n", b"\n\n"), lambda: seed.replace(b",", b"\0"), lambda: seed + b'"never closed,',
                lambda: seed.replace(b"cat", b""), lambda: seed.replace(b"dog", b"cat"), lambda: b"y\n" + b"a\n" * 99,
                lambda: (header + "".join(f"{i},{i},{i},{i},{i}\n" for i in range(300))).encode(),
                lambda: b"\xff\xfe" + seed, lambda: b"PK\x03\x04" + seed, lambda: b"PAR1" + seed, lambda: b"\x1f\x8b" + seed,
                lambda: b"\x93NUMPY\x01\0" + seed, lambda: b"SQLite format 3\0" + seed, lambda: b"%PDF-1.4\n" + seed,
                lambda: (header + ("9" * 100_000 + ",") * 4 + "cat\n").encode(), lambda: seed.replace(b"2024", b"99999"),
            ]
        )()  # fmt: skip
    (folder / "bad.csv").write_bytes(data)
    if rng.random() < 0.1:
        return Prepared(["predict", "model.safetensors", "-", "--out", "out.csv"], stdin=str(folder / "bad.csv"))
    argv = _table_command(rng, "bad.csv")
    if rng.random() < 0.15:
        argv += rng.choice([["--encoding", text(seeds, rng)], ["--delimiter", text(seeds, rng)]])
    return Prepared([part.replace("\0", "") for part in argv])


def npz_table(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    _around_a_table(seeds, folder)
    path = folder / "bad.npz"
    if rng.random() < 0.45:
        data = damaged(rng, seeds.bytes("table.npz"))
    else:
        whole = io.BytesIO()
        with zipfile.ZipFile(whole, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as archive:
            members = [
                (name, _npy(seeds, rng)) for name in rng.sample(["X", "y", "id", "x0", "z"], rng.randrange(1, 4))
            ]
            if rng.random() < 0.6:
                good = {"X": np.zeros((6, 4), np.float32), "y": np.arange(6) % 2}
                members = [("X", _npy_of(good["X"])), ("y", _npy_of(good["y"]))]
                members[rng.randrange(2)] = (rng.choice("Xy"), _npy(seeds, rng))
            for name, content in members:
                end = rng.choice([".npy", ".npy", ".npy", ".npy", ".txt", ""])
                archive.writestr(rng.choice(["", "", "", "", "../", "a/"]) + name + end, content)
            if rng.random() < 0.04:
                archive.writestr("bomb.npy", _npy_of(np.zeros(30_000_000)), zipfile.ZIP_DEFLATED)
        data = whole.getvalue()
        if rng.random() < 0.15:  # encrypted, or compressed in another way, as the directories say
            flag, method = rng.choice([(1, None), (None, 99), (None, 12), (0xFFFF, None)])
            for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
                if flag is not None:
                    data = _patch(data, mark, at, struct.pack("<H", flag))
                if method is not None:
                    data = _patch(data, mark, at + 2, struct.pack("<H", method))
    path.write_bytes(data)
    return Prepared(_table_command(rng, "bad.npz"))


def _patch(data: bytes, mark: bytes, offset: int, value: bytes) -> bytes:
    at = data.find(mark)
    return data if at < 0 else data[: at + offset] + value + data[at + offset + len(value) :]


def _npy_of(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=False)
    return file.getvalue()


def _npy(seeds: Seeds, rng: random.Random) -> bytes:
    """An array whose header claims something, with few bytes behind it."""
    if rng.random() < 0.3:
        kinds = [
            "f2",
            "f8",
            "i1",
            "i8",
            "u8",
            "b1",
            "c16",
            "S5",
            "U3",
            "M8[s]",
            "m8[D]",
            "V8",
            "S0",
            "U0",
            ">f4",
            ">i2",
        ]
        array = np.zeros(rng.choice([(6,), (6, 4), (6, 2, 2), (0, 4), (6, 0), (), (1, 4)]), rng.choice(kinds))
        if array.dtype.kind == "f":
            array[...] = rng.choice([0, np.nan, np.inf, -np.inf, 1e-45])
        return _npy_of(np.asfortranarray(array) if rng.random() < 0.3 else array)
    shape = rng.choice(
        ["(6, 4)", "(10**12, 4)", "(1000000000000, 4)", "(6, 1000000000000)", "(-1, 4)", "(6, -4)", "(6.5, 4)", "(True, 4)",
         "('6', 4)", "()", "(6,)", "6", "None", "(99999999999999999999999, 1)", "(0, 0)", "(6, 4, 1, 1)", "((6,),)",
         "(4294967296, 4294967296)", "(6, 4" + ", 1" * 70 + ")", "(2147483648,)", "(6, 4)" * 2, "[6, 4]"]
    )  # fmt: skip
    kind = rng.choice(
        ["'<f4'", "'<f8'", "'|O'", "'V8'", "'|V8'", "'<U400000000'", "'<U3'", "'S2147483647'", "'<M8[ns]'", "'x'", "''",
         "[('a', '<f4'), ('b', '<i4')]", "[('a', '<f4', (1000000,))]", "'<f4,<f4'", "None", "'float32'", "'<c16'",
         "'<f' + '4'", "('<f4', (10,))", "'>i8'", "'|S0'", "'<U0'", "'?'", "'<f3'", "'<g'", "'" + "f" * 3000 + "'"]
    )  # fmt: skip
    header = f"{{'descr': {kind}, 'fortran_order': {rng.choice(['False', 'True', '0', 'x'])}, 'shape': {shape}, }}"
    header = rng.choice(
        [header] * 12 + ["{" * 5000, header[:-2], "(" * 9000, "", header + "}", "9" * 5000, header * 30]
    )
    encoded = header.encode("latin-1") + b"\n"
    version = rng.choice([(1, 0)] * 6 + [(2, 0), (3, 0), (9, 9), (0, 0)])
    claimed = rng.choice([len(encoded)] * 8 + [0, 5, 65535])
    size = struct.pack("<H", claimed & 0xFFFF) if version == (1, 0) else struct.pack("<I", rng.choice([claimed, 2**31]))
    return b"\x93NUMPY" + bytes(version) + size + encoded + bytes(rng.choice([0, 96, 1000]))


def parquet_table(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    import pyarrow as pa
    import pyarrow.parquet

    _around_a_table(seeds, folder)
    path = folder / "bad.parquet"
    if rng.random() < 0.6:
        path.write_bytes(damaged(rng, seeds.bytes("table.parquet")))
    else:
        n = rng.choice([0, 1, 6, 60])
        import datetime
        import decimal

        columns = {
            "id": pa.array(range(n)),
            "size": pa.array([0.5] * n),
            "colour": pa.array(["red"] * n),
            "when": pa.array([datetime.datetime(2024, 1, 1)] * n),
            "y": pa.array(["cat", "dog", None, None, None, None] * 10)[:n],
        }
        odd = [
            pa.array([[1, 2]] * n), pa.array([{"a": 1}] * n), pa.array([decimal.Decimal("1.5")] * n), pa.nulls(n),
            pa.array([b"\xff\0"] * n), pa.array([datetime.time(1)] * n), pa.array([datetime.date(1, 1, 1)] * n),
            pa.array([2**63] * n, pa.uint64()), pa.array([float("nan")] * n), pa.array([float("inf")] * n),
            pa.array(["x" * 200_000] * n), pa.array(["a", "b"] * n)[:n].dictionary_encode(), pa.array([True] * n),
            pa.array([datetime.timedelta(1)] * n), pa.array([10**18] * n, pa.timestamp("ns")), pa.array([1] * n, pa.int8()),
            pa.array([-(2**62)] * n, pa.timestamp("s")), pa.array([0.1] * n, pa.float16()) if n else pa.nulls(n),
            pa.array(["\0"] * n), pa.array(["\x1b[31m"] * n),
        ]  # fmt: skip
        for _ in range(rng.randrange(1, 4)):
            columns[rng.choice([*columns, text(seeds, rng)])] = rng.choice(odd)
        for _ in range(rng.choice([0, 0, 1])):
            columns.pop(rng.choice(list(columns)))
        names, arrays = list(columns), list(columns.values())
        if rng.random() < 0.1 and names:
            names, arrays = [*names, names[0]], [*arrays, arrays[0]]
        try:
            pyarrow.parquet.write_table(pa.table(arrays, names=names), path)
        except (pa.ArrowException, UnicodeError, ValueError, TypeError):  # not every type can be stored
            path.write_bytes(b"PAR1")
    return Prepared(_table_command(rng, "bad.parquet"))


# --- Model files ------------------------------------------------------------------------------------------------


def _model_command(rng: random.Random, bad: str) -> list[str]:
    table = "table.npz" if rng.random() < 0.2 else "table.csv"
    commands = [
        ["inspect", bad], ["inspect", bad, "--json"], ["predict", bad, table, "--out", "out.csv"], ["suggest", bad, table],
        ["fit", "table.csv", "--target", "y", "--out", "model.csv"],
    ]  # fmt: skip
    return rng.choice(commands[:4])


def _around_a_model(seeds: Seeds, folder: Path) -> None:
    seeds.copy("table.csv", folder)
    seeds.copy("table.npz", folder)
    (folder / "out.csv").write_text("kept\n")


def _parsed(content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    return header["__metadata__"], _loaded(content)


def _loaded(content: bytes) -> dict[str, Any]:
    """Sort arrays by name; the order in a file may differ between processes."""
    return dict(sorted(safetensors.numpy.load(content).items()))


def _same_arrays(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(
        (a[name].dtype, a[name].shape, a[name].tobytes()) == (b[name].dtype, b[name].shape, b[name].tobytes())
        for name in a
    )


def model_file(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    _around_a_model(seeds, folder)
    seed = seeds.bytes(rng.choice(["model.safetensors", "arrays.safetensors"]))
    (folder / "bad.safetensors").write_bytes(damaged(rng, seed))

    def unchanged() -> bool:
        about, arrays = _parsed(seed)
        bad_about, bad_arrays = _parsed((folder / "bad.safetensors").read_bytes())
        return about == bad_about and _same_arrays(arrays, bad_arrays)

    return Prepared(_model_command(rng, "bad.safetensors"), same=_holds(unchanged))


def signed_model(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    """A model file with other content and a checksum that fits it."""
    from laddernet.inference import modelfile

    _around_a_model(seeds, folder)
    about, arrays = _parsed(seeds.bytes(rng.choice(["model.safetensors", "arrays.safetensors"])))
    told = about["about"]
    if rng.random() < 0.7:
        told = as_json(rng, mutated(seeds, rng, json.loads(told))).decode("utf-8", "replace")
    if rng.random() < 0.5:
        for _ in range(rng.choice([1, 1, 3])):
            name = rng.choice(list(arrays))
            array = arrays[name]
            arrays[name] = rng.choice(
                [
                    lambda a: np.zeros((0, *a.shape[1:]), a.dtype), lambda a: a.reshape(-1), lambda a: a[..., None],
                    lambda a: a.astype(np.float16), lambda a: a.astype(np.int64), lambda a: a.astype(np.uint8),
                    lambda a: np.full_like(a, np.nan) if a.dtype.kind == "f" else a, lambda a: a * 0, lambda a: a.T,
                    lambda a: a * np.asarray(1e38, np.float32), lambda a: np.repeat(a, 3, 0) if a.ndim else a,
                    lambda a: np.zeros((), a.dtype), lambda a: a > 0, lambda a: a[..., :-1] if a.ndim else a,
                ]
            )(array)  # fmt: skip
        if rng.random() < 0.3:
            arrays.pop(rng.choice(list(arrays)))
        if rng.random() < 0.2:
            arrays[text(seeds, rng).encode("utf-8", "replace").decode()] = np.zeros(3, np.float32)
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    kind = about["laddernet"] if rng.random() < 0.9 else rng.choice(["classifier", "", text(seeds, rng)])
    kind = kind.encode("utf-8", "replace").decode()
    header = {"laddernet": kind, "about": told, "sha256": modelfile._check(kind, told, arrays)}
    (folder / "bad.safetensors").write_bytes(safetensors.numpy.save(arrays, metadata=header))
    return Prepared(_model_command(rng, "bad.safetensors"))


# --- Runs, stores, plans, TOML ----------------------------------------------------------------------------------


def checkpoint(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    """A run's folder with a damaged checkpoint, configuration or result."""
    argv = ["train", *TINY, "--out", "run"]
    if rng.random() < 0.2:
        shutil.copytree(seeds.folder / "finished", folder / "run")
        path = folder / "run" / rng.choice(["config.json", "result.json"])
        held = path.read_bytes()
        path.write_bytes(
            damaged(rng, held) if rng.random() < 0.5 else as_json(rng, mutated(seeds, rng, json.loads(held)))
        )
        return Prepared(argv)
    run = seeds.copy("run", folder)
    records = sorted((run / "checkpoints").glob("*.json"))
    for path in records[:-1]:  # the last one is left alone, without an older one to fall back on
        path.unlink()
        path.with_suffix(".safetensors").unlink()
    record, arrays = records[-1], records[-1].with_suffix(".safetensors")
    before = json.loads(record.read_bytes()), arrays.read_bytes()
    if rng.random() < 0.7:
        path = rng.choice([record, arrays])
        path.write_bytes(damaged(rng, path.read_bytes()))
        return Prepared(argv, same=_holds(lambda: (json.loads(record.read_bytes()), arrays.read_bytes()) == before))
    # Damage that the checksums do not detect.
    changed_record = before[0]
    if rng.random() < 0.5:
        changed_record = mutated(seeds, rng, changed_record)
    else:
        held = _loaded(before[1])
        name = rng.choice(list(held))
        held[name] = rng.choice([held[name][..., None], held[name].astype(np.float64), held[name].reshape(-1)])
        if rng.random() < 0.3:
            held.pop(name)
        arrays.write_bytes(safetensors.numpy.save(held))
    if isinstance(changed_record, dict):
        changed_record.pop("check", None)
        if "sha256" in changed_record:
            changed_record["sha256"] = hashlib.sha256(arrays.read_bytes()).hexdigest()
        changed_record["check"] = hashlib.sha256(json.dumps(changed_record, sort_keys=True).encode()).hexdigest()
    record.write_bytes(as_json(rng, changed_record))
    return Prepared(argv)


def store(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    search = rng.random() < 0.35
    held = seeds.copy("tune" if search else "study", folder)
    path = held / ("tune.db" if search else "study.db")
    if rng.random() < 0.6:
        path.write_bytes(damaged(rng, path.read_bytes()))
    else:
        _change_database(seeds, rng, path)
    if search:
        argv = rng.choice(
            [["tune", "report"], ["tune", "report", "vanilla"], ["tune", "vanilla", *TINY, "--trials", "3"]]
        )
        return Prepared([*argv, "--out", "tune"])
    again = ["study", "--models", "vanilla,baseline", "--seeds", "2", *TINY]
    return Prepared([*rng.choice([["report"], ["study", "status"], again, [*again, "--dry-run"]]), "--out", "study"])


def _change_database(seeds: Seeds, rng: random.Random, path: Path) -> None:
    """Change values, columns and tables of a store."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        tables = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for _ in range(rng.choice([1, 1, 3])):
            table = rng.choice(tables)
            columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
            column = rng.choice(columns)
            value: Any = rng.choice(
                [None, -1, 1.5, 2**62, b"\xff\0", "", "{", "[" * 5000, "null", "NaN", as_json(rng, odd_json(seeds, rng)),
                 text(seeds, rng).encode("utf-8", "replace").decode(), as_json(rng, odd_json(seeds, rng)).decode("utf-8", "replace")]
            )  # fmt: skip
            statement, values = rng.choice(
                [
                    (f"UPDATE {table} SET {column} = ?", [value]),
                    (f"UPDATE {table} SET {column} = ?", [value]),
                    (f"UPDATE {table} SET {column} = ?", [value]),
                    (f"DELETE FROM {table}", []),
                    (f"DROP TABLE {table}", []),
                    (f"ALTER TABLE {table} RENAME COLUMN {column} TO other", []),
                    ("PRAGMA user_version = 99", []),
                    ("PRAGMA application_id = 7", []),
                    ("CREATE TABLE other (x)", []),
                ]
            )
            try:
                file.execute(statement, values)
            except (sqlite3.Error, OverflowError):  # a constraint refuses the value
                continue
            if statement.startswith(("DROP", "ALTER")):
                break


def plan(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    path = seeds.copy("study", folder) / "study.json"
    held = path.read_bytes()
    path.write_bytes(damaged(rng, held) if rng.random() < 0.4 else as_json(rng, mutated(seeds, rng, json.loads(held))))
    again = ["study", "--models", "vanilla,baseline", "--seeds", "2", *TINY]
    return Prepared([*rng.choice([["report"], ["study", "status"], again]), "--out", "study"])


def toml(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    name = rng.choice(["tuned.toml", "space.toml"])
    held = seeds.bytes(name)
    if rng.random() < 0.5:
        data = damaged(rng, held)
    else:
        lines = held.decode().splitlines()
        values = [
            "[" * 2000 + "]" * 2000, "{a=" * 500 + "1" + "}" * 500, "9" * 5000, "1e999", "nan", "inf", "-1", "''", "[]",
            "{}", "true", "2024-01-01", "[1, 'x']", "0x" + "f" * 99, '"' + "x" * 9999 + '"', "1979-05-27T07:32:00Z", "[[[1]]]",
        ]  # fmt: skip
        for _ in range(rng.choice([1, 1, 3])):
            at = rng.randrange(len(lines))
            key, equals, _ = lines[at].partition("=")
            lines[at] = rng.choice(
                [f"{key}= {rng.choice(values)}" if equals else f"[{key}.x]", f"[{text(seeds, rng)}]", "", text(seeds, rng),
                 f"{text(seeds, rng)} = {rng.choice(values)}", lines[rng.randrange(len(lines))]]
            )  # fmt: skip
        data = "\n".join(lines).encode("utf-8", "surrogateescape")
    (folder / name).write_bytes(data)
    if name == "space.toml":
        more = rng.choice([["--show-space"], [*TINY, "--out", "new"]])
        return Prepared(["tune", "vanilla", "--space", name, *more])
    return Prepared(
        [*rng.choice([["train"], ["study", "--models", "vanilla"]]), *TINY, "--tuned", name, "--out", "new"]
    )


# --- Options ----------------------------------------------------------------------------------------------------

# Options that use the network, a cluster or a device are not given at random.
_LEFT_OUT = {"--executor", "--address", "--storage", "--help", "--data", "--write", "--cpus-per-run", "--gpus-per-run"}


def _commands() -> dict[str, list[Any]]:
    """Read the options of every command from its parser."""
    import typer

    from laddernet.cli.main import _COMMANDS

    found = {}
    for module, names in _COMMANDS.items():
        for name in names:
            alone = typer.Typer(add_completion=False)
            alone.command(name)(getattr(__import__(module, fromlist=[name]), name))
            found[name] = typer.main.get_command(alone).params  # type: ignore[attr-defined]
    return found


_OPTIONS: dict[str, list[Any]] = {}


def options(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    if not _OPTIONS:
        _OPTIONS.update(_commands())
    _around_a_table(seeds, folder)
    seeds.copy("table.csv", folder)
    seeds.copy("tuned.toml", folder)
    new = ["--out", "new"]
    base = {
        "fit": ["fit", "table.csv", "--target", "y"],
        "predict": ["predict", "model.safetensors", "table.csv"],
        "inspect": ["inspect", "model.safetensors"],
        "suggest": ["suggest", "model.safetensors", "table.csv"],
        "label": ["label", "table.csv"],
        "compare": ["compare", "model.safetensors", "model.safetensors", "table.csv"],
        "curve": ["curve", "table.csv", "--target", "y"],
        "models": ["models"],
        "train": ["train", *TINY, *new],
        "study": ["study", "--models", "vanilla", *TINY, *new],
        "report": ["report", *new],
        "tune": ["tune", "vanilla", *TINY, *new],
    }
    command = rng.choice(
        ["fit", "predict", "suggest", "curve", "train", "train", "study", "study", "tune", "tune", *base]
    )
    argv = list(base[command])
    flags = [
        option for option in _OPTIONS[command] if option.opts[0].startswith("--") and option.opts[0] not in _LEFT_OUT
    ]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        if not flags:
            break
        option = rng.choice(flags)
        if getattr(option, "is_flag", False):
            argv.append(rng.choice([*option.opts, *option.secondary_opts]))
            continue
        value = text(seeds, rng).replace("\0", "")
        if option.opts[0] in ("--out", "--also", "--labels", "--store", "--space") and value.startswith(
            ("/", "~", "..")
        ):
            value = "in/" + value.lstrip("/.~")  # only the case's folder may be written to
        if option.opts[0] == "--store" and "://" not in value and rng.random() < 0.3:
            value = (
                rng.choice(["postgresql://127.0.0.1:1/x", "mysql://a/b", "sqlite:///new.db", "://", "postgresql://"])
                + value
            )
        argv += [f"{option.opts[0]}={value}"] if rng.random() < 0.5 else [option.opts[0], value]
    if rng.random() < 0.1:
        argv.insert(rng.randrange(len(argv) + 1), text(seeds, rng).replace("\0", ""))
    return Prepared(argv)


def combinator(seeds: Seeds, rng: random.Random, folder: Path) -> Prepared:
    """Write a Python file whose combinator is invalid."""
    good = (
        "import equinox as eqx\n\nclass Mine(eqx.Module):\n    a: object\n\n    def __init__(self, units, *, key=None):\n"
        "        import jax.numpy as jnp\n        self.a = jnp.zeros(units)\n\n    def __call__(self, z, u):\n        return z * self.a + u\n"
    )
    source = rng.choice(
        [
            damaged(rng, good.encode()), good.encode("utf-16"), b"raise ValueError('no')", b"1/0", b"def", b"\0", b"", b"Mine = 3",
            b"class Mine: pass", b"class Mine:\n def __call__(self): pass", b"import nowhere", b"class Mine(int): pass",
            b"def Mine(*a, **k): return None", b"Mine = None",
            b"class Mine:\n def __init__(self, *a, **k): raise RuntimeError('x\\ny')",
        ]
    )  # fmt: skip
    (folder / "comb.py").write_bytes(source)
    name = rng.choice(
        ["comb.py:Mine"] * 6 + ["comb.py:", "comb.py", ":Mine", "comb.py:No", "./comb.py:Mine", "comb:Mine", "."]
    )
    command = rng.choice([["train"], ["study", "--seeds", "1"]])
    return Prepared([*command, *TINY, "--out", "new", "--model" if command[0] == "train" else "--models", name])


# The kinds, each with its share of the cases.
KINDS: dict[str, tuple[Kind, int]] = {
    "csv": (csv_table, 24),
    "npz": (npz_table, 16),
    "parquet": (parquet_table, 10),
    "model": (model_file, 12),
    "signed model": (signed_model, 8),
    "checkpoint": (checkpoint, 6),
    "store": (store, 7),
    "plan": (plan, 5),
    "toml": (toml, 4),
    "options": (options, 14),
    "combinator": (combinator, 2),
}


# --- The part ---------------------------------------------------------------------------------------------------


def run(asked: Options, shim: Path | None) -> Outcome:
    cores = len(os.sched_getaffinity(0))
    (asked.work / "cache").mkdir(parents=True, exist_ok=True)
    cores = min(cores, 2)
    outcome = Outcome()
    with Pool([Server(environment(asked.work), asked.work / "log", shim) for _ in range(cores)]) as pool:
        with pool.one() as server:
            seeds = Seeds(asked.work / "seeds", server, shim is not None, asked.seed)
        count = asked.count or (LONG_COUNT if asked.long else COUNT)
        cases = iter(asked.cases or range(count))
        batches = iter(lambda: list(islice(cases, BATCH)), [])
        for _ in pool.map(lambda server, batch: _batch(asked, seeds, server, batch, outcome), batches):
            done = outcome.counts["cases"]
            asked.on_case(f"{done:,} of {count:,} inputs, {len(outcome.failures)} failures")
    return outcome


def prepare(asked: Options, seeds: Seeds, case: int, folder: Path) -> tuple[str, Prepared]:
    rng = random.Random(f"inputs {asked.seed} {case}")
    names = list(seeds.kinds)
    name = asked.kind or rng.choices(names, [seeds.kinds[name][1] for name in names])[0]
    folder.mkdir(parents=True)
    return name, seeds.kinds[name][0](seeds, rng, folder)


def _batch(asked: Options, seeds: Seeds, server: Server, cases: list[int], outcome: Outcome) -> None:
    place = asked.work / f"inputs-{cases[0]}"
    prepared = [(case, place / str(case), *prepare(asked, seeds, case, place / str(case))) for case in cases]
    before = {case: contents(folder) for case, folder, *_ in prepared}
    calls = [
        Call(made.argv, str(folder), True, stdin=made.stdin, seconds=SECONDS, memory=ADDRESSES)
        for _, folder, _, made in prepared
    ]
    for (case, folder, kind, made), ended in zip(prepared, server.call(calls), strict=True):
        outcome.add("cases")
        outcome.add(f"cases: {kind}")
        accepted = not (ended.signal or ended.hung) and (ended.accepted or ended.code == 0)
        outcome.add("accepted" if accepted else "refused")
        outcome.counts["most memory"] = max(outcome.counts["most memory"], ended.memory)
        why = _why(ended, accepted, made, before[case], folder)
        if why:
            about = f"{describe(made.argv)}\n{why}\n{ended.err}"
            kept = keep(folder, "inputs", asked.seed, case, about)
            if made.stdin:
                why += f" (stdin: {made.stdin})"
            outcome.failures.append(Failure("inputs", case, f"{kind}: {describe(made.argv)}", why, kept))
    shutil.rmtree(place, ignore_errors=True)


def _why(ended: Ended, accepted: bool, made: Prepared, before: dict[str, bytes], folder: Path) -> str | None:
    """Return the check that failed; None if there is none."""
    if ended.hung:
        return f"no end within {SECONDS:.0f} s"
    if ended.signal:
        return f"ended by signal {ended.signal}"
    if ended.memory > GROWTH:
        return f"grew by {ended.memory >> 20} MB"
    if why := complaint(ended.code, ended.err):
        return why
    if accepted:
        if made.same is False:
            return "a damaged file was accepted"
        return _replaced(before, contents(folder))
    if ended.code != 2:
        return f"exit code {ended.code}: {ended.err[:300]}"
    if lost := changed(before, contents(folder)):
        return f"refused, but changed {', '.join(lost)}"
    return None


def _replaced(before: dict[str, bytes], after: dict[str, bytes]) -> str | None:
    """Return the saved result that an accepted command has changed or lost; None if there is none."""
    from laddernet.report.writers import finished_runs

    for name in changed(before, after):
        content = before[name]
        if name.startswith(("study/runs/", "tune/draws/")):
            return f"accepted, but changed {name}"
        if name == "study/table.csv" and content not in after.values():  # a table may be moved
            now = finished_runs(after[name].decode()) if name in after else 0
            if now < finished_runs(content.decode()):
                return "accepted, but the table has fewer runs than before"
    return None


def _holds(condition: Callable[[], bool]) -> bool:
    try:
        return condition()
    except (ValueError, KeyError, TypeError, safetensors.SafetensorError, RecursionError, zlib.error):
        return False


def figures(outcome: Outcome) -> Iterator[tuple[str, str]]:
    counts = outcome.counts
    yield "inputs", f"{counts['cases']:,}"
    kinds = [name for name in counts if name.startswith("cases: ")]
    yield "by kind", ", ".join(f"{name.removeprefix('cases: ')} {counts[name]:,}" for name in sorted(kinds))
    yield "refused with one sentence", f"{counts['refused']:,}"
    yield "accepted, being valid", f"{counts['accepted']:,}"
    yield "most memory of one input", f"{counts['most memory'] >> 20:,} MB"
