import re
from dataclasses import asdict, fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import digits, tiny_config

from laddernet.errors import InputError
from laddernet.network.combinators import Linear
from laddernet.network.models import find
from laddernet.training.config import Config
from laddernet.training.settings import configure

# --- What is filled in ------------------------------------------------------------------------------------------


def test_defaults_are_the_papers_schedule_and_the_published_values_for_100_labels() -> None:
    assert configure(digits(), tuned=False) == Config(
        data="digits",
        labels=100,
        validation=239,  # a sixth of 1437
        model="vanilla",
        hidden=(256, 128, 64),
        noise=(0.3,) * 5,
        recon_weights=(1000.0, 10.0, 0.1, 0.1, 0.1),
        eta=0.1,
        epochs=150,
        decay_epochs=50,
        learning_rate=0.002,
        batch_size=100,
        labelled_batch_size=100,
        seed=0,
    )


def test_a_recipe_gives_what_was_not_asked_for() -> None:
    def shown(**asked: Any) -> tuple[float, ...]:
        config = configure(digits(), recipe="quick", tuned=False, **asked)
        rows = config.batch_size, config.copies, config.labelled_batch_size
        return config.epochs, config.decay_epochs, config.learning_rate, *rows

    assert shown() == (30, 21, 0.02, 200, 4, 400)
    assert shown(epochs=10) == (10, 7, 0.02, 200, 4, 400)
    asked = {"batch_size": 7, "copies": 1, "labelled_batch_size": 5}
    assert shown(epochs=9, decay_epochs=0, learning_rate=0.1, **asked) == (9, 0, 0.1, 7, 1, 5)


@pytest.mark.parametrize(
    ("model", "labels", "noise", "recon_weights"),
    [
        ("vanilla", 100, (0.3,) * 4, (1000, 10, 0.1, 0.1)),
        ("vanilla", 1000, (0.3, 0.2, 0.2, 0.2), (2000, 20, 0.1, 0.1)),
        ("amlp-4", 1000, (0.3, 0.2, 0.2, 0.2), (2000, 20, 0.1, 0.1)),
        ("first-recons", 100, (0.3,) * 4, (5000,) * 4),
        ("first-noise-recons", 1000, (0.3,) * 4, (2000,) * 4),
        ("baseline-noise", 100, (0.5,) * 4, (1000, 10, 0.1, 0.1)),
    ],
)
def test_noise_and_weights_default_to_what_was_published_for_about_as_many_labels(
    model: str, labels: int, noise: tuple[float, ...], recon_weights: tuple[float, ...]
) -> None:
    config = tiny_config(model=model, labels=labels, tuned=False)
    assert (config.noise, config.recon_weights) == (noise, recon_weights)


def test_all_labels_leave_no_rows_for_validation_unless_some_are_asked_for() -> None:
    config = tiny_config(labels="all")
    assert (config.labels, config.validation) == (1437, 0)


@pytest.mark.parametrize(
    ("given_noise", "noise"),
    [(0.5, (0.5,) * 4), ([0.5], (0.5,) * 4), ((0.5, 0.1), (0.5, 0.1, 0.1, 0.1)), ((1, 2, 3, 4), (1, 2, 3, 4))],
)
def test_noise_is_one_value_or_two_or_one_for_each_layer(given_noise: Any, noise: tuple[float, ...]) -> None:
    assert tiny_config(noise=given_noise).noise == noise


@pytest.mark.parametrize(
    ("given_weights", "weights"),
    [(7, (7,) * 4), ((3, 2, 1), (3, 2, 1, 1)), ((4, 3, 2, 1), (4, 3, 2, 1)), ((0, 0, 0, 0), (0,) * 4)],
)
def test_weights_are_one_value_or_three_or_one_for_each_layer(given_weights: Any, weights: tuple[float, ...]) -> None:
    assert tiny_config(recon_weights=given_weights).recon_weights == weights


@given(epochs=st.integers(1, 1000))
def test_a_third_of_the_epochs_decays(epochs: int) -> None:
    assert tiny_config(epochs=epochs).decay_epochs == epochs // 3


# --- What is refused --------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown model": ({"model": "vanila"}, "There is no model 'vanila'; did you mean 'vanilla'?"),
    "more labels than rows": ({"labels": 1438}, "1438 labels are more than the 1437 training rows"),
    "fewer labels than classes": ({"labels": 9}, "9 labels are too few for 10 classes"),
    "no labels": ({"labels": 0}, "labels must be an integer from 1 to 1000000000000, got 0."),
    "negative labels": ({"labels": -5}, "labels must be an integer from 1 to 1000000000000, got -5."),
    "more validation rows than are left": ({"validation": 1398}, "ask for at most 1397 validation rows"),
    "all rows for validation": ({"validation": 1437}, "ask for at most 1397 validation rows"),
    "negative validation rows": ({"validation": -1}, "validation must be an integer from 0 to 1000000000000, got -1."),
    "noise of three values": ({"noise": (1, 2, 3)}, "noise has 3 values; give 1, 2 or 4 (layers 0 to 3)."),
    "no noise values": ({"noise": ()}, "noise has 0 values"),
    "negative noise": ({"noise": -0.1}, "noise must be finite numbers of 0 or more, got -0.1."),
    "noise that is NaN": ({"noise": (0.3, float("nan"))}, "noise must be finite numbers of 0 or more, got (0.3, nan)."),
    "weights of two values": ({"recon_weights": (1, 2)}, "recon_weights has 2 values; give 1, 3 or 4"),
    "weights of five values": ({"recon_weights": (1,) * 5}, "recon_weights has 5 values"),
    "negative weights": (
        {"recon_weights": (1, 2, -3)},
        "recon_weights must be finite numbers of 0 or more, got (1, 2, -3).",
    ),
    "infinite weights": (
        {"recon_weights": float("inf")},
        "recon_weights must be finite numbers of 0 or more, got inf.",
    ),
    "a hidden layer of size 0": ({"hidden": (8, 0)}, "hidden must be one or more positive integers, got (8, 0)."),
    "a negative hidden size": ({"hidden": (-8,)}, "hidden must be one or more positive integers, got (-8,)."),
    "no hidden layers": ({"hidden": ()}, "hidden must be one or more positive integers, got ()."),
    "no epochs": ({"epochs": 0}, "epochs must be an integer from 1 to 1000000, got 0."),
    "negative epochs": ({"epochs": -4}, "epochs must be an integer from 1 to 1000000, got -4."),
    "more decay than epochs": ({"decay_epochs": 5}, "decay_epochs must be an integer from 0 to 4, got 5."),
    "negative decay": ({"decay_epochs": -1}, "decay_epochs must be an integer from 0 to 4, got -1."),
    "a recipe that does not exist": ({"recipe": "fast"}, "There is no recipe 'fast'; give one of paper, quick, small."),
    "a batch of no rows": ({"batch_size": 0}, "batch_size must be an integer from 1 to 1000000, got 0."),
    "a labelled batch of no rows": (
        {"labelled_batch_size": 0},
        "labelled_batch_size must be an integer from 1 to 1000000, got 0.",
    ),
    "a negative seed": ({"seed": -1}, "seed must be an integer from 0 to 4294967295, got -1."),
    "a seed beyond 32 bits": ({"seed": 2**32}, "seed must be an integer from 0 to 4294967295, got 4294967296."),
    "a learning rate of 0": ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0, got 0.0."),
    "an infinite learning rate": (
        {"learning_rate": float("inf")},
        "learning_rate must be a finite number above 0, got inf.",
    ),
    "no copies": ({"copies": 0}, "copies must be an integer from 1 to 1000, got 0."),
    "a negative weight decay": ({"weight_decay": -0.1}, "weight_decay must be a finite number of 0 or more, got -0.1."),
    "copies and rows that no memory holds": (
        {"copies": 1000, "batch_size": 10**6},
        "copies times batch_size must be at",
    ),
    "layers that no memory holds": ({"hidden": (10**5, 10**5)}, "hidden must make at most 1000000000 weights, got"),
    "a text as tuned values": ({"tuned": 3}, "tuned must be True, False or the name of a file, got 3."),
    "an eta that is NaN": ({"eta": float("nan")}, "eta must be a finite number above 0, got nan."),
}


NAN, INF = float("nan"), float("inf")
NOT_INTEGERS = [2.5, 2.0, NAN, INF, True, np.True_, "2", [2], None, 10**5000, -(10**30)]
NOT_NUMBERS = [NAN, INF, -INF, -0.1, True, np.True_, "0.1", [[0.1]], 10**400, 1e39, 1j, object()]
INTEGERS = (
    *("labels", "validation", "epochs", "decay_epochs", "batch_size", "labelled_batch_size", "copies", "seed"),
    "hidden",
)
NUMBERS = ("eta", "learning_rate", "weight_decay", "noise", "recon_weights")
HAS_DEFAULT = {*INTEGERS, *NUMBERS} - {"labels", "seed"}


@pytest.mark.parametrize(
    ("setting", "bad"),
    [
        *((name, bad) for name in INTEGERS for bad in NOT_INTEGERS if not (bad is None and name in HAS_DEFAULT)),
        *((name, bad) for name in NUMBERS for bad in NOT_NUMBERS),
        *(("hidden", bad) for bad in ([32.5], [INF], [True], ["8"], "8,4", [8, None], [[8, 4]], np.array([8.0]), {8})),
        *((name, bad) for name in ("noise", "recon_weights") for bad in ("0.3,0.2", [0.3, None], [True], {})),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_every_setting_is_checked_for_type_finiteness_and_range(setting: str, bad: Any) -> None:
    if setting == "hidden" and bad == [2]:
        return
    with pytest.raises(InputError) as error:
        tiny_config(**{setting: bad})
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 250


def test_integers_and_numbers_of_numpy_are_those_of_python() -> None:
    whole = {"labels": 40, "epochs": 3, "batch_size": 50, "copies": 2, "seed": 7, "validation": 9, "decay_epochs": 1}
    real = {"eta": 0.25, "learning_rate": 0.5, "weight_decay": 0.125}
    as_numpy = {name: np.int64(value) for name, value in whole.items()}
    as_numpy |= {name: np.float32(value) for name, value in real.items()}
    found = tiny_config(**as_numpy, hidden=np.array([8, 4]), noise=np.array([0.25, 0.5]))
    assert found == tiny_config(**whole, **real, hidden=(8, 4), noise=(0.25, 0.5))
    assert found.fingerprint == tiny_config(**whole, **real, noise=(0.25, 0.5)).fingerprint
    assert tiny_config(hidden=8).hidden == (8,)


def test_an_integer_in_the_place_of_a_number_gives_the_same_run() -> None:
    by_integer, by_float = (tiny_config(eta=one, learning_rate=one, weight_decay=one) for one in (1, 1.0))
    assert by_integer.fingerprint == by_float.fingerprint


@pytest.mark.parametrize("what", REFUSED)
def test_a_setting_that_will_not_do_is_refused_with_what_would(what: str) -> None:
    change, sentence = REFUSED[what]
    with pytest.raises(InputError, match=re.escape(sentence)) as error:
        tiny_config(**change)
    assert str(error.value).endswith((".", "?"))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        {"labels": 10, "validation": 1427},
        {"labels": 1437, "validation": 0},
        {"seed": 2**32 - 1},
        {"noise": 0},
        {"recon_weights": 0},
        {"epochs": 1, "decay_epochs": 1},
        {"batch_size": 10**6, "labelled_batch_size": 10**6},
        {"hidden": (1,), "noise": (1, 2, 3)},
    ],
)
def test_settings_at_the_edge_will_do(change: dict[str, Any]) -> None:
    assert isinstance(tiny_config(**change), Config)


# --- Its name ---------------------------------------------------------------------------------------------------


def test_the_fingerprint_is_the_same_in_every_process_and_version() -> None:
    # If this changes, every run that is under way or kept becomes another run.
    expected = "a4c5d7fda797000dbaf79ebfdee4b983f145d7c67e716dae9b26c034b1df0a7c"
    assert configure(digits(), labels=40, hidden=(8, 4), epochs=4, tuned=False).fingerprint == expected


@pytest.mark.parametrize("field", [field.name for field in fields(Config)])
def test_every_setting_tells_a_run_from_another(field: str) -> None:
    config = tiny_config()
    value = getattr(config, field)
    other = (*value, 1) if isinstance(value, tuple) else "a digest" if value is None else value + type(value)(1)
    assert replace(config, **{field: other}).fingerprint != config.fingerprint


def test_a_model_that_was_changed_is_refused_as_a_run_keeps_only_its_name() -> None:
    with pytest.raises(InputError, match="This is not the 'vanilla' that its name stands for, by which a run keeps it"):
        tiny_config(model=replace(find("vanilla"), noise="input"))
    assert tiny_config(model=find("first-noise")).model == "first-noise"
    assert tiny_config(model=Linear).model == "laddernet.network.combinators:Linear"


def test_precision_is_part_of_the_fingerprint_and_float32_is_what_runs_had_before() -> None:
    float32, bfloat16 = tiny_config(), tiny_config(precision="bfloat16")
    assert float32.fingerprint != bfloat16.fingerprint
    before = {name: value for name, value in asdict(float32).items() if name != "precision"}
    assert Config.from_json(before).fingerprint == float32.fingerprint


@pytest.mark.parametrize("bad", ["float16", "BFLOAT16", None, 32, ["bfloat16"]])
def test_another_precision_is_refused(bad: object) -> None:
    with pytest.raises(InputError, match="precision must be 'float32' or 'bfloat16', got"):
        tiny_config(precision=bad)
