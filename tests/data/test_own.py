"""A user's own data set in an NPZ file."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from laddernet.data import load, own
from laddernet.errors import InputError

X = np.array([[0.0, 1.0], [0.5, 0.25], [1.0, 0.0]])
ARRAYS: dict[str, Any] = {"x_train": X, "y_train": np.array([0, 1, 0]), "x_test": X[:2], "y_test": np.array([1, 0])}


def saved(folder: Path, **changes: Any) -> Path:
    arrays = {name: array for name, array in {**ARRAYS, **changes}.items() if array is not None}
    np.savez(folder / "mine.npz", **arrays)
    return folder / "mine.npz"


def test_a_file_is_a_data_set_of_its_name(tmp_path: Path) -> None:
    mine = load(saved(tmp_path))
    assert (mine.name, mine.classes, mine.image_shape) == ("mine", ("0", "1"), None)
    assert mine.x_train.dtype == np.float32
    assert mine.x_train.tolist() == X.tolist()
    assert mine.y_train.tolist() == [0, 1, 0]
    assert (mine.x_test.tolist(), mine.y_test.tolist()) == (X[:2].tolist(), [1, 0])


def test_bytes_are_divided_by_255_and_images_keep_their_shape(tmp_path: Path) -> None:
    pixels = np.arange(3 * 2 * 2, dtype=np.uint8).reshape(3, 2, 2) * 20
    for images in (pixels, pixels[..., None]):
        mine = load(saved(tmp_path, x_train=images, x_test=images[:2]))
        assert mine.image_shape == (2, 2)
        np.testing.assert_array_equal(mine.x_train, pixels.reshape(3, 4).astype(np.float32) / np.float32(255))
    in_colour = load(saved(tmp_path, x_train=np.zeros((3, 2, 2, 3)), x_test=np.ones((2, 2, 2, 3))))
    assert (in_colour.n_features, in_colour.image_shape) == (12, None)


@pytest.mark.parametrize(
    ("y_train", "y_test", "classes", "codes"),
    [
        ([10, 9, -1], [9, 10], ("9", "10"), [1, 0, -1]),
        ([1.0, 0.0, np.nan], [0, 1], ("0", "1"), [1, 0, -1]),
        (["pear", "", "apple"], ["apple", "pear"], ("apple", "pear"), [1, -1, 0]),
        ([b"no", b"yes", b" "], [b"yes", b"no"], ("no", "yes"), [0, 1, -1]),
        ([True, False, True], [True, False], ("0", "1"), [1, 0, 1]),
    ],
)
def test_classes_are_integers_or_text_and_a_row_may_have_none(
    tmp_path: Path, y_train: list[Any], y_test: list[Any], classes: tuple[str, ...], codes: list[int]
) -> None:
    mine = load(saved(tmp_path, y_train=np.array(y_train), y_test=np.array(y_test)))
    assert (mine.classes, mine.y_train.tolist()) == (classes, codes)
    assert [mine.classes[code] for code in mine.y_test] == [
        str(int(label)) if not isinstance(label, str | bytes) else label if isinstance(label, str) else label.decode()
        for label in y_test
    ]


def test_rows_of_x_unlabelled_are_training_rows_without_a_label(tmp_path: Path) -> None:
    mine = load(saved(tmp_path, x_unlabelled=X[::-1]))
    assert mine.x_train.tolist() == [*X.tolist(), *X[::-1].tolist()]
    assert mine.y_train.tolist() == [0, 1, 0, -1, -1, -1]
    assert mine.n_labelled == 3


def test_named_classes_are_places_in_classes(tmp_path: Path) -> None:
    mine = load(saved(tmp_path, classes=np.array(["pear", "apple", "fig"])))
    assert (mine.classes, mine.y_train.tolist(), mine.y_test.tolist()) == (("pear", "apple", "fig"), [0, 1, 0], [1, 0])


def test_content_is_that_of_the_rows_not_of_the_file(tmp_path: Path) -> None:
    first = load(saved(tmp_path)).content
    np.savez_compressed(tmp_path / "mine.npz", **{name: np.asfortranarray(array) for name, array in ARRAYS.items()})
    assert load(tmp_path / "mine.npz").content == first
    changes: list[dict[str, Any]] = [
        {"x_train": X * 0.5},
        {"x_test": X[1:]},
        {"y_train": np.array([0, 1, 1])},
        {"y_test": np.array([1, 1])},
        {"x_unlabelled": X[:1]},
        {"classes": np.array(["a", "b"])},
        {"x_train": X[:, :, None], "x_test": X[:2, :, None]},
    ]
    contents = [load(saved(tmp_path, **change)).content for change in changes]
    assert len({first, *contents}) == 1 + len(changes)


@pytest.mark.parametrize("changes", [{}, {"x_unlabelled": X}, {"x_train": X[:, :, None], "x_test": X[:2, :, None]}])
def test_a_data_set_that_is_saved_is_the_same_when_it_is_loaded(tmp_path: Path, changes: dict[str, Any]) -> None:
    mine = load(saved(tmp_path, y_train=np.array(["b", "a", ""]), y_test=np.array(["a", "b"]), **changes))
    own.save(mine, tmp_path / "copy.npz")
    assert load(tmp_path / "copy.npz").content == mine.content


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no test rows": ({"x_test": None, "y_test": None}, "mine.npz has no array x_test and no y_test; save them with np"),
    "objects": ({"y_train": np.array([0, "a", None], object)}, "y_train holds Python objects, which are not read;"),
    "text for inputs": (
        {"x_train": np.array([["a"]] * 3)},
        "x_train holds values of the type <U1 in the shape (3, 1);",
    ),
    "one column without a dimension": (
        {"x_train": X[:, 0]},
        "x_train holds values of the type float64 in the shape (3,)",
    ),
    "dates for classes": (
        {"y_test": np.array(["2024-01-01"] * 2, "M8[D]")},
        "y_test holds values of the type datetime64",
    ),
    "fractions for classes": ({"y_train": np.array([0.5, 1, 0])}, "y_train holds numbers that are not integers;"),
    "infinite classes": ({"y_train": np.array([np.inf, 1, 0])}, "y_train holds numbers that are not integers;"),
    "text and numbers": (
        {"y_test": np.array(["0", "1"])},
        "one of y_train and y_test holds text; give both as text or",
    ),
    "classes of other rows": (
        {"y_train": np.array([0, 1])},
        "y_train has the shape (2,), x_train (3, 2); give one class",
    ),
    "a test row without a class": ({"y_test": np.array([1, -1])}, "y_test has no class in row 1, counted from 0;"),
    "a class that training lacks": (
        {"y_test": np.array([1, 7])},
        "mine has test rows of '7' and no such training row;",
    ),
    "one class": (
        {"y_train": np.zeros(3, int), "y_test": np.zeros(2, int)},
        "mine.npz has rows of 1 class; give rows of",
    ),
    "classes beyond the names": (
        {"classes": np.array(["a"])},
        "classes has 1 names, and y_train or y_test holds 1; give",
    ),
    "other columns without labels": (
        {"x_unlabelled": X[:, :1]},
        "x_unlabelled has rows of the shape (1,), x_train (2,);",
    ),
    "other columns for test": ({"x_test": X[:2, :1]}, "The test input of mine has 1 columns; it must have 2."),
    "numbers beyond 1": (
        {"x_train": X * 3},
        "The training input of mine ranges from 0 to 3; it must lie between 0 and 1",
    ),
    "NaN": ({"x_test": X[:2] * np.nan}, "The test input of mine holds nan in row 0, column 0"),
    "numbers beyond float32": ({"x_train": X * 1e300}, "The training input of mine holds inf"),
    "no rows": ({"x_train": X[:0], "y_train": np.array([], int)}, "The training input of mine has the shape (0, 2);"),
    "no columns": ({"x_train": X[:, :0], "x_test": X[:2, :0]}, "The training input of mine has the shape (3, 0);"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_file_that_cannot_be_trained_on_is_refused_in_one_sentence(tmp_path: Path, what: str) -> None:
    changes, sentence = REFUSED[what]
    with pytest.raises(InputError) as error:
        load(saved(tmp_path, **changes))
    assert sentence in str(error.value)
    assert str(error.value).endswith(".")
    assert "\n" not in str(error.value)


def test_inputs_beyond_the_bound_are_refused_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own, "_MOST_BYTES", 39)
    monkeypatch.setattr("laddernet.data.npz.whole", None)
    with pytest.raises(InputError, match=r"has inputs of 40 bytes; give no more than 39\."):
        load(saved(tmp_path))


def test_a_file_that_is_no_npz_or_not_whole_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="is not a whole NPZ file"):
        load(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="is not an NPZ file; save"):
        load(path)
    with pytest.raises(InputError, match=r"Cannot read .*absent\.npz \(No such file"):
        load(tmp_path / "absent.npz")
    with pytest.raises(InputError, match="Is a directory"):
        load(f"{tmp_path}/")
