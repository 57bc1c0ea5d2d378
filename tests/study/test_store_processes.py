"""Stores that many processes share, and that are killed."""

import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from support import PATIENCE

import laddernet
from laddernet.study.store import Store

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
