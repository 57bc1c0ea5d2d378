"""The command `laddernet study`, with real worker processes."""

import csv
import io
import json
from dataclasses import asdict
from pathlib import Path

import pytest
import sqlalchemy as sa
from studies import SETTINGS, tiny
from support import MINE, laddernet

from laddernet.cli.study import _asked
from laddernet.report.status import Status
from laddernet.study.plan import keep_plan, preset, read_plan
from laddernet.study.store import Store
from laddernet.study.worker import perform

SMALL = (*SETTINGS, "--seeds", "2", "--epochs", "2")


def results(folder: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((folder / "s" / "table.csv").read_text())))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    done = laddernet("study", *SMALL, "--jobs", "1", cwd=folder)
    assert done.code == 0, done.err
    return folder


@pytest.mark.process
def test_all_runs_are_done_and_in_the_table(finished: Path) -> None:
    status = Status.of(Store.open(finished / "s" / "study.db"), read_plan(finished / "s")[0])
    assert [run.status for run in status.runs] == ["done"] * 4
    assert all(run.attempts == 1 for run in status.runs)
    by_model = {row["model"]: row for row in results(finished)}
    assert set(by_model) == {"baseline", "vanilla"}
    for run in status.runs:
        assert run.config["seed"] in (1, 2)
        assert run.result is not None
        folder = next((finished / "s").glob(f"runs/*{run.fingerprint[:8]}"))
        assert json.loads((folder / "result.json").read_text())["test_error"] == run.result["test_error"]
    errors = [r.result["test_error"] for r in status.runs if r.result and r.config["model"] == "vanilla"]
    assert float(by_model["vanilla"]["aer"]) == pytest.approx(sum(errors) / 2)
    for end in ("md", "tex"):
        assert "vanilla" in (finished / "s" / f"table.{end}").read_text()


def test_the_same_command_runs_nothing_and_more_seeds_reuse_the_rest(finished: Path) -> None:
    store = Store.open(finished / "s" / "study.db")
    before = {run.fingerprint: run for run in store.runs()}
    again = laddernet("study", *SMALL, cwd=finished)
    assert again.code == 0
    assert "4 done; nothing left to run" in again.out
    assert {run.fingerprint: run for run in store.runs()} == before
    dry = laddernet("study", *SMALL, "--seeds", "3", "--dry-run", cwd=finished)
    assert dry.code == 0
    assert "= 6 runs" in dry.out
    assert "4 done; about" in dry.out
    other = laddernet("study", *SMALL, "--epochs", "3", "--dry-run", cwd=finished)
    assert "0 done; about" in other.out  # another setting is another run
    assert {run.fingerprint: run for run in store.runs()} == before


def test_status_and_report_read_the_store(finished: Path) -> None:
    status = laddernet("study", "status", "--out", "s", cwd=finished)
    assert status.code == 0
    assert "4 runs: 4 done, 0 running, 0 waiting, 0 failed" in status.out
    table = (finished / "s" / "table.md").read_bytes()
    (finished / "s" / "table.md").unlink()
    assert laddernet("report", "--out", "s", cwd=finished).code == 0
    assert (finished / "s" / "table.md").read_bytes() == table


@pytest.mark.process
def test_a_run_that_fails_is_recorded_and_does_not_stop_the_others(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "import jax.numpy as jnp\n"
        "from laddernet.network.combinators import Combinator, PerUnit, initially\n"
        "class Bad(Combinator):\n"
        "    w: PerUnit = initially(1.0)\n"
        "    def __call__(self, z_tilde, u):\n"
        "        return self.w * jnp.log(-1 - u * u)\n"
    )
    few = ("--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--seeds", "1", "--epochs", "1", "--out", "s")
    done = laddernet("study", "--models", "bad.py:Bad,baseline", *few, "--jobs", "1", cwd=tmp_path)
    assert done.code == 1
    assert "bad.py:Bad, 40 labels, seed 1: In epoch 1, step 1" in done.err
    store = Store.open(tmp_path / "s" / "study.db")
    assert store.counts() == {"waiting": 0, "running": 0, "done": 1, "failed": 1}
    again = laddernet("study", "--models", "bad.py:Bad,baseline", *few, cwd=tmp_path)
    assert again.code == 1
    assert [run.attempts for run in store.runs(status="failed")] == [1]
    store.retry_failed()
    assert store.counts()["waiting"] == 1


@pytest.mark.process
@pytest.mark.parametrize("one_word", [False, True])
def test_a_password_is_not_kept(tmp_path: Path, fresh_schema: sa.URL, one_word: bool) -> None:
    secret = fresh_schema.set(password="geheim").update_query_dict({"sslpassword": "geheim", "sslmode": "disable"})
    address = secret.render_as_string(hide_password=False)
    option = [f"--store={address}"] if one_word else ["--store", address]
    done = laddernet("study", *SMALL, "--models", "baseline", "--seeds", "1", *option, cwd=tmp_path)
    assert done.code == 0, done.err
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and b"geheim" in path.read_bytes()]
    assert not kept
    assert "geheim" not in done.out + done.err


def test_a_dry_run_follows_the_recipe_and_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a, b.py").write_text("from laddernet.network.combinators import Linear\n\n\nclass Mine(Linear): ...\n")
    asked = ("study", "mnist-100", "--data", "digits", "--models", '"a, b.py:Mine",linear', "--recipe", "quick")
    ended = laddernet(*asked, "--store", "s.db", "--dry-run", cwd=tmp_path)
    assert "2 models × 100 labels × 3 seeds = 6 runs" in ended.out
    assert [path.name for path in tmp_path.iterdir()] == ["a, b.py"]
    what = _asked(preset("mnist-100"), None, None, None, "quick", None, "digits")
    assert (what.recipe, what.epochs) == ("quick", 30)


def test_the_runs_of_an_edited_combinator_take_the_place_of_the_old_ones(tmp_path: Path) -> None:
    plans = []
    for formula in ("u", "z_tilde"):
        (tmp_path / "mine.py").write_text(MINE.format(formula))
        plans.append(tiny(models=(f"{tmp_path / 'mine.py'}:Mine",)))
        left = keep_plan(tmp_path, plans[-1], store=None, command="one")
    assert not plans[0].keys() & plans[1].keys()
    assert left == list(plans[0])
    assert read_plan(tmp_path).configs == plans[1]
    # A worker that has not loaded the first has no way to train it now.
    config = next(iter(plans[0].values()))
    task = {"config": {**asdict(config), "source": "0" * 64}, "folder": str(tmp_path / "r"), "command": ["x"]}
    ended = perform({**task, "checkpoint_every": 60.0}, lambda record: None)
    assert ended["event"] == "failed"
    assert "has changed since this run was configured" in ended["error"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("study", "papr"), "There is no preset 'papr'; give one of demo"),
        (("study", "--seeds", "0"), "seeds must be an integer from 1 to 10000, got 0."),
        (("study", "--jobs", "0"), "--jobs must be an integer from 1 to 10000, got 0."),
        (("study", "--seeds", "1000000000"), "seeds must be an integer from 1 to 10000, got 1000000000."),
        (("study", "--checkpoint-every", "inf"), "--checkpoint-every must be a finite number of 0 or more, got inf."),
        (("study", "--recipe", "fast"), "There is no recipe 'fast'; give one of paper, quick, small."),
        (("study", "--labels", "ten"), "--labels has 'ten' where a whole number should be"),
        (("study", "--models", "vanila"), "vanilla"),
        (("study", "--data", "cifar"), "cifar"),
        (("study", "--store", "postgresql://nobody@127.0.0.1:1/x"), "Cannot use the store postgresql://nobody@127.0"),
        (("study", "status"), "--out is missing; name the study's folder."),
        (("study", "status", "--out", "."), "holds no study; name the --out of a study."),
        (("report", "--out", "."), "holds no study; name the --out of a study."),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    ended = laddernet(*arguments, cwd=tmp_path)
    assert ended.code == 2
    assert sentence in ended.err
    assert "Traceback" not in ended.err
    assert len(ended.err.strip().splitlines()) == 1


@pytest.mark.process
def test_a_foreign_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("not a database")
    ended = laddernet("study", "--store", "notes.db", cwd=tmp_path)
    assert ended.code == 2
    assert (tmp_path / "notes.db").read_text() == "not a database"


def test_models_that_are_no_list_are_one_sentence(tmp_path: Path) -> None:
    ended = laddernet("study", "--models", "vanilla\rlinear", "--out", "s", cwd=tmp_path)
    assert ended.code == 2
    assert "is not a list of names; put a name with a line break in double quotes." in ended.err
    assert list(tmp_path.iterdir()) == []
