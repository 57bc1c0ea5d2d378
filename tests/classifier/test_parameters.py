"""The parameters of a fit are checked."""

import re
from typing import Any

import numpy as np
import pytest
from iris import X, fit

from laddernet import InputError, LadderClassifier


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"hidden": ()}, "hidden must be one or more positive integers, got ()."),
        ({"hidden": (8, 0)}, "hidden must be one or more positive integers, got (8, 0)."),
        ({"hidden": 8.5}, "hidden must be one or more positive integers, got 8.5."),
        ({"hidden": [True]}, "hidden must be one or more positive integers, got [True]."),
        ({"hidden": "8"}, "hidden must be one or more positive integers, got '8'."),
        ({"learning_rate": True}, "learning_rate must be a finite number above 0, got True."),
        ({"eta": 10**400}, "eta must be a finite number above 0, got 1000"),
        ({"noise": "0.3"}, "noise must be finite numbers of 0 or more, got '0.3'."),
        ({"n_networks": 10**9}, "n_networks must be an integer from 1 to 10000, got 1000000000."),
        ({"epochs": 1}, "Both epochs and max_steps are given; give one of them."),
        ({"max_steps": 0}, "max_steps must be an integer from 1 to 1000000000, got 0."),
        ({"batch_size": 2.5}, "batch_size must be an integer from 1 to 1000000, got 2.5."),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0, got 0.0."),
        ({"learning_rate": None}, "learning_rate must be a finite number above 0, got None."),
        ({"label_smoothing": "much"}, "label_smoothing must be a finite number of 0 or more, got 'much'."),
        ({"recon_weights": (1, 2)}, "recon_weights has 2 values; give 1 or 3 (layers 0 to 2)."),
        ({"model": None}, "The model is None; give a model's id, file.py:Class, or a class."),
        ({"device": 3}, "There is no device 3 here; give one of cpu, or None."),
        ({"weight_decay": float("nan")}, "weight_decay must be a finite number of 0 or more, got nan."),
        ({"n_networks": 0}, "n_networks must be an integer from 1 to 10000, got 0."),
        ({"linear_share": 1}, "linear_share must be a finite number of 0 or more and below 1, got 1."),
        ({"label_smoothing": -0.1}, "label_smoothing must be a finite number of 0 or more, got -0.1."),
        ({"noise": (0.1, 0.2, 0.3, 0.4)}, "noise has 4 values; give 1, 2 or 3 (layers 0 to 2)."),
        ({"noise": "much"}, "noise must be finite numbers of 0 or more, got 'much'."),
        (
            {"early_stopping": True, "validation_fraction": "a"},
            "validation_fraction must be a finite number above 0, got 'a'.",
        ),
        (
            {"early_stopping": True, "validation_fraction": 0.97},
            "validation_fraction is 0.97, which leaves so few labels",
        ),
        ({"recon_weights": -1}, "recon_weights must be finite numbers of 0 or more, got -1."),
        ({"scale": "log"}, "scale is 'log'; give one of 'auto', 'columns', 'range', 'none'."),
        ({"model": "vanila"}, "There is no model 'vanila'; did you mean 'vanilla'?"),
        ({"device": "abacus"}, "There is no device 'abacus' here; give one of cpu, or None."),
        ({"n_jobs": -9}, "n_jobs is -9; give a number of cores, None or -1 for all."),
        ({"n_jobs": 0}, "n_jobs is 0; give a number of cores, None or -1 for all."),
        ({"batch_size": None}, "batch_size must be an integer from 1 to 1000000, got None."),
        ({"n_iter_no_change": None}, "n_iter_no_change must be an integer of 1 or more, got None."),
        ({"early_stopping": "no"}, "early_stopping must be True or False, got 'no'."),
        ({"warm_start": np.array([1, 2])}, "warm_start must be True or False, got [1, 2]."),
        ({"validation_fraction": "a"}, "validation_fraction must be a finite number above 0, got 'a'."),
        ({"verbose": "no"}, "verbose must be True, False or an integer, got 'no'."),
        ({"scale": np.array([1, 2])}, "scale is [1, 2]; give one of 'auto', 'columns', 'range', 'none'."),
        ({"n_jobs": "2"}, "n_jobs is '2'; give a number of cores, None or -1 for all."),
    ],
    ids=str,
)
def test_parameters_that_will_not_do_are_one_sentence(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        fit(**parameters)


def test_a_large_integer_is_used_as_the_float_of_the_same_value() -> None:
    by_integer, by_float = (fit(eta=value, max_steps=1) for value in (10**10, 1e10))
    np.testing.assert_array_equal(by_integer.predict_proba(X), by_float.predict_proba(X))


@pytest.mark.parametrize("bad", ["float16", "BFLOAT16", None, 32, ["bfloat16"]])
def test_another_precision_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match="precision must be 'float32' or 'bfloat16', got"):
        LadderClassifier(precision=bad).fit([[0.0], [1.0]], [0, 1])
