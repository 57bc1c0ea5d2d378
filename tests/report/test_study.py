"""The report of a study: runs of other revisions, and tables that must not be lost."""

import csv
import errno
import io
import os
from pathlib import Path

import pytest
from studies import compute, tables, tiny
from support import laddernet

from laddernet.study.plan import keep_plan, read_plan
from laddernet.study.store import Store
from laddernet.training.config import REVISION


def raise_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("training.config", "study.plan", "report.status"):
        monkeypatch.setattr(f"laddernet.{module}.REVISION", REVISION + 1)


def test_a_report_shows_the_runs_of_another_revision_and_says_so(
    computed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raise_revision(monkeypatch)
    shown = laddernet("report", "--out", ".", "--html", cwd=computed)
    sentence = f"4 of 4 runs are of revision {REVISION} of the training program"
    assert shown.code == 0
    assert "4 of 4 runs are finished" in shown.out
    assert {file for file in ("table.md", "table.tex", "report.html") if sentence in (computed / file).read_text()} == {
        "table.md",
        "table.tex",
        "report.html",
    }
    assert [row["n"] for row in csv.DictReader(io.StringIO((computed / "table.csv").read_text()))] == ["2", "2"]
    assert sentence in laddernet("study", "status", "--out", ".", cwd=computed).out.replace("\n", " ")


def test_a_cell_is_of_one_revision_only(computed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raise_revision(monkeypatch)
    held = read_plan(computed)
    vanilla = {f: c for f, c in tiny().items() if c.model == "vanilla"}
    assert not vanilla.keys() & held.configs.keys()
    left = keep_plan(computed, vanilla, store=None, command="two")
    assert {held.configs[fingerprint].model for fingerprint in left} == {"vanilla"}
    assert len(left) == 2
    now = read_plan(computed)
    assert [now.configs[f].model for f, revision in now.revisions.items() if revision == REVISION] == ["linear"] * 2
    assert {f for f, revision in now.revisions.items() if revision == REVISION + 1} == vanilla.keys()
    compute(computed, vanilla, error=20.0)
    shown = laddernet("report", "--out", ".", cwd=computed)
    assert "4 of 4 runs are finished" in shown.out
    assert f"2 of 4 runs are of revision {REVISION}" in (computed / "table.md").read_text()
    assert not list(computed.glob("*.previous*"))


def test_a_table_is_not_replaced_by_an_emptier_one_without_a_word(computed: Path) -> None:
    before = tables(computed)
    Store.open(computed / "other.db").close()
    for number in ("", "-2"):
        emptier = laddernet("report", "--out", ".", "--store", "other.db", cwd=computed)
        assert emptier.code == 0
        sentence = f"has 4 finished runs, the new one 0; the old files are kept as table.previous{number}.*, if"
        assert sentence in emptier.err
        kept = {
            name.replace(f".previous{number}", ""): text
            for name, text in tables(computed).items()
            if f"previous{number}." in name
        }
        assert kept == before
        again = laddernet("report", "--out", ".", "--store", "other.db", cwd=computed)
        assert (again.code, again.err) == (0, "")
        assert laddernet("report", "--out", ".", cwd=computed).err == ""
        assert {name: tables(computed)[name] for name in before} == before
    (computed / "study.db").unlink()
    absent = laddernet("report", "--out", ".", cwd=computed)
    assert absent.code == 2
    assert {name: tables(computed)[name] for name in before} == before


def test_a_table_that_cannot_be_read_now_stays_where_it_is(computed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tables(computed)
    read = Path.read_bytes

    def no_descriptor(path: Path) -> bytes:
        if path.name == "table.csv":
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(path))
        return read(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", no_descriptor)
        refused = laddernet("report", "--out", ".", cwd=computed)
    assert (refused.code, refused.out) == (2, "")
    assert "Too many open files" in refused.err
    assert tables(computed) == before
