"""The command `laddernet tune`: a real search, its report, and bad input."""

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import optuna
import pytest
from searches import TINY, found, made_up, refuses, trials, tune
from support import digits, laddernet

from laddernet.data import Dataset
from laddernet.study import worker
from laddernet.study.executors import Event
from laddernet.study.store import Store
from laddernet.training import step
from laddernet.training.settings import configure
from laddernet.training.tuned import held_for, read
from laddernet.tune.search import Search


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int, str]:
    """A folder with a search of five trials of two draws, how many programs that compiled, and what it printed."""
    folder = tmp_path_factory.mktemp("tune")
    before = step.run_steps._cache_size()  # type: ignore[attr-defined]
    done = tune("vanilla", *TINY, "--trials", "5", "--draws", "2", "--also", "learning_rate", cwd=folder)
    assert done.code == 0, done.err
    return folder, step.run_steps._cache_size() - before, done.out  # type: ignore[attr-defined]


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
    worker._loaded.cache_clear()
    given: list[Any] = []

    def seen(*args: Any, **kwargs: Any) -> Search:
        given.append(args[0])
        return Search(*args, **kwargs)

    with (
        patch("laddernet.data.load", lambda name: sealed),
        patch("laddernet.tune.search.Search", seen),
    ):
        done = tune("vanilla", *TINY, "--trials", "2", "--draws", "2", "--also", "learning_rate", cwd=tmp_path)
    worker._loaded.cache_clear()
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
    held = read(file)
    entry = held.entries[40, "vanilla"]
    assert (held.data, held.shape, entry.settings) == ("digits", (64, 10), best.settings)
    shipped = held_for("digits").entries
    assert held.entries == {**shipped, (40, "vanilla"): entry}  # so that a study compares all models tuned
    assert entry.origin["validation_error"] == pytest.approx(best.mean, abs=1e-4)
    expected = {"sampler": "tpe", "trials": 5, "epochs": 4, "draws": 2, "searched": True}
    assert expected.items() <= entry.origin.items()
    assert entry.origin["command"].startswith("laddernet tune vanilla --labels 40")
    config = configure(digits(), labels=40, hidden=(8, 4), tuned=file)
    assert config.noise == (best.settings["noise"],) * 4
    assert config.learning_rate == best.settings["learning_rate"]
    assert configure(digits(), labels=40, tuned=file, noise=0.7).noise[0] == 0.7
    assert laddernet("tune", "report", "--out", "t", "--write", file, cwd=folder).code == 0
    assert read(file) == held
    for command in (("train",), ("study", "--models", "vanilla", "--dry-run", "--out", "s")):
        refused = laddernet(*command, "--labels", "40", "--tuned", "nowhere.toml", cwd=folder)
        assert (refused.code, "Cannot read nowhere.toml" in refused.err) == (2, True)


def test_optuna_itself_opens_the_storage(searched: tuple[Path, int, str]) -> None:
    folder, _, _ = searched
    (name,) = optuna.get_all_study_names(f"sqlite:///{folder / 't' / 'tune.db'}")
    study = optuna.load_study(study_name=name, storage=f"sqlite:///{folder / 't' / 'tune.db'}")
    assert study.best_value == found(folder)[0].ranked[0].mean


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


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "No model is named; name the models to tune"),
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


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE trials SET state = '-1'",
        "UPDATE trials SET datetime_complete = 'x'",
        "UPDATE trial_params SET distribution_json = '{'",
        "UPDATE trial_user_attributes SET value_json = 'null'",
        "UPDATE study_user_attributes SET value_json = '{}'",
        f"UPDATE trial_params SET distribution_json = '{'[' * 9999}'",
        "DROP TABLE trial_params",
        "DROP TABLE studies",
    ],
)
def test_a_search_in_a_damaged_store_is_one_sentence_and_its_page_stays(tmp_path: Path, statement: str) -> None:
    options = ("vanilla", "--labels", "40", "--hidden", "8,4", "--epochs", "4", "--out", "t", "--trials", "2")
    assert tune(*options, "--draws", "1", cwd=tmp_path, work=made_up).code == 0
    page = (tmp_path / "t" / "tune.html").read_bytes()
    with closing(sqlite3.connect(tmp_path / "t" / "tune.db", isolation_level=None)) as file:
        file.execute(statement)
        before = list(file.iterdump())
        refuses(tmp_path, ("report", "--out", "t"), "tune.db")
        assert list(file.iterdump()) == before
    assert (tmp_path / "t" / "tune.html").read_bytes() == page
