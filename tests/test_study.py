"""A study end to end: real worker processes, killed and interrupted, and the table that must come out the same."""

import csv
import fcntl
import io
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from support import PATIENCE, digits, laddernet, wait_for

from laddernet.errors import InputError
from laddernet.study.cli import _asked
from laddernet.study.driver import drive
from laddernet.study.executors import Task
from laddernet.study.plan import PRESETS, keep_plan, plan, preset, read_plan, shape
from laddernet.study.status import Status, estimate
from laddernet.study.store import Store
from laddernet.study.worker import perform

MODELS = "baseline,vanilla"
SETTINGS = ("--models", MODELS, "--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--out", "s")
SMALL = (*SETTINGS, "--seeds", "2", "--epochs", "2")
LONG = (*SETTINGS, "--seeds", "4", "--epochs", "60", "--checkpoint-every", "0", "--jobs", "2")
ENVIRONMENT = {**os.environ, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


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
        "from laddernet.combinators import Combinator, PerUnit, initially\n"
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


def children(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            state, parent = stat.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == pid and state != "Z":
                found.append(int(stat.parent.name))
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""  # a zombie has none
    except (FileNotFoundError, ProcessLookupError):
        return False


def start(cwd: Path, options: tuple[str, ...] = LONG) -> subprocess.Popen[bytes]:
    arguments = [sys.executable, "-m", "laddernet", "study", *options]
    driver = subprocess.Popen(
        arguments, cwd=cwd, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    started.append(driver)
    return driver


started: list[subprocess.Popen[bytes]] = []


@pytest.fixture(autouse=True)
def _none_is_left() -> Iterator[None]:
    """A test that fails leaves no driver behind, which would keep the machine from the others."""
    yield
    while started:
        driver = started.pop()
        driver.kill()
        driver.communicate()


@pytest.mark.process
def test_twenty_kills_change_nothing(tmp_path: Path) -> None:
    undisturbed, disturbed = tmp_path / "undisturbed", tmp_path / "disturbed"
    undisturbed.mkdir()
    disturbed.mkdir()
    assert laddernet("study", *LONG, cwd=undisturbed).code == 0

    rng = random.Random(20)
    kills = 0
    of_workers = 0  # of this driver, which takes a run to be at fault whose worker dies ten times
    driver = start(disturbed)
    while kills < 20:
        time.sleep(rng.uniform(0.3, 2.5))  # any moment will do
        workers = children(driver.pid)
        if driver.poll() is not None:
            assert driver.returncode == 0, driver.stderr and driver.stderr.read()
            # All was done before the twentieth kill: forget one run, as a crash before its end would have.
            forget_one(disturbed / "s")
            driver = start(disturbed)
            of_workers = 0
        elif workers and of_workers < 8 and rng.random() < 0.75:
            with suppress(ProcessLookupError):  # its driver has just ended it
                os.kill(rng.choice(workers), signal.SIGKILL)
                kills += 1
                of_workers += 1
        else:
            driver.kill()
            driver.wait()
            driver = start(disturbed)
            kills += 1
            of_workers = 0
    assert driver.wait(PATIENCE) == 0, driver.stderr and driver.stderr.read()
    for name in ("table.csv", "table.md", "table.tex"):
        assert (disturbed / "s" / name).read_bytes() == (undisturbed / "s" / name).read_bytes()
    store = Store.open(disturbed / "s" / "study.db")
    assert store.counts() == {"waiting": 0, "running": 0, "done": 8, "failed": 0}
    assert len(list((disturbed / "s" / "runs").iterdir())) == 8


def forget_one(folder: Path) -> None:
    store = Store.open(folder / "study.db")
    run = store.runs()[0]
    store.close()
    with sqlite3.connect(folder / "study.db") as file:
        file.execute("UPDATE laddernet_runs SET status = 'waiting' WHERE fingerprint = ?", (run.fingerprint,))
    shutil.rmtree(next(folder.glob(f"runs/*{run.fingerprint[:8]}")))


@pytest.mark.process
def test_a_driver_that_dies_leaves_no_workers(tmp_path: Path) -> None:
    driver = start(tmp_path)
    wait_for(lambda: children(driver.pid), driver.poll)
    workers = children(driver.pid)
    driver.kill()
    driver.wait()
    wait_for(lambda: not any(map(is_running, workers)))


@pytest.mark.process
def test_two_drivers_on_one_postgresql_store_divide_the_work(tmp_path: Path, fresh_schema: sa.URL) -> None:
    store_name = fresh_schema.render_as_string(hide_password=False)
    options = (*LONG, "--epochs", "10", "--jobs", "1", "--store", store_name)
    drivers = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        drivers.append(start(tmp_path / name, options))
    for driver in drivers:
        assert driver.wait(PATIENCE) == 0, driver.stderr and driver.stderr.read()
    with closing(Store.open(store_name)) as store:
        runs = store.runs()
    assert [(run.status, run.attempts) for run in runs] == [("done", 1)] * 8
    tables = [(tmp_path / name / "s" / "table.csv").read_bytes() for name in ("one", "two")]
    assert tables[0] == tables[1]
    folders = [len(list((tmp_path / name / "s" / "runs").glob("*"))) for name in ("one", "two")]
    assert sum(folders) == 8
    assert laddernet("study", "status", "--out", "s", cwd=tmp_path / "one").code == 0  # the address is in study.json


@pytest.mark.process
@pytest.mark.parametrize("one_word", [False, True])
def test_a_password_is_not_kept(tmp_path: Path, fresh_schema: sa.URL, one_word: bool) -> None:
    address = fresh_schema.set(password="geheim").render_as_string(hide_password=False)
    option = [f"--store={address}"] if one_word else ["--store", address]
    done = laddernet("study", *SMALL, "--models", "baseline", "--seeds", "1", *option, cwd=tmp_path)
    assert done.code == 0, done.err
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and b"geheim" in path.read_bytes()]
    assert not kept


def test_a_run_that_another_process_holds_is_tried_again_not_failed(tmp_path: Path) -> None:
    config = next(iter(tiny().values()))
    task = {"config": asdict(config), "folder": str(tmp_path / "r"), "command": ["x"], "checkpoint_every": 60.0}
    (tmp_path / "r").mkdir()
    with (tmp_path / "r" / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert perform(json.loads(json.dumps(task)), lambda record: None)["event"] == "busy"


class ScriptedExecutor:
    """Trains nothing: it tells what a test has written down, one list of events after the other."""

    slots = 2

    def __init__(self, script: list[list[tuple[int, dict]]]) -> None:
        self._script = iter(script)

    def start(self, slot: int, task: Task) -> None:
        assert slot == 0

    def events(self, timeout: float) -> list[tuple[int, dict]]:
        return next(self._script)

    def close(self) -> None:
        pass


DONE = {"event": "done", "result": {"test_error": 1.0}, "history": [], "environment": {}}
LOST, BUSY = ({"event": event, "error": "It is gone."} for event in ("lost", "busy"))


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ([[(1, LOST)], [(0, DONE)]], "done"),  # slot 1 has nothing to do
        ([[(0, LOST)]] * 9 + [[(0, DONE)]], "done"),
        ([[(0, LOST)]] * 10, "failed"),
        ([[(0, BUSY)]] * 30 + [[(0, DONE)]], "done"),
    ],
    ids=["idle worker killed", "nine deaths", "ten deaths", "held by another"],
)
def test_what_becomes_of_a_run_whose_worker_ends(tmp_path: Path, script: list, status: str) -> None:
    fingerprint, config = next(iter(tiny().items()))
    with closing(Store.open(tmp_path / "study.db")) as store:
        drive(store, {fingerprint: config}, ScriptedExecutor(script), tmp_path, command=["x"])
        assert [run.status for run in store.runs()] == [status]


# --- Plans ------------------------------------------------------------------------------------------------------


def tiny(**changes: object) -> dict:
    models = changes.pop("models", ("vanilla", "linear"))
    what = PRESETS["demo"].__class__("", "digits", (40,), seeds=2, epochs=2, models=models)
    return plan(digits(), what, **{"hidden": (8, 4), **changes})


def test_the_paper_preset_is_table_1() -> None:
    paper = preset("paper")
    assert (paper.data, paper.labels, paper.seeds, paper.epochs) == ("mnist", (100, 1000, 60000), 10, 150)
    assert len(paper.models) == 20


def test_a_dry_run_follows_the_recipe_and_makes_nothing(tmp_path: Path) -> None:
    (tmp_path / "a, b.py").write_text("from laddernet.combinators import Linear\n\n\nclass Mine(Linear): ...\n")
    asked = ("study", "mnist-100", "--data", "digits", "--models", '"a, b.py:Mine",linear', "--recipe", "quick")
    ended = laddernet(*asked, "--store", "s.db", "--dry-run", cwd=tmp_path)
    assert "2 models × 100 labels × 3 seeds = 6 runs" in ended.out
    assert [path.name for path in tmp_path.iterdir()] == ["a, b.py"]
    what = _asked(preset("mnist-100"), None, None, None, "quick", None, "digits")
    assert (what.recipe, what.epochs) == ("quick", 30)


def test_runs_that_differ_in_what_is_compiled_share_no_program() -> None:
    config = next(iter(tiny().values()))
    changes = ({"copies": 2}, {"batch_size": 7}, {"labelled_batch_size": 7}, {"model": "gaussian"}, {"hidden": (8,)})
    assert len({shape(config), *(shape(replace(config, **change)) for change in changes)}) == 1 + len(changes)
    assert shape(config) == shape(replace(config, seed=9, noise=(0.1,) * 4, learning_rate=0.1, epochs=1))


def test_a_plan_grows_but_does_not_mix_settings(tmp_path: Path) -> None:
    first = tiny()
    keep_plan(tmp_path, first, store=None, command="one")
    vanilla = {f: c for f, c in tiny(noise=0.1).items() if c.model == "vanilla"}
    keep_plan(tmp_path, vanilla, store=None, command="two")
    held, store, command = read_plan(tmp_path)
    assert (store, command) == (None, "two")
    assert held == {**{f: c for f, c in first.items() if c.model == "linear"}, **vanilla}


def test_the_estimate_grows_with_what_is_left() -> None:
    few, many = (Status(tiny(batch_size=batch), []) for batch in (400, 100))
    assert 0 < estimate(few, (64, 8, 4, 10), 1198, 1, 1) < estimate(many, (64, 8, 4, 10), 100 * 1198, 1, 1)


def test_the_estimate_counts_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.study.status._gflops", lambda: 1.0)
    once, copied = (
        Status({f: replace(c, copies=copies) for f, c in tiny(batch_size=100).items()}, []) for copies in (1, 3)
    )
    size = (784, 1000, 500, 10), 10**7, 1, 1
    # 100 labelled rows, and 100 without a label of which each goes up clean and each copy up and down.
    assert estimate(copied, *size) / estimate(once, *size) == pytest.approx((1 + 1 + 2 * 3) / (1 + 1 + 2), rel=0.01)


def test_the_estimate_is_for_so_many_cores_and_without_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laddernet.study.status._gflops", lambda: 1.0)  # of a core
    configs = tiny(models=("vanilla",), validation=0)
    with closing(Store.open(tmp_path / "study.db")) as store:
        store.add({fingerprint: asdict(config) for fingerprint, config in configs.items()})
        status = Status.of(store, configs)
        # Two runs of two epochs of twelve steps: 300 rows go up and 100 come down, and a gradient costs twice as much.
        products = 2 * 2 * 12 * 1.4 * 3 * 2 * 400 * (64 * 8 + 8 * 4 + 4 * 10) / 1e9
        others = 2 * 2 * 12 * 0.002 + 10
        for slots, cores in ((1, 1), (4, 1), (1, 2)):
            found = estimate(status, (64, 8, 4, 10), 1198, slots, cores)
            assert found == pytest.approx((products / cores + others) / slots)
        [run] = store.claim("me", list(configs))
        store.fail("me", run.fingerprint, "It diverged.")
        left = estimate(Status.of(store, configs), (64, 8, 4, 10), 1198, 1, 1)
        assert left == pytest.approx((products + others - 10) / 2 + 10)


# --- Bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("study", "papr"), "There is no preset 'papr'; give one of demo"),
        (("study", "--seeds", "0"), "A study of 0 seeds has no runs; give 1 or more."),
        (("study", "--jobs", "0"), "--jobs is 0; it must be 1 or more."),
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


def test_a_foreign_store_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_text("not a database")
    ended = laddernet("study", "--store", "notes.db", cwd=tmp_path)
    assert ended.code == 2
    assert (tmp_path / "notes.db").read_text() == "not a database"


def test_a_damaged_plan_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}")
    with pytest.raises(InputError, match="is not a plan of this version"):
        read_plan(tmp_path)
