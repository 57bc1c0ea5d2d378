"""Damaged files of a run, and the run of a combinator that was edited."""

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest
from support import MINE, OPTIONS, Finished, Killed, contents, digits, laddernet, run_tiny, tiny_config, tiny_data

from laddernet.errors import InputError
from laddernet.network.models import find
from laddernet.training import checkpoint
from laddernet.training.loop import train
from laddernet.training.run import load_run, read_metrics, run
from laddernet.training.step import initial_state


def mutated(content: bytes, rng: random.Random) -> bytes:
    """Bytes changed, cut, doubled or replaced by something that is well formed and yet wrong."""
    place = rng.randrange(len(content) + 1)
    return rng.choice(
        [
            content[:place],
            content[:place] + rng.randbytes(3) + content[place + 3 :],
            content[:place] + bytes([rng.choice(b'",:{}[]0e\n\xff\0')]) + content[place + 1 :],
            content + content,
            rng.choice([b"[]", b"{}", b"null", b'"x"', b"1e999", b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b""]),
        ]
    )


@pytest.mark.parametrize("name", ["config.json", "metrics.csv", "result.json", "weights.safetensors"])
def test_a_damaged_file_of_a_run_is_one_sentence_or_harmless(
    finished: tuple[Path, Finished], tmp_path: Path, name: str
) -> None:
    rng = random.Random(name)
    folder = shutil.copytree(finished[0], tmp_path / "run")
    config, rows = tiny_config(), digits()
    data = tiny_data(config)
    uses: dict[str, Callable[[], Any]] = {
        "result.json": lambda: (
            f"{run(config, data, (rows.x_test, rows.y_test), folder, command=['x'])['test_error']:.2f}"
        ),
        "metrics.csv": lambda: read_metrics(folder),
    }
    original = (folder / name).read_bytes()
    refusals: list[str] = []
    for _ in range(60):
        (folder / name).write_bytes(mutated(original, rng))
        try:
            uses.get(name, lambda: load_run(folder))()
            if name == "config.json":
                uses["result.json"]()
        except InputError as error:
            refusals.append(str(error))
    assert refusals
    for sentence in refusals:
        assert "\n" not in sentence
        assert str(folder) in sentence


def test_a_result_that_no_float_can_hold_is_refused(finished: tuple[Path, Finished], tmp_path: Path) -> None:
    folder = shutil.copytree(finished[0], tmp_path / "run")
    result = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(result | {"test_error": 10**400}))
    refused = laddernet("train", *OPTIONS, "--out", "run", cwd=tmp_path)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "result.json is damaged" in refused.err


def test_a_damaged_checkpoint_is_one_sentence_or_passed_over(tmp_path: Path) -> None:
    rng = random.Random(0)

    def die(record: dict[str, Any]) -> None:
        if record["epoch"] == 2:
            raise Killed

    with pytest.raises(Killed):
        run_tiny(tmp_path / "run", on_epoch=die)
    config = tiny_config(epochs=3)
    template = checkpoint_template(config)
    folder = tmp_path / "run" / "checkpoints"
    originals = contents(folder)
    assert len(originals) == 4
    for _ in range(60):
        name = rng.choice(sorted(originals))
        (folder / name).write_bytes(mutated(originals[name], rng))
        epoch, _, _, refused = checkpoint.load(folder, template, fingerprint=config.fingerprint)
        if not says_the_same(folder / name, originals[name]):
            assert epoch == (1 if "2." in name else 2)
        assert all("\n" not in sentence for sentence in refused)
        (folder / name).write_bytes(originals[name])


def says_the_same(path: Path, original: bytes) -> bool:
    """Whether a damaged file has lost nothing: in JSON, one kind of space may stand for another."""
    damaged = path.read_bytes()
    try:
        return damaged == original or (path.suffix == ".json" and json.loads(damaged) == json.loads(original))
    except (ValueError, RecursionError):
        return False


def checkpoint_template(config: Any) -> Any:
    return initial_state(jax.random.key(0), config.eta, find(config.model), (64, *config.hidden, 10))


# --- A combinator of the user's own that is edited ----------------------------------------------------------------


def test_an_edited_combinator_is_trained_anew_by_the_same_command(tmp_path: Path) -> None:
    def train_mine(*more: str) -> Finished:
        return laddernet("train", *OPTIONS, "--model", "mine.py:Mine", "--json", *more, cwd=tmp_path)

    def mine(formula: str) -> None:
        (tmp_path / "mine.py").write_text(MINE.format(formula))

    mine("self.b + u")
    first, kept = json.loads(train_mine().out), train_mine("--out", "kept")
    mine("self.b - u")
    second = json.loads(train_mine().out)
    assert second["folder"] != first["folder"]
    assert second["cost"] != first["cost"]
    before = contents(tmp_path / "kept")
    refused = train_mine("--out", "kept")
    assert (kept.code, refused.code) == (0, 2)
    assert "kept holds the run of another source of mine.py:Mine, which has changed since; choose" in refused.err
    assert contents(tmp_path / "kept") == before
    mine("self.b + u")
    assert json.loads(train_mine().out) == first  # what was kept of the first is still its result


def test_a_checkpoint_of_another_source_is_refused(tmp_path: Path) -> None:
    configs = []
    for formula in ("self.b + u", "self.b - u"):
        (tmp_path / "mine.py").write_text(MINE.format(formula))
        configs.append(tiny_config(model=f"{tmp_path / 'mine.py'}:Mine", epochs=1))
    train(configs[1], tiny_data(configs[1]), folder=tmp_path / "checkpoints")
    with pytest.raises(InputError, match="belongs to another run"):
        train(configs[0], tiny_data(configs[0]), folder=tmp_path / "checkpoints")
    with pytest.raises(InputError, match="lacks the digest of the source"):
        train(replace(configs[1], source=None), tiny_data(configs[1]))
    forgotten = replace(configs[0], source="that no process has loaded")
    with pytest.raises(InputError, match="has changed since this run was configured"):
        train(forgotten, tiny_data(forgotten))
