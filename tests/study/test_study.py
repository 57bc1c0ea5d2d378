"""A study end to end: real worker processes, killed and interrupted, and the table that must come out the same."""

import csv
import errno
import io
import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from filelock import FileLock
from support import MINE, PATIENCE, digits, laddernet, wait_for

from laddernet.cli.study import _asked
from laddernet.errors import InputError
from laddernet.files import writing
from laddernet.report.status import Status, estimate
from laddernet.study.driver import _place, _release_dead, drive
from laddernet.study.executors import Task
from laddernet.study.plan import PRESETS, keep_plan, plan, preset, read_plan, shape
from laddernet.study.store import Run, Store
from laddernet.study.worker import perform
from laddernet.training.config import REVISION
from laddernet.training.settings import configure

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
        for _ in range(rng.randint(1, 8)):
            wait_for_a_change(disturbed, driver)
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


def wait_for_a_change(folder: Path, driver: subprocess.Popen[bytes]) -> None:
    """Wait until a file is written or removed, a worker is started or ends, or the driver ends."""

    def look() -> tuple[Any, ...]:
        files = {}
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):
                files[path] = path.stat().st_mtime_ns
        return files, children(driver.pid), driver.poll()

    before = look()
    wait_for(lambda: driver.poll() is not None or look() != before)


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
    secret = fresh_schema.set(password="geheim").update_query_dict({"sslpassword": "geheim", "sslmode": "disable"})
    address = secret.render_as_string(hide_password=False)
    option = [f"--store={address}"] if one_word else ["--store", address]
    done = laddernet("study", *SMALL, "--models", "baseline", "--seeds", "1", *option, cwd=tmp_path)
    assert done.code == 0, done.err
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and b"geheim" in path.read_bytes()]
    assert not kept
    assert "geheim" not in done.out + done.err


def test_a_run_that_another_process_holds_is_tried_again_not_failed(tmp_path: Path) -> None:
    config = next(iter(tiny().values()))
    task = {"config": asdict(config), "folder": str(tmp_path / "r"), "command": ["x"], "checkpoint_every": 60.0}
    (tmp_path / "r").mkdir()
    with FileLock(tmp_path / "r" / ".lock"):
        assert perform(json.loads(json.dumps(task)), lambda record: None)["event"] == "busy"


class ScriptedExecutor:
    """Trains nothing: it tells what a test has written down, one list of events after the other."""

    slots = 2

    def __init__(self, script: Iterable[Any]) -> None:
        self._script = iter(script)
        self.started = 0
        self.stopped: list[int] = []

    def start(self, slot: int, task: Task) -> None:
        assert slot == 0
        self.started += 1

    def events(self, timeout: float) -> list[tuple[int, dict]]:
        told = next(self._script)
        return told() if callable(told) else told

    def stop(self, slot: int) -> None:
        self.stopped.append(slot)

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


# --- Two drivers, and workers that hang --------------------------------------------------------------------------

BEGUN = {"event": "begun"}


def epoch(number: int) -> dict[str, Any]:
    return {"event": "epoch", "record": {"epoch": number, "cost": 1.0}}


class Clock:
    """The driver's, or the store's: it stands still unless it is moved."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def drive_one(tmp_path: Path, script: Iterable[Any], clock: Clock, lease: float = 60.0) -> tuple[ScriptedExecutor, Run]:
    """Drive one run with a clock that the driver and its store share."""
    fingerprint, config = next(iter(tiny().items()))
    executor = ScriptedExecutor(script)
    with closing(Store.open(tmp_path / "study.db", lease=lease, clock=clock)) as store:
        drive(store, {fingerprint: config}, executor, tmp_path, command=["x"], clock=clock)
        (run,) = store.runs()
    return executor, run


def test_a_driver_stops_what_another_took_over_while_it_was_suspended(tmp_path: Path) -> None:
    clock = Clock()
    others = {"test_error": 2.0}

    def is_suspended() -> list[Any]:
        clock.time += 1000
        with closing(Store.open(tmp_path / "study.db", clock=clock)) as store:
            assert store.claim("another")
        return [(0, epoch(1))]

    def comes_late() -> list[Any]:
        with closing(Store.open(tmp_path / "study.db", clock=clock)) as store:
            (run,) = store.runs()
            assert store.finish("another", run.fingerprint, others, [], {})
        return [(0, DONE)]  # of the worker that was stopped

    executor, run = drive_one(tmp_path, [[(0, BEGUN)], is_suspended, comes_late], clock)
    assert (executor.started, executor.stopped) == (1, [0])
    assert (run.status, run.owner, run.result) == ("done", "another", others)


def test_a_driver_that_was_suspended_goes_on_with_what_nobody_took_and_does_not_take_it_twice(tmp_path: Path) -> None:
    clock = Clock()

    def is_suspended() -> list[Any]:
        clock.time += 1000
        return []

    executor, run = drive_one(tmp_path, [[(0, BEGUN)], is_suspended, [(0, epoch(1))], [(0, DONE)]], clock)
    assert (executor.started, executor.stopped) == (1, [])
    assert (run.status, run.attempts) == ("done", 1)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.study.driver._FIRST_SECONDS", 100.0)
    monkeypatch.setattr("laddernet.study.driver._NEXT_SECONDS", 30.0)


def passing(clock: Clock, script: list[tuple[int, list[Any]]]) -> Iterator[Callable[[], list[Any]]]:
    """Events with so many seconds before each, second by second."""

    def after_a_second(events: list[Any]) -> list[Any]:
        clock.time += 1
        return events

    for seconds, events in script:
        for _ in range(seconds - 1):
            yield partial(after_a_second, [])
        yield partial(after_a_second, events)


@pytest.mark.parametrize(
    ("script", "stopped"),
    [
        ([(1, [(0, BEGUN)]), (99, [(0, epoch(1))]), (5, [(0, DONE)])], 0),
        ([(1, [(0, BEGUN)]), (101, []), (1, [(0, DONE)])], 1),
        ([(500, [(0, BEGUN)]), (9, [(0, DONE)])], 0),  # it had to wait for a worker
        ([(1, [(0, BEGUN)]), (2, [(0, epoch(1))]), (29, [(0, epoch(2))]), (5, [(0, DONE)])], 0),
        ([(1, [(0, BEGUN)]), (2, [(0, epoch(1))]), (31, []), (5, [(0, DONE)])], 1),
        ([(1, [(0, BEGUN)]), (20, [(0, epoch(1))]), (199, [(0, epoch(2))]), (5, [(0, DONE)])], 0),  # slow epochs
        ([(1, [(0, BEGUN)]), (20, [(0, epoch(1))]), (201, []), (5, [(0, DONE)])], 1),
    ],
    ids=["slow start", "hangs at first", "waits", "works", "hangs", "slow", "slow and hangs"],
)
@pytest.mark.usefixtures("quick")
def test_a_worker_that_hangs_is_ended_and_its_run_done_by_another(
    tmp_path: Path, script: list[tuple[int, list[Any]]], stopped: int
) -> None:
    clock = Clock()
    executor, run = drive_one(tmp_path, passing(clock, script), clock)
    assert executor.stopped == [0] * stopped
    assert (executor.started, run.attempts) == (1 + stopped, 1 + stopped)
    assert run.status == "done"


@pytest.mark.usefixtures("quick")
def test_a_run_whose_workers_all_hang_fails(tmp_path: Path) -> None:
    clock = Clock()
    executor, run = drive_one(tmp_path, passing(clock, [(1, [(0, BEGUN)]), (101, [])] * 10), clock)
    assert (len(executor.stopped), run.status) == (10, "failed")
    assert run.error == "Its process made no progress for 2 minutes."


@pytest.mark.usefixtures("quick")
def test_a_pause_of_the_driver_itself_is_not_a_workers(tmp_path: Path) -> None:
    clock = Clock()

    def is_suspended() -> list[Any]:
        clock.time += 10_000
        return []

    executor, run = drive_one(tmp_path, [[(0, BEGUN)], is_suspended, [(0, DONE)]], clock)
    assert (executor.stopped, run.status) == ([], "done")


def test_only_a_driver_that_is_known_to_be_dead_loses_its_runs_before_the_lease_ends(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host, clock = socket.gethostname(), Clock()
    owners = [
        f"{host}:{ended.pid}:{_place()}:00000001",
        f"{host}:{os.getpid()}:{_place()}:00000002",
        f"{host}:{ended.pid}:00000000-0000-0000-0000-000000000000/4026531836:00000003",  # a container of this name
        f"{host}:{ended.pid}:?:00000004",  # a system without such names
        f"{host}:{ended.pid}:00000005",  # of an earlier version
        f"{host}:{'9' * 30}:{_place()}:00000006",
        "?",
    ]
    with closing(Store.open(tmp_path / "study.db", clock=clock)) as store:
        store.add({owner: {} for owner in owners})
        for owner in owners:
            store.claim(owner, [owner])
        _release_dead(store)
        held = [run.owner for run in store.runs(status="running")]
        assert held == owners[1:] if _place() else owners
        clock.time += 61
        assert store.counts()["waiting"] == len(owners)


def test_where_processes_have_no_such_names_a_lease_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.study.driver._place", lambda: None)
    monkeypatch.setattr(os, "kill", None)  # on Windows it would end the process
    with closing(Store.open(tmp_path / "study.db")) as store:
        store.add({"f": {}})
        store.claim("host:1:None:x")
        _release_dead(store)
        assert store.counts()["running"] == 1


@pytest.mark.parametrize("is_explained", [False, True])
@pytest.mark.parametrize("error", [MemoryError("no memory"), OSError(errno.ENOSPC, "No space left on device")])
def test_a_run_that_the_machine_refuses_is_lost_not_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, is_explained: bool
) -> None:
    monkeypatch.setattr("laddernet.study.worker._PAUSE", 0.0)

    def refuse(record: object) -> None:
        with writing(tmp_path / "full") if is_explained else nullcontext():
            raise error

    config = next(iter(tiny().values()))
    task = {"config": asdict(config), "folder": str(tmp_path / "r"), "command": ["x"], "checkpoint_every": 60.0}
    assert perform(task, refuse)["event"] == "lost"


def test_a_run_whose_folder_is_removed_is_lost_not_done(tmp_path: Path) -> None:
    config = next(iter(tiny().values()))
    folder = tmp_path / "r"
    task = {"config": asdict(config), "folder": str(folder), "command": ["x"], "checkpoint_every": 60.0}
    task = json.loads(json.dumps(task))
    lost = perform(task, lambda record: shutil.rmtree(folder))
    assert lost["event"] == "lost"
    assert lost["error"].startswith(f"{folder} was removed")
    assert not folder.exists()
    done = perform(task, lambda record: None)
    assert done["event"] == "done"
    assert [record["epoch"] for record in done["history"]] == [1, 2]


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
    (tmp_path / "a, b.py").write_text("from laddernet.network.combinators import Linear\n\n\nclass Mine(Linear): ...\n")
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
    held, store, command, _ = read_plan(tmp_path)
    assert (store, command) == (None, "two")
    assert held == {**{f: c for f, c in first.items() if c.model == "linear"}, **vanilla}


def test_the_estimate_grows_with_what_is_left() -> None:
    few, many = (Status(tiny(batch_size=batch), []) for batch in (400, 100))
    assert 0 < estimate(few, (64, 8, 4, 10), 1198, 1, 1) < estimate(many, (64, 8, 4, 10), 100 * 1198, 1, 1)


def test_the_estimate_counts_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.report.status._gflops", lambda: 1.0)
    once, copied = (
        Status({f: replace(c, copies=copies) for f, c in tiny(batch_size=100).items()}, []) for copies in (1, 3)
    )
    size = (784, 1000, 500, 10), 10**7, 1, 1
    # 100 labelled rows, and 100 without a label of which each goes up clean and each copy up and down.
    assert estimate(copied, *size) / estimate(once, *size) == pytest.approx((1 + 1 + 2 * 3) / (1 + 1 + 2), rel=0.01)


def test_the_estimate_is_for_so_many_cores_and_without_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laddernet.report.status._gflops", lambda: 1.0)  # of a core
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


# --- Other revisions, other sources, other stores -----------------------------------------------------------------


def compute(folder: Path, configs: dict, error: float = 10.0) -> None:
    """Record a result for each of these runs that waits, as if it had been trained."""
    with closing(Store.open(folder / "study.db")) as store:
        store.add({fingerprint: asdict(config) for fingerprint, config in configs.items()})
        for run in store.claim("me", list(configs), limit=len(configs)):
            store.finish("me", run.fingerprint, {"test_error": error, "seconds": 1.0}, [{"epoch": 1}], {})


def raise_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("training.config", "study.plan", "report.status"):
        monkeypatch.setattr(f"laddernet.{module}.REVISION", REVISION + 1)


def tables(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("table.*"))}


@pytest.fixture
def computed(tmp_path: Path) -> Path:
    """The folder of a study of four runs that are finished and in the table."""
    configs = tiny()
    keep_plan(tmp_path, configs, store=None, command="laddernet study")
    compute(tmp_path, configs)
    assert "4 of 4 runs are finished" in laddernet("report", "--out", ".", cwd=tmp_path).out
    return tmp_path


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


def test_a_plan_of_the_first_format_is_read(computed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.study.plan._FIRST_REVISION", REVISION)  # that of the runs here
    held = json.loads((computed / "study.json").read_text())
    old = {"store": None, "command": "old", "runs": [run["config"] for run in held["runs"]]}
    for config in old["runs"]:
        del config["source"]
    before = tables(computed)
    (computed / "study.json").write_text(json.dumps(old))
    assert laddernet("report", "--out", ".", cwd=computed).code == 0
    assert tables(computed) == before


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


# --- Bad input --------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"format": 3, "runs": [], "store": null, "command": ""}',
        b'{"format": 2, "runs": [], "store": null, "command": ""}',
        b'{"format": 2, "runs": [{"fingerprint": "f", "revision": 9, "config": {}}], "store": null, "command": ""}',
    ],
)
def test_a_damaged_plan_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "study.json").write_bytes(text)
    with pytest.raises(InputError, match="is not a plan of this version"):
        read_plan(tmp_path)


def test_a_plan_whose_revision_is_no_number_is_refused(computed: Path) -> None:
    path = computed / "study.json"
    held = path.read_bytes()
    plan = json.loads(held)
    plan["runs"][0]["revision"] = [REVISION]
    path.write_text(json.dumps(plan))
    with pytest.raises(InputError, match=r"the revision \[\d+\] is not a number"):
        read_plan(computed)
    path.write_bytes(held)


def test_models_that_are_no_list_are_one_sentence(tmp_path: Path) -> None:
    ended = laddernet("study", "--models", "vanilla\rlinear", "--out", "s", cwd=tmp_path)
    assert ended.code == 2
    assert "is not a list of names; put a name with a line break in double quotes." in ended.err
    assert list(tmp_path.iterdir()) == []


def test_a_plan_that_names_no_revision_finds_its_runs_of_revision_9(tmp_path: Path) -> None:
    config = configure(digits(), labels=40, hidden=(8, 4), epochs=4, tuned=False)
    values = {name: value for name, value in asdict(config).items() if name not in ("source", "precision")}
    (tmp_path / "study.json").write_text(json.dumps({"store": None, "command": "laddernet study", "runs": [values]}))
    then = "4b5eb34aa2d909d3a9d19ee6d84214392b4a63f3199fa3a04d2cb55578853b95"  # what that revision computed
    found = read_plan(tmp_path)
    assert found.configs == {then: config}
    assert found.revisions == {then: 9}
