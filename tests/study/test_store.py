import io
import os
import pwd
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from postgres import execute, numbers
from rich.console import Console
from sqlalchemy.exc import StatementError
from support import PATIENCE, contents, tiny_config
from test_files import files_at_most

import laddernet
from laddernet.errors import InputError
from laddernet.report.page import PageData, page
from laddernet.report.status import Status
from laddernet.study.driver import _release_dead
from laddernet.study.store import Run, Store

RESULT = {"test_error": 1.25, "validation_error": 1.5, "seconds": 3.0, "folder": "runs/a"}
HISTORY = [{"epoch": 1, "cost": 0.5}, {"epoch": 2, "cost": 0.25, "validation_error": 1.5}]
ENVIRONMENT = {"python": "3.11", "packages": {"jax": "0.10"}}
HOSTILE = "Robert'); DROP TABLE laddernet_runs;-- \" % :x {0} \\ \N{SNOWMAN} \U0001f40d \0 \ud800"


# --- A fresh store for each test ---------------------------------------------------------------------------------


@pytest.fixture
def folder() -> Iterator[Path]:
    """In memory, where there is such a place: a busy disk takes seconds for each of SQLite's fsyncs."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
        yield Path(path)


@pytest.fixture(params=["sqlite", "postgresql"])
def where(request: pytest.FixtureRequest, folder: Path) -> str:
    """Where a store may be made: a file, or an address."""
    if request.param == "sqlite":
        return str(folder / "study.db")
    return address(request.getfixturevalue("fresh_schema"))


def address(url: sa.URL) -> str:
    return url.render_as_string(hide_password=False)


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(where: str, clock: Clock) -> Iterator[Store]:
    """Three waiting runs, a lease of ten seconds, and a clock that stands still."""
    with closing(Store.open(where, lease=10, clock=clock)) as store:
        store.add({name: {"model": "vanilla", "seed": seed} for seed, name in enumerate("cab")})
        yield store


def names(runs: list[Run]) -> str:
    return "".join(run.fingerprint for run in runs)


def only(store: Store, fingerprint: str) -> Run:
    (run,) = store.runs([fingerprint], history=True)
    return run


def finish(store: Store, owner: str, fingerprint: str) -> bool:
    return store.finish(owner, fingerprint, RESULT, HISTORY, ENVIRONMENT)


# --- The life of a run --------------------------------------------------------------------------------------------


def test_an_added_run_waits_and_is_read_back_as_it_was_given(where: str, clock: Clock) -> None:
    config = {"model": "amlp-2-2-2", "noise": [0.3, 0.1], "eta": 1e-3, "seed": 7}
    with closing(Store.open(where, clock=clock)) as store:
        assert store.add({"f": config}) == ["f"]
    with closing(Store.open(where, create=False, clock=clock)) as store:
        empty = dict.fromkeys(["owner", "lease", "progress", "error", "result", "environment", "started", "finished"])
        assert store.runs() == [Run("f", config, "waiting", attempts=0, created=1000.0, **empty)]


def test_adding_again_changes_nothing_and_tells_what_is_new(store: Store) -> None:
    store.claim("me")
    finish(store, "me", "c")
    before = store.runs(history=True)
    assert store.add({"a": {"other": 1}, "d": {"seed": 3}, "c": {}}) == ["d"]
    assert store.runs("cab", history=True) == before
    assert names(store.runs()) == "cabd"
    assert store.add({}) == []


def test_runs_are_claimed_once_in_the_order_in_which_they_were_added(store: Store) -> None:
    assert names(store.claim("me")) == "c"
    assert names(store.claim("you", limit=5)) == "ab"
    assert store.claim("me") == []
    assert store.counts() == {"waiting": 0, "running": 3, "done": 0, "failed": 0}


def test_a_claimed_run_names_its_owner_and_when_it_began(store: Store, clock: Clock) -> None:
    clock.time = 1005
    (run,) = store.claim("me")
    assert run == only(store, "c")
    assert (run.status, run.owner, run.attempts) == ("running", "me", 1)
    assert (run.created, run.started, run.lease, run.finished) == (1000, 1005, 1015, None)


def test_only_runs_that_were_asked_for_are_claimed(store: Store) -> None:
    assert names(store.claim("me", ["b", "c", "unknown"], limit=5)) == "cb"
    assert store.claim("me", []) == []
    assert store.claim("me", ["b", "c"]) == []


def test_a_finished_run_keeps_its_result_curve_and_environment(store: Store, clock: Clock) -> None:
    store.claim("me")
    clock.time = 1007
    assert finish(store, "me", "c")
    run = only(store, "c")
    assert (run.status, run.result, run.history, run.environment) == ("done", RESULT, HISTORY, ENVIRONMENT)
    assert (run.owner, run.started, run.finished, run.lease) == ("me", 1000, 1007, None)
    assert names(store.claim("me", limit=5)) == "ab"


def test_curves_are_read_only_when_asked_for(store: Store) -> None:
    store.claim("me")
    finish(store, "me", "c")
    assert [run.history for run in store.runs()] == [None, None, None]
    assert [run.history for run in store.runs(history=True)] == [HISTORY, None, None]


def test_a_run_is_finished_once(store: Store) -> None:
    store.claim("me")
    assert finish(store, "me", "c")
    before = store.runs(history=True)
    assert not store.finish("me", "c", {"test_error": 99.0}, [], {})
    assert not store.fail("me", "c", "late")
    assert store.heartbeat("me", {"c": None}) == ["c"]
    assert store.release("me") == 0
    assert store.runs(history=True) == before


def test_a_run_that_was_not_claimed_cannot_be_ended(store: Store) -> None:
    before = store.runs(history=True)
    assert not finish(store, "me", "c")
    assert not store.fail("me", "c", "error")
    assert not finish(store, "me", "unknown")
    assert store.runs(history=True) == before


def test_a_failed_run_keeps_its_error_and_is_not_claimed_until_it_is_to_be_retried(store: Store) -> None:
    store.claim("me", limit=2)
    assert store.fail("me", "c", "In epoch 3, cost became nan.")
    assert (only(store, "c").status, only(store, "c").error) == ("failed", "In epoch 3, cost became nan.")
    assert names(store.claim("me", limit=5)) == "b"
    assert store.retry_failed("ab") == 0
    assert store.retry_failed() == 1
    (run,) = store.claim("you")
    assert (run.fingerprint, run.error, run.attempts) == ("c", None, 2)


def test_a_clean_stop_gives_back_what_the_owner_holds_and_nothing_else(store: Store) -> None:
    store.claim("me", limit=2)
    store.claim("you")
    assert store.release("me", ["c", "b"]) == 1
    assert store.counts() == {"waiting": 1, "running": 2, "done": 0, "failed": 0}
    assert store.release("me") == 1
    assert names(store.runs(status="running")) == "b"
    assert names(store.claim("you", limit=5)) == "ca"


def test_progress_is_recorded_and_forgotten_by_the_next_attempt(store: Store) -> None:
    store.claim("me", limit=2)
    assert store.heartbeat("me", {"c": {"epoch": 3, "epochs": 10, "error": 2.5}, "a": None}) == []
    assert only(store, "c").progress == {"epoch": 3, "epochs": 10, "error": 2.5}
    store.heartbeat("me", {"c": None})
    assert only(store, "c").progress == {"epoch": 3, "epochs": 10, "error": 2.5}
    store.release("me")
    assert store.claim("you")[0].progress is None


def test_runs_are_selected_by_status_and_fingerprint(store: Store) -> None:
    store.claim("me", limit=2)
    finish(store, "me", "c")
    assert names(store.runs(status="done")) == "c"
    assert names(store.runs(["c", "b"], status="waiting")) == "b"
    assert store.counts(["a", "b"]) == {"waiting": 1, "running": 1, "done": 0, "failed": 0}


def test_any_number_of_runs_may_be_asked_for(store: Store) -> None:
    many = [*(f"{i:064}" for i in range(70_000)), "b", "a"]  # more than a statement may have parameters
    assert names(store.runs(many)) == "ab"
    assert names(store.claim("me", many)) == "a"


# --- Leases -------------------------------------------------------------------------------------------------------


def test_a_run_whose_lease_has_expired_waits_again_and_goes_to_whoever_claims_it(store: Store, clock: Clock) -> None:
    store.claim("dead")
    clock.time = 1010
    assert names(store.claim("me", ["c"])) == ""
    clock.time = 1010.5
    assert store.counts() == {"waiting": 3, "running": 0, "done": 0, "failed": 0}
    assert names(store.runs(status="waiting")) == "cab"
    (run,) = store.claim("me")
    assert (run.fingerprint, run.owner, run.attempts, run.started) == ("c", "me", 2, 1010.5)


def test_heartbeats_keep_a_run(store: Store, clock: Clock) -> None:
    store.claim("me")
    for _ in range(5):
        clock.time += 9
        assert store.heartbeat("me", {"c": None}) == []
    assert names(store.claim("you", limit=5)) == "ab"


def test_an_owner_that_comes_late_still_holds_what_nobody_took(store: Store, clock: Clock) -> None:
    store.claim("me", limit=2)
    clock.time = 2000
    assert store.heartbeat("me", {"c": None}) == []
    assert only(store, "c").status == "running"
    assert finish(store, "me", "a")


def test_an_owner_that_comes_too_late_is_told_so_and_changes_nothing(store: Store, clock: Clock) -> None:
    store.claim("late", limit=2)
    clock.time = 1009
    store.heartbeat("late", {"a": None})
    clock.time = 1011
    assert names(store.claim("me")) == "c"
    before = store.runs(history=True)
    assert store.heartbeat("late", {"c": {"epoch": 1}}) == ["c"]
    assert not store.finish("late", "c", {}, [], {})
    assert not store.fail("late", "c", "error")
    assert store.release("late", ["c"]) == 0
    assert store.runs(history=True) == before
    assert finish(store, "me", "c")
    assert not store.finish("late", "c", {}, [], {})
    assert only(store, "c").result == RESULT


def test_postgresql_measures_leases_by_its_own_clock(fresh_schema: sa.URL, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Store.open(address(fresh_schema), lease=100)) as store:
        store.add({"f": {}})
        monkeypatch.setattr(time, "time", lambda: 0.0)
        (run,) = store.claim("me")
        assert run.lease is not None
        assert run.lease > 1e9  # this process's clock says 0
        assert store.claim("you") == []


# --- What is stored -----------------------------------------------------------------------------------------------


def test_text_is_data_whatever_it_says(where: str) -> None:
    plain = HOSTILE.replace("\0", "").replace("\ud800", "")
    with closing(Store.open(where)) as store:
        store.add({plain: {HOSTILE: HOSTILE}, "other": {}})
        (run,) = store.claim(plain, [plain])
        assert (run.fingerprint, run.owner, run.config) == (plain, plain, {HOSTILE: HOSTILE})
        store.heartbeat(plain, {plain: {HOSTILE: HOSTILE}})
        assert store.fail(plain, plain, HOSTILE)
        (run,) = store.runs(status="failed")
        assert run.progress == {HOSTILE: HOSTILE}
        assert run.error == HOSTILE.replace("\0", "\N{REPLACEMENT CHARACTER}").replace("\ud800", "?")
        assert store.retry_failed([plain]) == 1
        store.claim(plain, [plain])
        assert store.finish(plain, plain, {HOSTILE: HOSTILE}, [{HOSTILE: HOSTILE}], {HOSTILE: HOSTILE})
        assert store.runs(status=plain) == []
        assert store.counts() == {"waiting": 1, "running": 0, "done": 1, "failed": 0}


def test_what_json_cannot_say_is_refused_and_the_run_is_still_held(store: Store) -> None:
    store.claim("me")
    with pytest.raises((ValueError, StatementError), match="not JSON compliant"):
        store.finish("me", "c", {"test_error": float("nan")}, [], {})
    assert only(store, "c").status == "running"
    assert finish(store, "me", "c")


def test_a_sqlite_store_is_on_the_disk_when_a_write_returns(folder: Path) -> None:
    with closing(Store.open(folder / "study.db")) as store, store._begin(write=False) as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("journal_mode", "synchronous")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2}


def test_a_sqlite_store_is_one_file_when_it_is_closed(folder: Path) -> None:
    with closing(Store.open(folder / "study.db")) as store:
        store.add({"f": {}})
    assert [path.name for path in folder.iterdir()] == ["study.db"]


def test_a_reader_does_not_wait_for_a_writer(where: str) -> None:
    with closing(Store.open(where)) as store, store._begin():
        assert store.counts()["waiting"] == 0


@pytest.mark.process
def test_threads_share_a_store(where: str) -> None:
    with closing(Store.open(where)) as store, ThreadPoolExecutor(4) as threads:
        store.add({str(i): {} for i in range(40)})
        claimed = threads.map(lambda i: store.claim(f"thread {i}"), range(40))
        assert sorted(int(run.fingerprint) for runs in claimed for run in runs) == list(range(40))


@pytest.mark.process
def test_of_two_that_add_runs_one_waits_for_the_other(where: str) -> None:
    here, asks, order = threading.current_thread(), threading.Event(), []

    def before(*_: Any) -> None:
        if threading.current_thread() is not here:
            asks.set()

    def after(*_: Any) -> None:
        if threading.current_thread() is not here:
            order.append("the other goes on")

    with closing(Store.open(where)) as store, ThreadPoolExecutor(1) as threads:
        with store._begin(alone=True) as connection:
            sa.event.listen(store._engine, "before_cursor_execute", before)
            sa.event.listen(store._engine, "after_cursor_execute", after)
            added = threads.submit(store.add, {"f": {}})
            assert asks.wait(PATIENCE)
            for _ in range(200):  # time for one that does not wait
                connection.scalar(sa.text("SELECT 1"))
            order.append("this one ends")
        assert added.result(timeout=PATIENCE) == ["f"]
    assert order[:2] == ["this one ends", "the other goes on"]


@pytest.mark.process
def test_postgresql_may_be_restarted_between_two_transactions(fresh_schema: sa.URL) -> None:
    with closing(Store.open(address(fresh_schema))) as store:
        store.add({"f": {}})
        with store._begin(write=False) as connection:
            process = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar()
        execute(fresh_schema, f"SELECT pg_terminate_backend({process}, {1000 * PATIENCE})")
        assert names(store.claim("me")) == "f"


# --- Many processes, and sudden ends ------------------------------------------------------------------------------

# One interpreter that forks: each process is real, and only one has to start. It opens no store before it forks.
KILLS = 12
PROCESSES = """
import multiprocessing, os, random, signal, sys, time, types

task, package, where, log, runs, kills, patience = sys.argv[1:]
configs = {f"{seed:03}": {"seed": seed} for seed in range(int(runs))}
laddernet = types.ModuleType("laddernet")  # without what its __init__ imports
laddernet.__path__ = [package]
sys.modules["laddernet"] = laddernet
from laddernet.study.store import Store, sa
for address in ("sqlite://", "postgresql+psycopg://"):
    sa.create_engine(address)  # imports what each process would have to
assert "jax" not in sys.modules

def start(number, work):
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        random.seed(number)
        work(f"owner {number}")
        status = 0
    finally:
        if status:
            sys.excepthook(*sys.exc_info())
            sys.stderr.flush()
        os._exit(status)

def report(line):
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{line}\\n".encode())
    os.close(file)

def create(owner):
    for fingerprint in Store.open(where).add(configs):
        report(fingerprint)

everyone = multiprocessing.get_context("fork").Barrier(4)
killed = log + ".killed"

def share(owner):
    do_all(owner, float(patience), lambda number: number or everyone.wait(float(patience)))  # all have a part in it

def do_some(owner):
    def begin(number):
        os.write(begins, b"!")
        while number >= 8 and not os.path.exists(killed):  # more are left than those to be killed may do
            time.sleep(0.005)
    do_all(owner, 0.3, begin)

def do_all(owner, lease, begin):
    store = Store.open(where, lease=lease)
    store.add(configs)
    number = 0
    while (held := store.claim(owner, limit=random.randint(1, 3))) or store.counts()["done"] < len(configs):
        time.sleep(0 if held else 0.02)
        for run in held:
            begin(number)
            number += 1
            name = run.fingerprint
            store.heartbeat(owner, {name: {"epoch": 1}})
            time.sleep(random.uniform(0, 0.02))
            seed = run.config["seed"]
            if store.finish(owner, name, {"test_error": seed}, [{"epoch": e, "cost": seed} for e in range(150)], {}):
                report(name)

def ended(process):
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])

if task != "killed":
    processes = [start(number, {"create": create, "share": share}[task]) for number in range(4)]
else:
    random.seed(1)
    begun, begins = os.pipe()
    processes = [start(number, do_some) for number in range(2)]
    for number in range(2, 2 + int(kills)):
        for _ in range(random.randint(1, 3)):
            os.read(begun, 1)
        victim = processes.pop(0 if random.random() < 0.7 else 1)  # the elder, or one that has hardly begun
        os.kill(victim, signal.SIGKILL)
        assert ended(victim) == -signal.SIGKILL
        processes.append(start(number, do_some))
    open(killed, "x").close()
assert [ended(process) for process in processes] == [0] * len(processes)
"""


def run_processes(task: str, where: str, folder: Path, runs: int) -> Counter[str]:
    """Let several processes use one store that is not there yet; return what they reported, and how often."""
    log = folder / "log"
    package = str(Path(laddernet.__file__).parent)
    arguments = [task, package, where, str(log), str(runs), str(KILLS), str(PATIENCE)]
    subprocess.run([sys.executable, "-c", PROCESSES, *arguments], check=True, timeout=PATIENCE)
    return Counter(log.read_text().split())


@pytest.mark.process
def test_processes_that_open_a_new_store_together_find_one_and_add_each_run_once(where: str, folder: Path) -> None:
    added = run_processes("create", where, folder, runs=30)
    with closing(Store.open(where, create=False)) as store:
        runs = store.runs()
    assert [run.fingerprint for run in runs] == [f"{seed:03}" for seed in range(30)]
    assert added == Counter(run.fingerprint for run in runs)
    assert not list(folder.glob(".*"))


@pytest.mark.process
def test_processes_that_share_a_store_do_each_run_once(where: str, folder: Path) -> None:
    done = run_processes("share", where, folder, runs=40)
    with closing(Store.open(where)) as store:
        runs = store.runs()
    assert done == Counter(f"{seed:03}" for seed in range(40))
    assert [(run.status, run.attempts) for run in runs] == [("done", 1)] * 40
    assert len({run.owner for run in runs}) > 1


@pytest.mark.process
def test_no_run_is_lost_nor_done_twice_when_processes_are_killed(where: str, folder: Path) -> None:
    reported = run_processes("killed", where, folder, runs=150)
    with closing(Store.open(where)) as store:
        runs = store.runs(history=True)
    assert [run.fingerprint for run in runs] == [f"{seed:03}" for seed in range(150)]
    assert [run.status for run in runs] == ["done"] * 150
    for seed, run in enumerate(runs):
        assert run.result == {"test_error": seed}
        assert run.history == [{"epoch": epoch, "cost": seed} for epoch in range(150)]
    # A process may be killed between the end of a run and its report, but none reports what is not so.
    assert set(reported.values()) == {1}
    assert set(reported) <= {run.fingerprint for run in runs}
    assert len(reported) >= 150 - KILLS
    assert any(run.attempts > 1 for run in runs)
    if not where.startswith("postgresql"):
        with closing(sqlite3.connect(where)) as file:
            assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# --- What is not a store, or cannot be one ------------------------------------------------------------------------


def refused(where: str | Path, **options: Any) -> str:
    """The sentence with which a store is not opened."""
    with pytest.raises(InputError) as error:
        Store.open(where, **options)
    sentence = str(error.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


def foreign_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as file:
        file.execute("CREATE TABLE runs (x)")


def database_after_a_crash(path: Path) -> None:
    """Of another program, in WAL mode, with data that is still to be moved from the log into the file."""
    original = path.with_name("original")
    with closing(sqlite3.connect(original)) as file:
        file.execute("PRAGMA journal_mode=WAL")
        file.execute("CREATE TABLE runs (x)")
        for end in ("", "-wal"):
            shutil.copy(f"{original}{end}", f"{path}{end}")


def newer_store(path: Path) -> None:
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as file:
        file.execute("PRAGMA user_version=99")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path.write_text("hello"), "file is not a database"),
        (lambda path: path.write_bytes(os.urandom(5000)), "file is not a database"),
        (Path.touch, "of another program"),
        (foreign_database, "of another program"),
        (database_after_a_crash, "of another program"),
        (newer_store, "newer laddernet"),
        (Path.mkdir, "is a folder"),
    ],
)
def test_what_is_not_a_store_of_this_version_is_refused_and_left_as_it_is(folder: Path, make: Any, reason: str) -> None:
    path = folder / "study.db"
    make(path)
    before = contents(folder)
    sentence = refused(path)
    assert str(path) in sentence
    assert reason in sentence
    assert contents(folder) == before


def test_a_damaged_store_is_refused(folder: Path) -> None:
    path = folder / "study.db"
    with closing(Store.open(path)) as store:
        store.add({str(i): {} for i in range(100)})
    os.truncate(path, 5000)
    assert "malformed" in refused(path)


@pytest.fixture(scope="module")
def used() -> dict[str, bytes]:
    """The files of a store with runs in every state, by the ends of their names."""
    with tempfile.TemporaryDirectory() as folder, closing(Store.open(Path(folder) / "study.db")) as store:
        store.add({f"f{seed}": {"model": "vanilla", "seed": seed} for seed in range(30)})
        for run in store.claim("me", limit=20):
            if run.config["seed"] < 12:
                finish(store, "me", run.fingerprint)
            elif run.config["seed"] < 16:
                store.fail("me", run.fingerprint, "In epoch 3, cost became nan.")
            else:
                store.heartbeat("me", {run.fingerprint: {"epoch": 3, "epochs": 10, "test_error": 2.5}})
        return {path.name[len("study.db") :]: path.read_bytes() for path in Path(folder).glob("study.db*")}


def use(path: Path) -> None:
    """All that a driver, `status` and `report` do with a store, each of which may be refused in one sentence."""
    configs = {f"f{seed}": replace(tiny_config(), seed=seed) for seed in range(30)}
    uses: list[Callable[[Store], Any]] = [
        lambda store: Console(file=io.StringIO()).print(Status.of(store, configs, history=True).shown(slots=2)),
        lambda store: page(PageData("t", "digits", "", "", Status.of(store, configs, history=True).table())),
        lambda store: _release_dead(store),
        lambda store: store.add({"new": {}}),
        lambda store: store.claim("you", list(configs), limit=3),
        lambda store: store.heartbeat("me", {"f17": {"epoch": 4}}),
        lambda store: finish(store, "me", "f17"),
        lambda store: store.retry_failed(),
        lambda store: store.counts(),
        lambda store: store.release("me"),
    ]
    refusals: list[InputError] = []
    try:
        store = Store.open(path, create=False)
    except InputError as error:
        refusals.append(error)
    else:
        for one in uses:
            try:
                one(store)
            except InputError as error:
                refusals.append(error)
        store.close()
    for error in refusals:
        assert "\n" not in str(error)
        assert str(path) in str(error)


def test_damage_to_a_stores_file_is_one_sentence_or_harmless(folder: Path, used: dict[str, bytes]) -> None:
    rng = random.Random(0)
    for number in range(20):
        path = folder / f"{number}.db"
        for end, content in used.items():
            damaged = bytearray(content)
            for _ in range(rng.choice([1, 10, 100])):
                place = rng.randrange(len(damaged))
                damaged[place : place + 4] = rng.randbytes(rng.choice([1, 4]))
            Path(f"{path}{end}").write_bytes(damaged[: rng.choice([None, None, rng.randrange(len(damaged))])])
        use(path)


VALUES = [
    *(None, "", "x", "null", "[]", "{}", "[1]", '{"epoch": "x"}', '{"epochs": 0, "epoch": 1}', '{"test_error": "x"}'),
    *('{"test_error": NaN}', '[{"epoch": null}]', "[[]]", "[" * 100_000, b"\xff\xfe", 10**18, -1, 1e308, float("inf")),
]


def test_a_wrong_value_in_a_store_is_one_sentence_or_harmless(folder: Path, used: dict[str, bytes]) -> None:
    every = [(column, value) for column in sorted(Run.__dataclass_fields__) for value in VALUES]
    for number, (column, value) in enumerate(random.Random(0).sample(every, 30)):
        path = folder / f"{number}.db"
        for end, content in used.items():
            Path(f"{path}{end}").write_bytes(content)
        with closing(sqlite3.connect(path)) as file, suppress(sqlite3.IntegrityError):
            file.execute(f"UPDATE laddernet_runs SET {column} = ? WHERE fingerprint IN ('f1', 'f13', 'f17')", (value,))
            file.commit()
        use(path)


def test_a_database_of_another_program_in_postgresql_is_refused_and_left_as_it_is(fresh_schema: sa.URL) -> None:
    execute(fresh_schema, "CREATE TABLE runs (x int)")
    assert "of another program" in refused(address(fresh_schema))
    execute(fresh_schema, "CREATE TABLE laddernet_runs (x int)")  # would fail if it were there


def test_a_newer_store_in_postgresql_is_refused(fresh_schema: sa.URL) -> None:
    Store.open(address(fresh_schema)).close()
    execute(fresh_schema, "UPDATE laddernet_store SET version = 99")
    assert "newer laddernet (store version 99, not 1)" in refused(address(fresh_schema))


def test_a_store_that_must_be_there_is_not_made(where: str, folder: Path) -> None:
    assert "There is no study in" in refused(where, create=False)
    assert not list(folder.iterdir())
    assert "There is no study in" in refused(where, create=False)


def test_a_folder_that_is_not_there_is_named(folder: Path) -> None:
    assert str(folder / "absent" / "study.db") in refused(folder / "absent" / "study.db")


@contextmanager
def without_privileges() -> Iterator[None]:
    """As a user whom permissions bind, which they do not do to root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(pwd.getpwnam("nobody").pw_uid)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize(("mode", "folder_mode"), [(0o444, 0o777), (0o666, 0o555), (0o444, 0o555), (0o000, 0o777)])
def test_a_read_only_store_is_refused_and_left_as_it_is(folder: Path, mode: int, folder_mode: int) -> None:
    path = folder / "study.db"
    with closing(Store.open(path)) as store:
        store.add({"f": {}})
    before = path.read_bytes()
    path.chmod(mode)
    folder.chmod(folder_mode)
    with without_privileges():
        assert str(path) in refused(path)
    folder.chmod(0o700)
    path.chmod(0o600)
    assert path.read_bytes() == before


def test_a_store_in_a_folder_that_may_not_be_written_to_is_refused(folder: Path) -> None:
    folder.chmod(0o555)
    with without_privileges():
        assert "Permission denied" in refused(folder / "study.db")
    folder.chmod(0o000)
    with without_privileges():
        assert "Permission denied" in refused(folder / "study.db")
    folder.chmod(0o700)
    assert not list(folder.iterdir())


def test_a_full_disk_is_told_and_takes_nothing_away(folder: Path) -> None:
    with files_at_most(5000):
        assert str(folder / "study.db") in refused(folder / "study.db")
    assert not list(folder.iterdir())
    with closing(Store.open(folder / "study.db")) as store:
        store.add({"f": {}})
        with files_at_most(100_000), pytest.raises(InputError, match="Cannot use the store"):
            store.add({str(i): {"text": "x" * 1000} for i in range(1000)})
        assert names(store.runs()) == "f"
        store.add({"g": {}})
        assert names(store.runs()) == "fg"


def test_a_postgresql_user_who_may_only_read_is_refused(fresh_schema: sa.URL) -> None:
    role = f"reader{next(numbers)}"
    execute(fresh_schema, f"CREATE ROLE {role} LOGIN", f"GRANT USAGE ON SCHEMA {schema_of(fresh_schema)} TO {role}")
    reader = address(fresh_schema.set(username=role))
    assert "permission denied" in refused(reader)
    Store.open(address(fresh_schema)).close()
    execute(fresh_schema, f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema_of(fresh_schema)} TO {role}")
    assert "permission denied" in refused(reader)


def schema_of(url: sa.URL) -> str:
    return str(url.query["options"]).partition("=")[2]


def test_a_server_that_cannot_be_reached_is_named_without_the_password() -> None:
    sentence = refused("postgresql://me:secret@127.0.0.1:1/study?password=secret")
    assert "Connection refused" in sentence
    assert "Cannot use the store postgresql://…@127.0.0.1:1/study?… (" in sentence
    assert "secret" not in sentence


def test_a_server_that_refuses_the_user_or_has_no_such_database_says_so(server: sa.URL) -> None:
    execute(server, "CREATE ROLE with_password LOGIN PASSWORD 'right'")
    sentence = refused(address(server.set(username="with_password", password="secret")))
    assert "password authentication failed" in sentence
    assert "secret" not in sentence
    assert 'database "absent" does not exist' in refused(address(server.set(database="absent")))


@pytest.mark.parametrize(
    "where",
    [
        "postgresql://me:secret@host:port/study",
        "postgresql://me:sec@secret@host/study",
        "mysql://me:secret@host/study",
        "://secret",
        "postgresql://me:secret@127.0.0.1:1/study?nonsense=secret",
        "postgresql://me:secret@h\x81\xa8/study",  # no name of a host can have these
        f"postgresql://me:secret@{'é' * 70}/study",  # nor have a part this long
    ],
)
def test_an_address_that_cannot_be_right_is_refused_without_the_password(where: str) -> None:
    assert "secret" not in refused(where)


def test_a_missing_driver_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "laddernet[postgres]" in refused("postgresql://host/study")


def test_a_file_may_also_be_named_by_address(folder: Path) -> None:
    Store.open(f"sqlite:///{folder}/study.db").close()
    assert [path.name for path in folder.iterdir()] == ["study.db"]


@pytest.mark.parametrize("name", ["a b.db", "50%25?mode=ro#x.db", "\N{SNOWMAN}.db", "file:x.db", ":memory:", "'.db"])
def test_a_file_may_have_any_name(folder: Path, name: str) -> None:
    with closing(Store.open(folder / name)) as store:
        store.add({"f": {}})
    with closing(Store.open(str(folder / name), create=False)) as store:
        assert names(store.runs()) == "f"
    assert [path.name for path in folder.iterdir()] == [name]
