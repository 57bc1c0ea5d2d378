"""Searches: what they try, and that a killed one goes on. Most draws are made up, not trained."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import optuna
import pytest
import sqlalchemy as sa
from optuna.trial import TrialState
from searches import TINY, InThisProcess, made_up, trials, tune
from support import PATIENCE, digits, held, wait_for

from laddernet.errors import InputError
from laddernet.study.driver import drive
from laddernet.study.executors import Event, Task
from laddernet.study.store import Run, Store
from laddernet.training.config import REVISION
from laddernet.tune.outcome import outcomes
from laddernet.tune.search import Search, key, more, open_storage
from laddernet.tune.space import Space, Spaces


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "tune.db")
    yield store
    store.close()


storage_of = cache(open_storage)  # which takes a while


def search(store: Store, model: str = "linear", space: Space | None = None, **changes: Any) -> Search:
    settings: dict[str, Any] = {"labels": 40, "hidden": (8, 4), "epochs": 4, "sampler": "random", "trials": 8}
    rows = digits().training_rows()
    return Search(rows, store, storage_of(store), space or Spaces().of(model), model=model, **{**settings, **changes})


def go(
    store: Store, *searches: Search, work: Callable[[dict[str, Any]], Event] = made_up, slots: int = 1
) -> list[Task]:
    executor = InThisProcess(work)
    executor.slots = slots
    drive(store, {}, executor, Path("/nowhere"), command=[], more=partial(more, store, searches), test=False)
    return executor.done


def values(which: Search) -> list[dict[str, float]]:
    return [which.values(trial) for trial in which.study.trials]


@pytest.mark.parametrize("sampler", ["random", "tpe"])  # TPE draws at random ten times first
def test_the_seed_decides_what_is_tried(tmp_path: Path, sampler: str) -> None:
    tried = {}
    for name, seed in (("one", 0), ("two", 0), ("other", 1))[: 2 if sampler == "tpe" else 3]:
        with_store = Store.open(tmp_path / f"{name}.db")
        which = search(with_store, sampler=sampler, seed=seed, trials=12 if sampler == "tpe" else 3, draws=1)
        go(with_store, which)
        tried[name] = values(which)
        with_store.close()
    assert tried["one"] == tried["two"]
    if sampler == "random":
        assert tried["one"][0] == tried["other"][0]  # the untuned values
        assert all(a != b for a, b in zip(tried["one"][1:], tried["other"][1:], strict=True))


def test_a_random_search_tries_the_same_however_many_slots_there_are(tmp_path: Path) -> None:
    tried = []
    for slots in (1, 3):
        with_store = Store.open(tmp_path / f"{slots}.db")
        which = search(with_store, trials=3, draws=1)
        go(with_store, which, slots=slots)
        tried.append(values(which))
        with_store.close()
    assert tried[0] == tried[1]


def test_another_revision_is_another_search_and_the_first_stays(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    first = search(store, sampler="random", trials=1)
    assert search(store, sampler="random", trials=1).plan.name == first.plan.name
    monkeypatch.setattr("laddernet.tune.search.REVISION", REVISION + 1)
    second = search(store, sampler="random", trials=1)
    assert second.plan.name != first.plan.name
    found = outcomes(open_storage(store))
    assert [outcome.about["revision"] for outcome in found] == [REVISION, REVISION + 1]


def test_an_edited_combinator_is_another_search_and_stops_the_one_under_way(store: Store, tmp_path: Path) -> None:
    text = "from laddernet.network.combinators import Linear\n\n\nclass Mine(Linear):\n    number = {}\n"
    (tmp_path / "mine.py").write_text(text.format(1))
    model = f"{tmp_path / 'mine.py'}:Mine"
    first = search(store, model, Spaces().of(model), sampler="random", trials=1)
    (tmp_path / "mine.py").write_text(text.format(2))
    with pytest.raises(InputError, match="has changed since this search began"):
        first.ask()
    assert search(store, model, Spaces().of(model), sampler="random", trials=1).plan.name != first.plan.name


def test_a_grid_search_tries_every_point_once(store: Store) -> None:
    which = search(store, "baseline-noise", sampler="grid", trials=None, draws=1)
    go(store, which)
    tried = [v["noise"] for v in values(which)]
    assert tried[0] == 0.5  # the untuned value, which is on the grid too
    assert sorted(tried[1:]) == [0.1, 0.2, 0.3, 0.5]
    assert Spaces().of("vanilla").grid()["lambda_1"][0] == Spaces().of("vanilla").ranges["lambda_1"].drawn(0)


def test_with_all_rows_labelled_those_held_out_are_not(store: Store) -> None:
    which = search(store, labels="all", trials=1, draws=1)
    (task,) = go(store, which)
    assert (task.config["labels"], task.config["validation"]) == (1437 - 239, 239)
    assert which.plan.labels == 1437


def test_several_models_are_searched_one_trial_of_each_at_a_time(store: Store) -> None:
    searches = [search(store, model, trials=2, draws=1) for model in ("linear", "no-sig", "no-mult")]
    order = [task.config["model"] for task in go(store, *searches, slots=2)]
    assert order == ["linear", "no-sig"] * 2 + ["no-mult"] * 2


def test_a_trial_goes_on_wherever_its_process_was_killed(tmp_path: Path) -> None:
    undisturbed = Store.open(tmp_path / "undisturbed.db")
    whole = search(undisturbed, trials=2, sampler="tpe")
    go(undisturbed, whole)

    class Killed(BaseException):
        pass

    store = Store.open(tmp_path / "tune.db")
    # One call after another is the last that the process makes before it dies.
    methods = ["create_new_trial", "set_trial_param", "set_trial_intermediate_value", "set_trial_user_attr"]
    deaths = [(method, after) for method in methods for after in (1, 4)]
    for method, after in deaths:
        real, calls = getattr(optuna.storages.RDBStorage, method), 0

        def once(*args: Any, real: Any = real, after: int = after, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            result = real(*args, **kwargs)
            if calls == after:
                raise Killed
            return result

        with patch.object(optuna.storages.RDBStorage, method, once):
            try:
                go(store, search(store, trials=2, sampler="tpe"))
            except Killed:
                continue
    done = search(store, trials=2, sampler="tpe")
    go(store, done)
    assert values(done) == values(whole)
    assert [trial.value for trial in done.study.trials] == [trial.value for trial in whole.study.trials]
    assert {trial.state for trial in done.study.trials} == {TrialState.COMPLETE}
    assert store.counts()["done"] == undisturbed.counts()["done"] == 6


@pytest.mark.process
def test_two_processes_share_a_search_in_postgresql(fresh_schema: sa.URL) -> None:
    address = fresh_schema.render_as_string(hide_password=False)
    stores = [Store.open(address) for _ in range(2)]
    ended: list[list[Task]] = []
    both = threading.Barrier(2)

    def one(store: Store) -> None:
        tasks = count()

        def slowly(task: dict[str, Any]) -> Event:
            if next(tasks) == 0:
                both.wait(PATIENCE)  # so that both have a part in it
            return made_up(task)

        ended.append(go(store, search(store, trials=6), work=slowly))

    threads = [threading.Thread(target=one, args=(store,)) for store in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(ended) == 2
    which = search(stores[0], trials=6)
    assert len(which.study.trials) == 6
    assert all(trial.state.is_finished() for trial in which.study.trials)
    runs = stores[0].runs()
    assert {run.attempts for run in runs} == {1}
    assert len(runs) == sum(map(len, ended))
    for each in stores:
        storage_of(each).engine.dispose()
        each.close()


def test_two_processes_that_see_the_last_draw_end_tell_of_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = [Store.open(tmp_path / "tune.db") for _ in range(2)]
    told: list[int] = []
    one, other = (
        search(store, trials=1, draws=1, on_end=lambda _, trial: told.append(trial.number)) for store in stores
    )
    config = one.ask()
    assert config is not None
    drive(stores[0], {key(config): config}, InThisProcess(made_up), Path("/nowhere"), command=[], test=False)
    meanwhile = threading.Thread(target=other.wanted)
    tell = optuna.Study.tell

    def interrupted(*arguments: Any) -> Any:
        if meanwhile.ident is None:
            meanwhile.start()
            meanwhile.join(1)  # it does not end: it waits for the first to have told
        return tell(*arguments)

    monkeypatch.setattr(optuna.Study, "tell", interrupted)
    assert one.wanted() == []
    meanwhile.join(PATIENCE)
    assert told == [0]
    for each in stores:
        each.close()


def done_in(database: Path) -> dict[str, Run]:
    with closing(Store.open(database)) as store:
        return {run.fingerprint: run for run in store.runs(status="done")}


@pytest.mark.process
def test_a_search_killed_with_sigkill_goes_on_with_the_same_trials(tmp_path: Path) -> None:
    arguments = ("vanilla", *TINY, "--epochs", "30", "--trials", "3", "--sampler", "random", "--jobs", "1")
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    assert tune(*arguments, cwd=undisturbed, work=made_up).code == 0
    environment = held(tmp_path / "hold", after=45)  # it stops in the second of nine draws
    process = subprocess.Popen(
        [sys.executable, "-m", "laddernet", "tune", *arguments, "--checkpoint-every", "0"],
        cwd=tmp_path, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    database = tmp_path / "t" / "tune.db"
    wait_for(lambda: database.exists() and done_in(database), process.poll)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = done_in(database)
    assert len(kept) == 1
    assert tune(*arguments, cwd=tmp_path).code == 0
    assert [trial.values for trial in trials(tmp_path)] == [trial.values for trial in trials(undisturbed)]
    store = Store.open(database)
    assert store.runs(list(kept)) == list(kept.values())  # what was done was not done again
    assert store.counts()["running"] == store.counts()["waiting"] == 0


@pytest.mark.process
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_store_lives_beside_optunas_tables_in_either_order(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "sqlite":
        where = str(tmp_path / "both.db")
        url = f"sqlite:///{where}"
    else:
        where = request.getfixturevalue("fresh_schema").render_as_string(hide_password=False)
        url = where.replace("postgresql://", "postgresql+psycopg://")
    others = optuna.storages.RDBStorage(url)
    optuna.create_study(storage=others, study_name="of another program")
    others.engine.dispose()
    with pytest.raises(InputError, match="There is no study"):
        Store.open(where, create=False)
    store = Store.open(where)
    which = search(store, trials=2)
    go(store, which)
    storage_of(store).engine.dispose()
    store.close()
    again = Store.open(where, create=False)
    assert again.counts()["done"] == 6
    assert len(outcomes(storage_of(again))) == 1  # the other is not ours
    storage_of(again).engine.dispose()
    again.close()


def test_a_file_of_optunas_that_cannot_be_opened_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alembic.script.ScriptDirectory.get_current_head", lambda self: None)  # as without descriptors
    with (
        closing(Store.open(tmp_path / "tune.db")) as store,
        pytest.raises(InputError, match="Optuna cannot read its files"),
    ):
        open_storage(store)
