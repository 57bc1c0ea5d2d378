"""A data set: inputs and a class for each row, for training and for testing."""

import hashlib
import json
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laddernet.errors import InputError

Inputs = NDArray[np.float32]
Classes = NDArray[np.int32]

UNLABELLED = -1  # the class of a training row without a label


class _Sizes:
    """The numbers of columns, classes and labels of training rows."""

    x_train: Inputs
    y_train: Classes
    classes: tuple[str, ...]

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self.x_train.shape[1])

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.classes)

    @property
    def n_labelled(self) -> int:
        """The number of training rows with a label."""
        return int(np.count_nonzero(self.y_train != UNLABELLED))


@dataclass(frozen=True, eq=False)
class TrainingRows(_Sizes):
    """A data set without its test rows, for a search for hyperparameters."""

    name: str
    x_train: Inputs
    y_train: Classes
    classes: tuple[str, ...]
    content: str | None = None


@dataclass(frozen=True, eq=False)
class Dataset(_Sizes):
    """Training and test rows of a classification problem.

    Parameters
    ----------
    name
        The name of the data set.
    x_train, x_test
        Inputs of shape (rows, features): C-contiguous float32 in [0, 1].
    y_train, y_test
        The class of each row: int32 indices into ``classes``, in ``y_train`` −1 where a row has no label.
    classes
        The names of the classes.
    image_shape
        Height and width, if the rows are images.
    content
        Digest of a user's data, which is part of a run's fingerprint; None for the data sets of laddernet, which never
        change. :meth:`with_content` computes it.

    Raises
    ------
    InputError
        If an array has another shape, type or range.

    Examples
    --------
    >>> x, y = np.zeros((4, 2), np.float32), np.array([0, 1, 0, 1], np.int32)
    >>> data = Dataset("mine", x, y, x[:2], y[:2], classes=("no", "yes"))
    >>> data.n_features, data.n_classes
    (2, 2)
    """

    name: str
    x_train: Inputs
    y_train: Classes
    x_test: Inputs
    y_test: Classes
    classes: tuple[str, ...]
    image_shape: tuple[int, int] | None = None
    content: str | None = None

    def __post_init__(self) -> None:
        parts = ("training", self.x_train, self.y_train, UNLABELLED), ("test", self.x_test, self.y_test, 0)
        for part, x, y, least in parts:
            _check_inputs(x, f"The {part} input of {self.name}")
            _check_classes(y, len(x), range(least, self.n_classes), f"The {part} classes of {self.name}")
        unseen = np.setdiff1d(self.y_test, self.y_train)
        if len(unseen):
            advice = "give it a training row with a label, or leave its test rows out"
            raise InputError(
                f"{self.name} has test rows of {self.classes[unseen[0]]!r} and no such training row; {advice}."
            )
        columns, n = self.x_test.shape[1], self.n_features
        if columns != n:
            raise InputError(f"The test input of {self.name} has {columns} columns; it must have {n}.")
        if self.image_shape and math.prod(self.image_shape) != n:
            raise InputError(f"Images of {self.name} are {self.image_shape}; they must have {n} pixels.")

    def training_rows(self) -> TrainingRows:
        """Copy the training rows.

        Returns
        -------
        TrainingRows
            The copies, which give no access to the test rows.
        """
        return TrainingRows(self.name, self.x_train.copy(), self.y_train.copy(), self.classes, self.content)

    def with_content(self) -> "Dataset":
        """Compute the digest of the content, which is part of a run's fingerprint.

        Returns
        -------
        Dataset
            The data set with its digest in ``content``.

        Examples
        --------
        >>> x, y = np.eye(2, dtype=np.float32), np.array([0, 1], np.int32)
        >>> changed = [Dataset("mine", x * scale, y, x, y, ("a", "b")).with_content() for scale in (1, 1, 0.5)]
        >>> changed[0].content == changed[1].content, changed[0].content == changed[2].content
        (True, False)
        """
        digest = hashlib.sha256(json.dumps([self.classes, self.image_shape]).encode())
        for array in (self.x_train, self.y_train, self.x_test, self.y_test):
            digest.update(json.dumps(array.shape).encode())
            digest.update(array.astype(array.dtype.newbyteorder("<"), order="C", copy=False).data)
        return replace(self, content=digest.hexdigest())


def check_finite(x: NDArray[np.number[Any]], what: str) -> None:
    """Refuse a table with NaN or an infinity, with the place of the first one.

    >>> check_finite(np.array([[0.0, 1.0], [np.nan, 0.0]]), "The input")
    Traceback (most recent call last):
    laddernet.errors.InputError: The input holds nan in row 1, column 0, counted from 0; all must be finite.
    """
    finite = np.isfinite(x)
    if not finite.all():
        row, column = np.unravel_index(np.argmin(finite), x.shape)
        place = f"row {row}, column {column}, counted from 0"
        raise InputError(f"{what} holds {x[row, column]} in {place}; all must be finite.")


def _check_inputs(x: Inputs, what: str) -> None:
    if x.ndim != 2 or 0 in x.shape:
        raise InputError(f"{what} has the shape {x.shape}; it must have rows and columns, at least one.")
    if x.dtype != np.float32 or not x.flags.c_contiguous:
        raise InputError(f"{what} is {x.dtype} with strides {x.strides}; it must be C-contiguous float32.")
    check_finite(x, what)
    if x.min() < 0 or x.max() > 1:
        raise InputError(f"{what} ranges from {x.min():g} to {x.max():g}; it must lie between 0 and 1.")


def _check_classes(y: Classes, n_rows: int, codes: range, what: str) -> None:
    if y.shape != (n_rows,):
        raise InputError(f"{what} have the shape {y.shape}; there must be one for each of the {n_rows} rows.")
    if y.dtype != np.int32:
        raise InputError(f"{what} are {y.dtype}; they must be int32.")
    if y.min() < codes[0] or y.max() > codes[-1]:
        raise InputError(f"{what} range from {y.min()} to {y.max()}; they must lie in {codes[0]} to {codes[-1]}.")
