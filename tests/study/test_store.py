"""The life of a run in a store, on both databases."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from postgres import execute
from sqlalchemy.exc import StatementError
from stores import ENVIRONMENT, HISTORY, RESULT, Clock, address, finish, names
from support import PATIENCE

from laddernet.study.store import Run, Store

HOSTILE = "Robert'); DROP TABLE laddernet_runs;-- \" % :x {0} \\ \N{SNOWMAN} \U0001f40d \0 \ud800"


def only(store: Store, fingerprint: str) -> Run:
    (run,) = store.runs([fingerprint], history=True)
    return run


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
