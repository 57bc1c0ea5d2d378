"""Searches: what they try, what they never see, and that a killed one goes on. Most draws are made up, not trained."""

import json
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import optuna
import pytest
import sqlalchemy as sa
from optuna.trial import TrialState
from support import PATIENCE, Finished, digits, held, laddernet, wait_for

from laddernet.data import Dataset
from laddernet.errors import InputError
from laddernet.network.models import MODELS
from laddernet.report.tune import error
from laddernet.report.tune_page import page
from laddernet.study import worker
from laddernet.study.driver import drive
from laddernet.study.executors import Event, Task
from laddernet.study.store import Run, Store
from laddernet.training import step, tuned
from laddernet.training.config import REVISION
from laddernet.training.settings import RECIPES, configure, published
from laddernet.training.tuned import Entry, lookup, read, to_toml
from laddernet.tune.outcome import Outcome, Tried, outcomes
from laddernet.tune.search import Search, key, more, open_storage
from laddernet.tune.space import Space, Spaces, as_values

# The shape that the other tests compile.
TINY = ("--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--epochs", "4", "--out", "t")


class InThisProcess:
    """An executor that does all work when it is asked for events; ``work`` replaces training."""

    slots = 1

    def __init__(self, work: Callable[[dict[str, Any]], Event] | None = None) -> None:
        self._work = work or (lambda task: worker.perform(task, lambda record: None))
        self._tasks: list[tuple[int, Task]] = []
        self.done: list[Task] = []

    def start(self, slot: int, task: Task) -> None:
        self._tasks.append((slot, task))

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        if not self._tasks:
            time.sleep(0.05)
            return []
        slot, task = self._tasks.pop(0)
        self.done.append(task)
        return [(slot, self._work(asdict(task)))]

    def close(self) -> None:
        pass


def tune(*arguments: str | Path, cwd: Path, work: Callable[[dict[str, Any]], Event] | None = None) -> Finished:
    """`laddernet tune` without processes of its own."""
    with patch("laddernet.cli.runs.choose_executor", lambda *args, **kwargs: InThisProcess(work)):
        return laddernet("tune", *arguments, cwd=cwd)


def made_up(task: dict[str, Any]) -> Event:
    """Little noise is good, and every draw has its own difficulty."""
    config = task["config"]
    error = 10 + 50 * abs(config["noise"][0] - 0.3) + config["seed"] % 3
    return {"event": "done", "result": {"validation_error": error}, "history": [], "environment": {}}


def trials(folder: Path) -> list[Tried]:
    (outcome,) = found(folder)
    return outcome.trials


def found(folder: Path) -> list[Outcome]:
    return outcomes(open_storage(Store.open(folder / "t" / "tune.db", create=False)))


# --- A real search ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """A folder with a search of five trials of two draws, how many programs that compiled, and what it printed."""
    folder = tmp_path_factory.mktemp("tune")
    before = step.run_epoch._cache_size()  # type: ignore[attr-defined]
    done = tune("vanilla", *TINY, "--trials", "5", "--draws", "2", "--also", "learning_rate", cwd=folder)
    assert done.code == 0, done.err
    return folder, step.run_epoch._cache_size() - before, done.out  # type: ignore[attr-defined]


def test_a_search_tries_the_untuned_values_first_and_averages_over_draws(searched: tuple[Path, int, str]) -> None:
    folder, _, said = searched
    tried = trials(folder)
    assert len(tried) == 5
    assert tried[0].values == {
        "noise": 0.3, "lambda_0": 1000, "lambda_1": 10, "lambda_2": 0.1, "learning_rate": 0.002
    }  # fmt: skip
    assert len({str(trial.values) for trial in tried}) == 5
    store = Store.open(folder / "t" / "tune.db")
    seeds = {1001, 1002}
    for trial in tried:
        config = configure(
            digits(), labels=40, hidden=(8, 4), batch_size=400, epochs=4, tuned=False, **trial.settings
        )  # fmt: skip
        runs = store.runs([f"tune-{replace(config, seed=seed).fingerprint}" for seed in seeds])
        errors = {run.config["seed"]: run.result and run.result["validation_error"] for run in runs}
        assert trial.errors == [errors[seed] for seed in sorted(errors)]
        assert set(errors) == (seeds if trial.state == "complete" else {1001})
    assert [trial.state for trial in tried[:4]] == ["complete"] * 4
    assert "vanilla 5/5:" in said


def test_changing_noise_weights_and_learning_rate_compiles_nothing(searched: tuple[Path, int, str]) -> None:
    _, compiled, _ = searched
    assert compiled <= 1  # none if another test had this shape before


def test_the_same_command_trains_nothing_again(searched: tuple[Path, int, str]) -> None:
    folder, _, _ = searched
    before = trials(folder)

    def untouched(task: dict[str, Any]) -> Event:
        raise AssertionError(task)

    arguments = ("vanilla", *TINY, "--trials", "5", "--draws", "2", "--also", "learning_rate")
    assert tune(*arguments, cwd=folder, work=untouched).code == 0
    assert trials(folder) == before


def test_a_draw_leaves_no_test_error_and_no_weights(searched: tuple[Path, int, str]) -> None:
    folder, _, _ = searched
    files = {path.name for path in (folder / "t" / "draws").rglob("*")}
    assert "result.json" in files
    assert "weights.safetensors" not in files
    for run in Store.open(folder / "t" / "tune.db").runs(history=True):
        assert run.result is not None
        assert not [key for record in (run.result, *(run.history or ())) for key in record if "test" in key]


class WithoutTest(Dataset):
    """A data set that ends the program when its test rows are touched."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("x_test", "y_test") and "sealed" in object.__getattribute__(self, "__dict__"):
            raise AssertionError("a test row was asked for")
        return object.__getattribute__(self, name)


def test_no_test_row_can_be_reached(searched: tuple[Path, int, str], tmp_path: Path) -> None:
    whole = digits()
    sealed = WithoutTest(
        "digits", whole.x_train, whole.y_train, np.zeros_like(whole.x_test), np.zeros_like(whole.y_test), whole.classes
    )  # fmt: skip
    object.__setattr__(sealed, "sealed", True)
    with pytest.raises(AssertionError):
        _ = sealed.x_test
    worker._training_rows.cache_clear()
    given: list[Any] = []

    def seen(*args: Any, **kwargs: Any) -> Search:
        given.append(args[0])
        return Search(*args, **kwargs)

    with (
        patch("laddernet.data.load", lambda name: sealed),
        patch("laddernet.tune.search.Search", seen),
    ):
        done = tune("vanilla", *TINY, "--trials", "2", "--draws", "2", "--also", "learning_rate", cwd=tmp_path)
    worker._training_rows.cache_clear()
    assert done.code == 0, done.err
    # What the search holds, and what its worker holds, are training rows that are part of no larger table.
    for rows in given:
        assert not hasattr(rows, "x_test")
        assert rows.x_train.base is None
        assert rows.x_train.shape == whole.x_train.shape
    assert trials(tmp_path) == trials(searched[0])[:2]  # and other test rows change nothing


def test_the_report_shows_trials_importances_and_slices(searched: tuple[Path, int, str]) -> None:
    folder, _, said = searched
    done = laddernet("tune", "report", "--out", "t", cwd=folder)
    assert done.code == 0
    for text in ("untuned", "effect", "lambda_2", "pruning saved"):
        assert text in done.out
        assert text in said
    html = (folder / "t" / "tune.html").read_text()
    assert html.count("% of the effect</span>") == 5
    data = re.search(r'id="data-searches">(.*?)</script>', html)
    assert data
    (shown,) = json.loads(data[1])
    assert [len(trial["values"]) for trial in shown["trials"]] == [5] * 5


def test_the_best_values_become_an_entry_with_its_origin_which_runs_use(searched: tuple[Path, int, str]) -> None:
    folder, _, _ = searched
    file = folder / "mine.toml"
    assert laddernet("tune", "report", "--out", "t", "--write", file, cwd=folder).code == 0
    best = found(folder)[0].chosen
    data, entries = read(file)
    entry = entries[40, "vanilla"]
    assert (data, entry.settings) == ("digits", best.settings)
    assert entry.origin["validation_error"] == pytest.approx(best.mean, abs=1e-4)
    expected = {"sampler": "tpe", "trials": 5, "epochs": 4, "draws": 2, "searched": True}
    assert expected.items() <= entry.origin.items()
    assert entry.origin["command"].startswith("laddernet tune vanilla --labels 40")
    config = configure(digits(), labels=40, hidden=(8, 4), tuned=file)
    assert config.noise == (best.settings["noise"],) * 4
    assert config.learning_rate == best.settings["learning_rate"]
    assert configure(digits(), labels=40, tuned=file, noise=0.7).noise[0] == 0.7
    assert laddernet("tune", "report", "--out", "t", "--write", file, cwd=folder).code == 0
    assert read(file) == (data, entries)
    for command in (("train",), ("study", "--models", "vanilla", "--dry-run", "--out", "s")):
        refused = laddernet(*command, "--labels", "40", "--tuned", "nowhere.toml", cwd=folder)
        assert (refused.code, "Cannot read nowhere.toml" in refused.err) == (2, True)


def test_one_draw_or_equal_ones_are_not_shown_as_certain() -> None:
    shown = [error(Tried(0, "complete", {}, {}, errors)) for errors in ([7.0], [7.0, 7.0], [7.0, 8.0])]
    assert shown == ["7.00 (1 draw)", "7.00 (2 equal draws)", "7.50 ± 0.71"]


def test_optuna_itself_opens_the_storage(searched: tuple[Path, int, str]) -> None:
    folder, _, _ = searched
    (name,) = optuna.get_all_study_names(f"sqlite:///{folder / 't' / 'tune.db'}")
    study = optuna.load_study(study_name=name, storage=f"sqlite:///{folder / 't' / 'tune.db'}")
    assert study.best_value == found(folder)[0].ranked[0].mean


# --- Samplers and trials ----------------------------------------------------------------------------------------


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


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "tune.db")
    yield store
    store.close()


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


def test_bad_trials_end_early_and_the_saving_is_reported(tmp_path: Path) -> None:
    arguments = ("linear", *TINY, "--trials", "8", "--draws", "2")
    done = tune(*arguments, cwd=tmp_path, work=made_up)
    assert done.code == 0
    (outcome,) = found(tmp_path)
    pruned = [trial for trial in outcome.trials if trial.state == "pruned"]
    assert pruned
    assert all(len(trial.errors) == 1 and trial.mean > outcome.ranked[0].mean for trial in pruned)
    trained = Store.open(tmp_path / "t" / "tune.db").counts()["done"]
    assert outcome.draws == trained
    assert outcome.draws_saved == 8 * 2 - trained
    epochs = 4 * outcome.draws_saved
    assert f"pruning saved {outcome.draws_saved} ({outcome.draws_saved / 16:.0%}), {epochs} epochs" in " ".join(
        done.out.split()
    )
    (tmp_path / "all").mkdir()
    assert tune(*arguments, "--no-prune", cwd=tmp_path / "all", work=made_up).code == 0
    (whole,) = found(tmp_path / "all")
    assert (whole.count("complete"), whole.draws, whole.draws_saved) == (8, 16, 0)


def test_a_trial_that_diverges_is_recorded_and_the_search_goes_on(tmp_path: Path) -> None:
    def sometimes(task: dict[str, Any]) -> Event:
        if task["config"]["recon_weights"][0] > 500:
            return {"event": "failed", "error": "In epoch 1, step 1, cost became nan; <b>"}
        return made_up(task)

    done = tune("linear", *TINY, "--trials", "5", "--draws", "1", cwd=tmp_path, work=sometimes)
    assert done.code == 0
    (outcome,) = found(tmp_path)
    assert outcome.count("failed") > 0
    assert outcome.count("complete") > 0
    failed = [trial for trial in outcome.trials if trial.state == "failed"]
    assert all(trial.reason == "In epoch 1, step 1, cost became nan; <b>" for trial in failed)
    assert "cost became nan" in done.out
    html = (tmp_path / "t" / "tune.html").read_text()
    assert "cost became nan; &lt;b&gt;" in html
    assert "<b>" not in html
    (tmp_path / "none").mkdir()
    fails = {"event": "failed", "error": "broken"}
    none = tune("linear", *TINY, "--trials", "1", cwd=tmp_path / "none", work=lambda task: fails)
    assert none.code == 1


def test_a_search_whose_draws_are_lost_ends_and_goes_on_with_the_same_trial(tmp_path: Path) -> None:
    arguments = ("linear", *TINY, "--trials", "2", "--draws", "1", "--sampler", "random")
    lost = {"event": "lost", "error": "MemoryError: no memory."}
    ended = tune(*arguments, cwd=tmp_path, work=lambda task: lost)
    sentence = (
        "laddernet: A draw was lost 10 times, the last time for this reason: MemoryError: no memory; correct that"
    )
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert ended.err.startswith(sentence)
    assert tune(*arguments, cwd=tmp_path, work=made_up).code == 0
    (outcome,) = found(tmp_path)
    assert (outcome.count("failed"), outcome.count("complete")) == (0, 2)


def test_with_all_rows_labelled_those_held_out_are_not(store: Store) -> None:
    which = search(store, labels="all", trials=1, draws=1)
    (task,) = go(store, which)
    assert (task.config["labels"], task.config["validation"]) == (1437 - 239, 239)
    assert which.plan.labels == 1437


def test_several_models_are_searched_one_trial_of_each_at_a_time(store: Store) -> None:
    searches = [search(store, model, trials=2, draws=1) for model in ("linear", "no-sig", "no-mult")]
    order = [task.config["model"] for task in go(store, *searches, slots=2)]
    assert order == ["linear", "no-sig"] * 2 + ["no-mult"] * 2


# --- Killed, shared, resumed --------------------------------------------------------------------------------------


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


# --- Spaces -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("baseline", ["learning_rate"]),
        ("baseline-noise", ["noise"]),
        ("first-noise", ["noise", "lambda_0", "lambda_1", "lambda_2"]),
        ("first-recons", ["noise", "lambda_0"]),
        ("no-lateral", ["noise", "lambda_0"]),
        ("mlp-2-2", ["noise", "lambda_0", "lambda_1", "lambda_2", "eta"]),
    ],
)
def test_a_space_holds_what_the_model_has(model: str, names: list[str]) -> None:
    assert list(Spaces().of(model).ranges) == names


def test_what_is_optional_is_searched_where_a_model_has_it() -> None:
    also = ["noise_hidden", "learning_rate"]
    assert list(Spaces().of("vanilla", also).ranges)[1::4] == ["noise_hidden", "learning_rate"]
    assert list(Spaces().of("first-noise-recons", also).ranges) == ["noise", "lambda_0", "learning_rate"]


@pytest.mark.parametrize("model", MODELS)
def test_every_space_holds_the_untuned_values(model: str) -> None:
    space = Spaces().of(model)
    untuned = as_values({**published(MODELS[model], 100), "learning_rate": RECIPES["paper"].learning_rate})
    drawn = space.drawn(untuned)
    assert drawn is not None
    assert space.values(drawn) == {name: untuned[name] for name in space.ranges}


def test_zero_is_the_lowest_tenth_of_the_scale() -> None:
    space = Spaces().of("vanilla")
    scale, weight = space.distributions()["lambda_1"], space.ranges["lambda_1"]
    start, end = np.log([scale.low, scale.high])
    assert weight.value(np.exp(start + 0.0999 * (end - start))) == 0
    assert weight.value(np.exp(start + 0.1001 * (end - start))) == weight.low
    assert weight.drawn(0) == scale.low


def test_a_users_file_changes_the_space(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(
        "[default]\nlambda_2 = 0\n[vanilla]\nnoise = { low = 0.2, high = 0.4 }\nlearning_rate = { optional = false }\n"
    )
    space = Spaces(file).of("vanilla")
    assert (space.ranges["noise"].low, space.ranges["noise"].grid) == (0.2, (0.2, 0.3))
    assert space.fixed == {"lambda_2": 0.0}
    assert "learning_rate" in space.ranges
    assert Spaces(file).of("linear").ranges["noise"].low == 0.05


def test_the_space_that_is_shown_can_be_given_back(tmp_path: Path) -> None:
    shown = laddernet("tune", "--show-space", "vanilla", "no-lateral", cwd=tmp_path)
    assert shown.code == 0
    assert set(tomllib.loads(shown.out)) == {"vanilla", "no-lateral"}
    (tmp_path / "same.toml").write_text(shown.out)
    for model in ("vanilla", "no-lateral"):
        assert Spaces(tmp_path / "same.toml").of(model) == Spaces().of(model)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[vanilla", "is not TOML"),
        ("noise = 1", "outside of a table"),
        ("[vanila]\n", "did you mean 'vanilla'"),
        ("[vanilla]\nnois = 1", "has 'nois' in [vanilla]; give some of noise,"),
        ("[vanilla]\neta = 1", "has eta, which vanilla does not have; remove it."),
        ("[vanilla]\nnoise = 'much'", "write a number, or some of"),
        ("[vanilla]\nnoise = { low = 0.1, high = nan }", "write a number, or some of"),
        ("[vanilla]\nnoise = { high = 0.01 }", "ranges from 0.05 to 0.01; low must be"),
        ("[vanilla]\nnoise = { log = true, low = 0 }", "begins at 0; low must be above 0."),
        ("[vanilla]\nnoise = { zero = true }", "has zero without log"),
        ("[vanilla]\nnoise = { grid = [2] }", "has a grid outside its range; keep it within 0.05 and 1."),
        ("[vanilla]\nnoise = -1", "must be a number of 0 or more, got -1."),
    ],
)
def test_a_bad_space_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "space.toml").write_text(text)
    refuses(tmp_path, ("vanilla", "--space", "space.toml"), sentence)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "Name the models to tune"),
        (("vanila",), "did you mean 'vanilla'"),
        (("vanilla", "--sampler", "best"), "There is no sampler 'best'; give one of tpe, random, grid."),
        (("vanilla", "--trials", "0"), "trials must be an integer from 1 to 1000000, got 0."),
        (("vanilla", "--draws", "0"), "draws must be an integer from 1 to 1000, got 0."),
        (("vanilla", "--jobs", "0"), "--jobs must be an integer from 1 to 10000, got 0."),
        (("vanilla", "--executor", "moon"), "There is no executor 'moon'"),
        (("vanilla", "--validation", "0"), "validation must be an integer of 1 or more, got 0."),
        (("vanilla", "--labels", "10,20"), "--labels has '10,20' where a whole number should be"),
        (("vanilla", "--labels", "x"), "--labels has 'x'"),
        (("vanilla", "--seed", "-1"), "seed must be an integer from 0 to 4294967295, got -1."),
        (("vanilla", "--also", "luck"), "--also has 'luck'"),
        (("vanilla", "--epochs", "0"), "epochs must be an integer from 1 to 1000000, got 0."),
        (("vanilla", "--space", "nowhere.toml"), "Cannot read nowhere.toml"),
        (("vanilla", "--store", "postgresql://nobody@127.0.0.1:1/x"), "Cannot use the store postgresql://nobody@127.0"),
        (("report",), "holds no search; name the --out of a search"),
    ],
)
def test_bad_input_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    refuses(tmp_path, arguments, sentence)


def refuses(folder: Path, arguments: tuple[str, ...], sentence: str) -> None:
    ended = laddernet("tune", *arguments, cwd=folder)
    assert ended.code == 2, ended
    assert sentence in ended.err
    assert len(ended.err.strip().splitlines()) == 1


# --- What ships -------------------------------------------------------------------------------------------------------


def shipped() -> list[Path]:
    return sorted(Path(tuned.__file__).parent.glob("*.toml"))


def test_the_shipped_values_are_complete_and_say_where_they_come_from() -> None:
    assert "mnist.toml" in [path.name for path in shipped()]
    for path in shipped():
        data, entries = read(path)
        assert data == path.stem
        counts = {labels for labels, _ in entries}
        assert set(entries) == {(labels, model) for labels in counts for model in MODELS}
        for (_, model), entry in entries.items():
            searched = entry.origin["searched"]
            needed = ("sampler", "trials", "epochs", "validation_error", "validation_spread", "date", "command")
            assert all(name in entry.origin for name in (needed if searched else ("source",)))
            assert not entry.settings or configure(digits(), labels=100, model=model, tuned=False, **entry.settings)
    assert {100, 1000, 60000} <= {labels for labels, _ in read(shipped()[-1])[1]}


def test_what_was_not_searched_is_what_was_published() -> None:
    for path in shipped():
        for (labels, model), entry in read(path)[1].items():
            if not entry.origin["searched"]:
                known = published(MODELS[model], labels)
                assert all(np.array_equal(known[name], value) for name, value in entry.settings.items())


def test_a_tuned_learning_rate_is_for_the_recipe_it_was_tuned_with(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    entry = Entry({"noise": 0.7, "learning_rate": 0.123}, {"searched": True, "recipe": "quick"})
    file.write_text(to_toml("digits", {(100, "vanilla"): entry}))
    paper, quick = (configure(digits(), labels=100, recipe=recipe, tuned=file) for recipe in ("paper", "quick"))
    assert (paper.noise[0], paper.learning_rate) == (0.7, 0.002)
    assert (quick.noise[0], quick.learning_rate) == (0.7, 0.123)
    assert configure(digits(), labels=100, recipe="quick", tuned=False).learning_rate == 0.02


def test_tuned_values_are_for_their_number_of_labels_and_an_explicit_one_wins() -> None:
    _, entries = read(next(path for path in shipped() if path.stem == "mnist"))
    assert lookup("mnist", 1000, "vanilla") == entries[1000, "vanilla"].settings
    assert lookup("mnist", 1001, "vanilla") == lookup("nothing", 1000, "vanilla") == {}
    rows = replace(digits().training_rows(), name="mnist")
    assert configure(rows, labels=1000, noise=0.7).noise[0] == 0.7
    assert configure(rows, labels=1000).recon_weights[0] == entries[1000, "vanilla"].settings["recon_weights"][0]
    with pytest.raises(InputError, match="holds values for mnist, not for digits"):
        configure(digits(), tuned=str(next(path for path in shipped() if path.stem == "mnist")))


@pytest.mark.parametrize("text", ["", "data = 1\n[x.vanilla]\nnoise = 1", 'data = "d"\n[1.a]\nnoise = "b"', "[["])
def test_a_bad_file_of_tuned_values_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(InputError, match="is not a file of tuned values"):
        read(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    ("untuned", "best", "chosen"),
    [
        ([5.0, 6.0, 7.0], [4.0, 5.0, 6.1], 1),  # ahead on every draw by about as much
        ([5.0, 6.0, 7.0], [2.0, 6.9, 8.0], 0),  # ahead by one lucky draw
        ([5.0, 6.0, 7.0], [5.0, 6.0, 7.0], 0),
        ([5.0], [4.9], 1),
    ],
)
def test_values_that_are_ahead_by_chance_are_not_chosen(untuned: list[float], best: list[float], chosen: int) -> None:
    tried = [Tried(0, "complete", {}, {}, untuned), Tried(1, "complete", {}, {}, best)]
    assert Outcome("", {"starts_untuned": True}, tried, {}, "").chosen.number == chosen


def test_everything_on_the_page_is_escaped() -> None:
    nasty = '<img src=x onerror="alert(1)">'
    space = {"ranges": {nasty: {"low": 0.1, "high": 1.0, "grid": []}}, "fixed": {}}
    about = {"data": nasty, "labels": 1, "model": nasty, "draws": 1, "command": nasty, "space": space}
    about |= {"config": {"epochs": 1}, "starts_untuned": True}
    tried = [Tried(0, "complete", {nasty: 0.5}, {}, [1.0]), Tried(1, "failed", {nasty: 0.5}, {}, [], nasty)]
    html = page([Outcome(nasty, about, tried, {nasty: 1.0}, "")])
    assert "<img" not in html
    assert html.count("&lt;img") >= 7
