"""Drivers in processes of their own, which are killed; the table must come out the same."""

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from studies import SETTINGS
from support import PATIENCE, laddernet, wait_for

from laddernet.study.store import Store

LONG = (*SETTINGS, "--seeds", "4", "--epochs", "60", "--checkpoint-every", "0", "--jobs", "2")

ENVIRONMENT = {**os.environ, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


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
