"""Studies that travel: what an exported file holds, and what an import takes from it."""

import json
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support import laddernet, tiny_config

from laddernet.errors import InputError
from laddernet.report.page import _curves
from laddernet.study.exchange import export_runs, read_runs, thinned
from laddernet.study.store import Run, Store
from laddernet.training.config import REVISION

HISTORY = [
    {"epoch": epoch, "cost": 1 / epoch, **({"test_error": 100 / epoch} if epoch % 5 == 0 else {})}
    for epoch in range(1, 201)
]


def run(seed: int, **changes: Any) -> Run:
    config = tiny_config(seed=seed)
    held = json.loads(json.dumps(config.__dict__))
    result = {"test_error": 4.25 + seed, "fingerprint": config.fingerprint, "seconds": 1.0}
    values = {"result": result, "environment": {"python": "3.11"}, "history": HISTORY, **changes}
    others = {"owner": None, "lease": None, "attempts": 1, "progress": None, "error": None}
    times = {"created": 0.0, "started": 0.0, "finished": 1.0}
    return Run(config.fingerprint, held, "done", **others, **times, **values)


def export(path: Path, *runs: Run, revision: int = REVISION) -> int:
    return export_runs(path, runs, {run.fingerprint: revision for run in runs})


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    assert export(path, run(2), run(1)) == 2
    found, refused = read_runs(path)
    assert refused == []
    assert set(found) == {run(1).fingerprint, run(2).fingerprint}
    for seed in (1, 2):
        read, written = found[run(seed).fingerprint], run(seed)
        assert (read["config"], read["result"]) == (written.config, written.result)
        assert read["environment"] == written.environment
        assert read["history"] == thinned(HISTORY)


def test_the_file_is_the_same_whatever_the_order_of_the_runs_and_has_a_line_for_each(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    export(a, run(1), run(2), run(3))
    export(b, run(3))
    export(b, run(2), run(1))
    assert a.read_bytes() == b.read_bytes()
    assert [json.loads(line)["config"]["seed"] for line in a.read_text().splitlines()] == [1, 2, 3]


def test_the_page_shows_the_same_curves_of_a_thinned_history() -> None:
    class Shown:
        def __init__(self, history: list[dict[str, Any]]) -> None:
            self.history = history

    whole, short = (_curves([Shown(history)]) for history in (HISTORY, thinned(HISTORY)))  # type: ignore[list-item]
    assert whole == short
    assert len(thinned(HISTORY)) < len(HISTORY)


def test_every_damaged_line_is_refused_and_the_others_are_read(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    export(path, run(1), run(2))
    first, second = path.read_bytes().splitlines()
    rng = random.Random(1)
    for _ in range(300):
        damaged = bytearray(first)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.choice(b'0123456789"{}[],:aexnul \\')
        if bytes(damaged) == first:
            continue
        path.write_bytes(bytes(damaged) + b"\n" + second + b"\n")
        found, refused = read_runs(path)
        intact = found.pop(run(1).fingerprint, None)
        assert intact is None or intact["result"] == run(1).result  # a change that JSON does not see, as of a space
        assert list(found) == [run(2).fingerprint]
        assert len(refused) == (intact is None)
    for text in (b"[]", b"null", b'{"sha256": 3}', b"[" * 100_000, b"\xff", b'{"a": NaN}'):
        path.write_bytes(text + b"\n" + second + b"\n")
        found, refused = read_runs(path)
        assert list(found) == [run(2).fingerprint]
        assert refused == [
            f"Line 1 of {path} is not imported: it is damaged (not JSON, or its SHA-256 is not that of its content)."
        ]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"result": {"test_error": 101, "fingerprint": ""}}, "fingerprint"),
        ({"result": {}}, "does not hold a finished run"),
        ({"result": None}, "does not hold a finished run"),
        ({"environment": None}, "environment"),
        ({"history": [{"epoch": 1, "\udcff": 1}]}, "does not hold a finished run"),
        ({"history": [{"epoch": 1, "cost": "much"}]}, None),  # not a number: thinning leaves it out
    ],
)
def test_a_line_that_holds_no_finished_run_is_refused(tmp_path: Path, changed: dict[str, Any], reason: str) -> None:
    path = tmp_path / "runs.jsonl"
    export(path, run(1, **changed))
    found, refused = read_runs(path)
    assert len(found) == (reason is None)
    assert all(reason in sentence for sentence in refused)
    assert len(refused) == (reason is not None)


def test_runs_of_another_revision_are_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    export(path, run(1), revision=REVISION - 1)
    found, (sentence,) = read_runs(path)
    assert found == {}
    assert f"revision {REVISION - 1} of the training program computed it, and this is {REVISION}" in sentence


def test_a_run_that_stands_twice_counts_once_and_a_contradiction_is_named(tmp_path: Path) -> None:
    path, other = tmp_path / "runs.jsonl", tmp_path / "other.jsonl"
    export(path, run(1))
    path.write_bytes(path.read_bytes() * 2)
    found, refused = read_runs(path)
    assert (len(found), refused) == (1, [])
    export(other, run(1, result={**(run(1).result or {}), "test_error": 50.0}))
    path.write_bytes(path.read_bytes() + other.read_bytes())
    found, (sentence,) = read_runs(path)
    assert found[run(1).fingerprint]["result"]["test_error"] == 5.25
    assert "line 3" in sentence.lower()
    assert "another test error" in sentence


def test_an_export_does_not_overwrite_a_damaged_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text("my notes\n")
    with pytest.raises(InputError, match=r"Line 1 of .* is damaged"):
        export(path, run(1))
    assert path.read_text() == "my notes\n"


def test_a_store_takes_finished_runs_once(tmp_path: Path) -> None:
    with closing(Store.open(tmp_path / "study.db")) as store:
        runs = {run(seed).fingerprint: run(seed).__dict__ for seed in (1, 2)}
        store.add({run(1).fingerprint: run(1).config})
        store.claim("driver")  # which another machine has finished meanwhile
        assert set(store.add_finished(runs)) == set(runs)
        assert not store.finish("driver", run(1).fingerprint, {"test_error": 99.0}, [], {})
        assert store.add_finished({name: {**held, "result": {"test_error": 99.0}} for name, held in runs.items()}) == []
        assert store.counts() == {"waiting": 0, "running": 0, "done": 2, "failed": 0}
        assert [held.result for held in store.runs()] == [run(1).result, run(2).result]


# --- The commands -------------------------------------------------------------------------------------------------

SMALL = ("--models", "baseline,vanilla", "--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--epochs", "2")


@pytest.mark.process
def test_a_study_goes_on_elsewhere_from_an_exported_file(tmp_path: Path) -> None:
    command = ("study", "demo", *SMALL, "--jobs", "1")
    assert laddernet(*command, "--seeds", "1", "--out", "here", cwd=tmp_path).code == 0
    exported = laddernet("study", "export", "here", "runs.jsonl", cwd=tmp_path)
    assert exported.code == 0, exported.err
    assert "2 runs" in exported.out
    for _ in range(2):
        imported = laddernet("study", "import", "runs.jsonl", "there", cwd=tmp_path)
        assert imported.code == 0, imported.err
    assert "0 runs are new" in imported.out
    table = (tmp_path / "here" / "table.csv").read_bytes()
    assert laddernet("report", "--out", "there", cwd=tmp_path).code == 0
    assert (tmp_path / "there" / "table.csv").read_bytes() == table
    more = laddernet(*command, "--seeds", "2", "--out", "there", cwd=tmp_path)
    assert more.code == 0, more.err
    assert "2 done" in more.out
    assert laddernet("study", "export", "there", "runs.jsonl", cwd=tmp_path).code == 0
    assert len((tmp_path / "runs.jsonl").read_text().splitlines()) == 4


def test_an_import_names_the_lines_that_it_refuses_and_ends_with_code_1(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    export(path, run(1), revision=REVISION - 1)
    export(path, run(2))
    done = laddernet("study", "import", path, "there", cwd=tmp_path)
    assert done.code == 1
    assert f"revision {REVISION - 1}" in done.err
    assert "1 run is new" in done.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("export",),
        ("export", "nowhere", "runs.jsonl"),
        ("import", "nowhere.jsonl", "there"),
        ("import", "nowhere.jsonl"),
        ("demo", "there"),
    ],
)
def test_a_wrong_command_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = laddernet("study", *arguments, cwd=tmp_path)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
