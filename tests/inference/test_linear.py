import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from laddernet.inference.linear import Linear

X, Y = load_iris(return_X_y=True)


@pytest.mark.parametrize("y", [Y, Y > 0], ids=["three classes", "two classes"])
def test_probabilities_are_those_of_scikit_learn(y: np.ndarray) -> None:
    known = LogisticRegression(max_iter=1000).fit(X, y)
    ours = Linear.of(known.coef_, known.intercept_)
    np.testing.assert_allclose(ours.probabilities(X), known.predict_proba(X), atol=1e-12)
    again = Linear.restored(ours.arrays(), columns=4, classes=len(known.classes_))
    np.testing.assert_array_equal(again.probabilities(X), ours.probabilities(X))


@pytest.mark.parametrize(
    "arrays",
    [
        {"W": np.zeros((3, 2)), "b": np.zeros(2)},
        {"W": np.zeros((4, 2)), "b": np.zeros(1)},
        {"W": np.zeros(4), "b": np.zeros(2)},
        {"W": np.zeros((4, 2), int), "b": np.zeros(2)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(arrays: dict[str, np.ndarray]) -> None:
    with pytest.raises(ValueError, match="linear model"):
        Linear.restored(arrays, columns=4, classes=2)
