"""A user's own data set: an NPZ file with training and test rows."""

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from laddernet.data import npz
from laddernet.data.dataset import UNLABELLED, Classes, Dataset, Inputs
from laddernet.errors import InputError
from laddernet.files import reading, require_regular, whole_file

_NEEDED = ("x_train", "y_train", "x_test", "y_test")
_OPTIONAL = ("x_unlabelled", "classes")
_MOST_BYTES = 1 << 36  # of all inputs as float32
_SAVED = "save them with np.savez(path, x_train=…, y_train=…, x_test=…, y_test=…)"


def is_npz(path: Path) -> bool:
    """Return whether a file is a zip file, as those of NumPy are."""
    require_regular(path)
    with reading(path), path.open("rb") as file:
        return file.read(4) in (b"PK\x03\x04", b"PK\x05\x06")


def load(path: Path) -> Dataset:
    """Load a data set from an NPZ file; its name is that of the file.

    Inputs are numbers between 0 and 1, or bytes, which are divided by 255; rows may be images. Classes are integers or
    text. A training row has no label where its class is −1, NaN or "", and all rows of `x_unlabelled` have none. With
    the array `classes`, the names of the classes, `y_train` and `y_test` are places in it.
    """
    if not is_npz(path):
        raise InputError(f"{path} is not an NPZ file; {_SAVED}.")
    headers = npz.headers(path)
    absent = [name for name in _NEEDED if name not in headers]
    if absent:
        raise InputError(f"{path} has no array {' and no '.join(absent)}; {_SAVED}.")
    arrays = {name: header for name, header in headers.items() if name in (*_NEEDED, *_OPTIONAL)}
    for name, header in arrays.items():
        if header.objection:
            raise InputError(f"{path}: {name} {header.objection}.")
        if name.startswith("x") and (header.dtype.kind not in "biuf" or len(header.shape) < 2):
            found = f"{name} holds values of the type {header.dtype} in the shape {header.shape}"
            raise InputError(f"{path}: {found}; give rows of numbers between 0 and 1.")
    size = sum(4 * header.shape[0] * header.width for name, header in arrays.items() if name.startswith("x"))
    if size > _MOST_BYTES:
        raise InputError(f"{path} has inputs of {size:,} bytes; give no more than {_MOST_BYTES:,}.")
    with npz.opened(path) as archive:
        held = {name: npz.whole(archive, name) for name in arrays}
    unlabelled = held.get("x_unlabelled", held["x_train"][:0])
    if unlabelled.shape[1:] != held["x_train"].shape[1:]:
        shapes = f"x_unlabelled has rows of the shape {unlabelled.shape[1:]}, x_train {held['x_train'].shape[1:]}"
        raise InputError(f"{path}: {shapes}; give both the same columns.")
    y_train, y_test, classes = _classes(held, path)
    return Dataset(
        path.stem,
        np.concatenate([_inputs(held["x_train"]), _inputs(unlabelled)]),
        np.concatenate([y_train, np.full(len(unlabelled), UNLABELLED, np.int32)]),
        _inputs(held["x_test"]),
        y_test,
        classes,
        _image_shape(held["x_train"]),
    ).with_content()


def save(dataset: Dataset, path: Path) -> None:
    """Save a data set as a file that `load` reads as the same data."""
    shape = dataset.image_shape or (dataset.n_features,)
    with whole_file(path) as file:
        np.savez(
            file,
            x_train=dataset.x_train.reshape(-1, *shape),
            y_train=dataset.y_train,
            x_test=dataset.x_test.reshape(-1, *shape),
            y_test=dataset.y_test,
            classes=np.array(dataset.classes),
        )


def _inputs(x: NDArray[Any]) -> Inputs:
    """Convert rows to float32, one dimension each."""
    rows: NDArray[Any] = np.ascontiguousarray(x.reshape(len(x), math.prod(x.shape[1:])))
    if rows.dtype == np.uint8:
        pixels: Inputs = np.divide(rows, 255, dtype=np.float32)
        return pixels
    with np.errstate(over="ignore"):  # an infinity is refused later
        return rows.astype(np.float32)


def _image_shape(x: NDArray[Any]) -> tuple[int, int] | None:
    """Return height and width, if the rows are images of one channel.

    >>> _image_shape(np.zeros((5, 28, 28))), _image_shape(np.zeros((5, 8, 8, 1))), _image_shape(np.zeros((5, 64)))
    ((28, 28), (8, 8), None)
    """
    if x.ndim == 3 or (x.ndim == 4 and x.shape[3] == 1):
        return x.shape[1], x.shape[2]
    return None


def _classes(held: dict[str, NDArray[Any]], path: Path) -> tuple[Classes, Classes, tuple[str, ...]]:
    """Return the classes of the training and the test rows as indices, and their names."""
    for x, y in (("x_train", "y_train"), ("x_test", "y_test")):
        if held[y].shape != held[x].shape[:1]:
            shapes = f"{y} has the shape {held[y].shape}, {x} {held[x].shape}"
            raise InputError(f"{path}: {shapes}; give one class for each row.")
    is_text = {name: held[name].dtype.kind in "SU" for name in ("y_train", "y_test")}
    if is_text["y_train"] != is_text["y_test"]:
        raise InputError(f"{path}: one of y_train and y_test holds text; give both as text or both as integers.")
    y_train, y_test = (_labels(held[name], f"{path}: {name}") for name in ("y_train", "y_test"))
    if "" in y_test:
        raise InputError(f"{path}: y_test has no class in row {y_test.index('')}, counted from 0; give each row one.")
    known = {*y_train, *y_test} - {""}
    if "classes" in held:
        names = tuple(_labels(held["classes"].reshape(-1), f"{path}: classes"))
        codes = {str(place): place for place in range(len(names))}
        if known - codes.keys():
            found = f"classes has {len(names)} names, and y_train or y_test holds {min(known - codes.keys())}"
            raise InputError(f"{path}: {found}; give places in classes, counted from 0.")
    else:
        names = tuple(sorted(known, key=str if is_text["y_train"] else int))
        codes = {name: place for place, name in enumerate(names)}
    if len(names) < 2:
        raise InputError(f"{path} has rows of {len(names)} class; give rows of two classes or more.")
    codes[""] = UNLABELLED
    train, test = (np.array([codes[label] for label in labels], np.int32) for labels in (y_train, y_test))
    return train, test, names


def _labels(y: NDArray[Any], what: str) -> list[str]:
    """Convert classes to text, "" where a row has no label.

    >>> _labels(np.array([1.0, np.nan]), "y"), _labels(np.array([0, -1]), "y"), _labels(np.array(["cat", " "]), "y")
    (['1', ''], ['0', ''], ['cat', ''])
    """
    if y.dtype.kind in "SU":
        return [
            (label.decode(errors="backslashreplace") if y.dtype.kind == "S" else label).strip() for label in y.tolist()
        ]
    if y.dtype.kind not in "biuf":
        raise InputError(f"{what} holds values of the type {y.dtype}; give the classes as integers or text.")
    if y.dtype.kind == "f":
        y = np.where(np.isnan(y), UNLABELLED, y)
        if not np.all(y == np.floor(y)) or np.isinf(y).any():
            raise InputError(f"{what} holds numbers that are not integers; give the classes as integers or text.")
    return ["" if label == UNLABELLED else str(int(label)) for label in y.tolist()]
