"""A linear model of probabilities, as NumPy arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from laddernet.inference.network import softmax


@dataclass(frozen=True)
class Linear:
    """softmax(x W + b), with a column of W for each class."""

    W: np.ndarray
    b: np.ndarray

    @classmethod
    def of(cls, coef: np.ndarray, intercept: np.ndarray) -> Self:
        """Convert the coefficients of scikit-learn, which has a single row of them for two classes."""
        if len(coef) == 1:  # the sigmoid of z is the softmax of 0 and z
            coef, intercept = (np.concatenate([np.zeros_like(array), array]) for array in (coef, intercept))
        return cls(np.ascontiguousarray(coef.T), intercept)

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Compute the probabilities of the classes for rows of scaled columns."""
        return softmax(x @ self.W + self.b)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays for a file."""
        return {"W": self.W, "b": self.b}

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray], columns: int, classes: int) -> Self:
        """Make the model of the arrays in a file; refuse shapes that do not fit."""
        made = cls(arrays["W"], arrays["b"])
        floats = {made.W.dtype.kind, made.b.dtype.kind} == {"f"}
        if made.W.shape != (columns, classes) or made.b.shape != (classes,) or not floats:
            raise ValueError(
                f"the shapes {made.W.shape} and {made.b.shape} of a linear model do not fit, or are not of floats"
            )
        return made
