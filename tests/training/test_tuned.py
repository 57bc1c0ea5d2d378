"""Files of tuned values: those that ship, and a user's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import digits

from laddernet.data import TrainingRows, known
from laddernet.errors import InputError
from laddernet.network import combinators
from laddernet.network.models import MODELS
from laddernet.training import tuned
from laddernet.training.settings import configure, published
from laddernet.training.tuned import Entry, lookup, read, to_toml, untuned


def shipped() -> list[Path]:
    return sorted(Path(tuned.__file__).parent.glob("*.toml"))


def test_the_shipped_values_are_complete_and_say_where_they_come_from() -> None:
    assert "mnist.toml" in [path.name for path in shipped()]
    for path in shipped():
        data, entries, shape = read(path)
        info = next(info for info in known() if info.name == path.stem)
        assert (data, shape) == (path.stem, (info.n_features, info.n_classes))
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
    entries = read(next(path for path in shipped() if path.stem == "mnist")).entries
    assert lookup("mnist", 1000, "vanilla") == entries[1000, "vanilla"].settings
    assert lookup("mnist", 1001, "vanilla") == lookup("nothing", 1000, "vanilla") == {}
    rows = TrainingRows("mnist", np.zeros((2000, 784), np.float32), np.arange(2000, dtype=np.int32) % 10, ("",) * 10)
    assert configure(rows, labels=1000, noise=0.7).noise[0] == 0.7
    assert configure(rows, labels=1000).recon_weights[0] == entries[1000, "vanilla"].settings["recon_weights"][0]
    with pytest.raises(InputError, match="holds values for mnist, not for digits"):
        configure(digits(), tuned=str(next(path for path in shipped() if path.stem == "mnist")))


def test_tuned_values_are_for_a_data_set_of_their_shape(tmp_path: Path) -> None:
    smaller = replace(digits().training_rows(), name="mnist")  # a user's file of this name, with 64 columns
    assert configure(smaller, labels=1000) == configure(smaller, labels=1000, tuned=False)
    file = tmp_path / "mine.toml"
    file.write_text(to_toml("digits", {(100, "vanilla"): Entry({"noise": 0.7}, {})}, (784, 10)))
    with pytest.raises(
        InputError, match="for digits with 784 columns and 10 classes, not with 64 columns and 10 classes"
    ):
        configure(digits(), tuned=file)
    file.write_text(to_toml("digits", {(100, "vanilla"): Entry({"noise": 0.7}, {})}, (64, 10)))
    assert configure(digits(), tuned=file).noise[0] == 0.7


def test_a_run_is_untuned_only_beside_models_that_a_search_has_tuned(tmp_path: Path) -> None:
    def found(tuned: bool | str, **changes: Any) -> list[str]:
        models = {"vanilla": "vanilla", "mine": f"{combinators.__name__}:Linear"}
        configs = {name: configure(digits(), model=model, tuned=False, **changes) for name, model in models.items()}
        return untuned(configs, (64, 10), tuned)

    assert found(True) == ["mine"]
    assert found(False) == found(True, labels=50) == []
    assert (
        untuned({"mine": configure(digits(), model="gaussian")}, (63, 10), True) == []
    )  # of another shape: all untuned
    file = str(tmp_path / "mine.toml")
    Path(file).write_text(to_toml("digits", {(100, f"{combinators.__name__}:Linear"): Entry({}, {"searched": True})}))
    assert found(file) == ["vanilla"]
    Path(file).write_text(to_toml("digits", {(100, "vanilla"): Entry({}, {"searched": False})}))
    assert found(file) == []


@pytest.mark.parametrize("text", ["", "data = 1\n[x.vanilla]\nnoise = 1", 'data = "d"\n[1.a]\nnoise = "b"', "[["])
def test_a_bad_file_of_tuned_values_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    with pytest.raises(InputError, match="is not a file of tuned values"):
        read(tmp_path / "bad.toml")


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 2000,
        "[default]\nnoise = " + "{ a = " * 2000,
        "[default]\nnoise = " + "9" * 5000,
        "data = 'digits'\n[100.vanilla]\nnoise = " + "9" * 400 + "\n[100.vanilla.origin]\n",
    ],
    ids=["nested", "nested by tables", "an integer of 5,000 digits", "an integer of 400 digits"],
)
def test_values_that_are_nested_too_deeply_or_too_long_are_one_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "t").write_text(text)
    with pytest.raises(InputError, match=r"t is not a file of tuned values \("):
        read(tmp_path / "t")
