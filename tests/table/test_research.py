"""A table as a data set for the paper's models."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from laddernet.data import load, own
from laddernet.errors import InputError
from laddernet.table.read import open_table
from laddernet.table.research import research_data
from laddernet.table.table import Table

N = 40


def frame() -> pd.DataFrame:
    """Forty rows of two classes, the last eight without a label."""
    rng = np.random.default_rng(0)
    kind = np.array([*["a", "b"] * 16, *[None] * 8], object)
    return pd.DataFrame(
        {
            "size": rng.normal(5, 2, N).round(3),
            "colour": np.array(["red", "blue", "green", "red"] * 10, object),
            "kind": kind,
            "part": ["train" if row % 4 else "test" for row in range(32)] + ["train"] * 8,
        }
    )


def research(table: pd.DataFrame, **options: Any) -> Any:
    return research_data(Table.of(table, "tables/mine.csv"), "kind", **options)[0]


def test_the_split_column_says_which_rows_are_test_rows_and_is_no_input() -> None:
    table = frame()
    mine = research(table, split="part")
    assert (mine.name, mine.classes, mine.n_features) == ("mine", ("a", "b"), 1 + 3)
    assert mine.y_train.tolist() == table["kind"].map({"a": 0, "b": 1}).fillna(-1)[table["part"] == "train"].tolist()
    assert (len(mine.x_test), mine.y_test.tolist()) == (8, [0] * 8)
    assert mine.n_labelled == 24


def test_numbers_are_scaled_by_the_training_rows_and_test_values_beyond_them_are_cut_off() -> None:
    table = frame()
    table.loc[0, "size"] = 1000.0  # a test row
    mine = research(table, split="part")
    is_test = (table["part"] == "test").to_numpy()
    size = table["size"].to_numpy()
    low, high = size[~is_test].min(), size[~is_test].max()
    np.testing.assert_allclose(mine.x_train[:, 0], (size[~is_test] - low) / (high - low), atol=1e-6)
    np.testing.assert_allclose(mine.x_test[:, 0], np.clip((size[is_test] - low) / (high - low), 0, 1), atol=1e-6)
    assert mine.x_test[0, 0] == 1


def test_nothing_is_learned_from_the_test_rows() -> None:
    """Other test rows change no training input: not the scaling, nor medians, categories or types."""
    table = frame()
    before = research(table, split="part")
    table.loc[table["part"] == "test", ["size", "colour"]] = [None, "violet"]
    after = research(table, split="part")
    assert before.x_train.tobytes() == after.x_train.tobytes()
    assert before.content != after.content


def test_pixels_are_scaled_together_as_images_are() -> None:
    pixels, target = load_digits(return_X_y=True)
    table = pd.DataFrame(pixels).assign(kind=target)
    mine = research(table, test_share=0.2)
    together = np.concatenate([mine.x_train, mine.x_test])
    varying = pixels[:, pixels.std(axis=0) > 0]  # other columns are not used
    assert sorted(map(tuple, np.round(together * 16).astype(int))) == sorted(map(tuple, varying.astype(int)))


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_a_test_share_is_of_the_labelled_rows_of_each_class_and_never_changes(share: float) -> None:
    mine, again = (research(frame().drop(columns="part"), test_share=share) for _ in range(2))
    assert len(mine.x_test) == round(32 * share)
    assert abs(np.bincount(mine.y_test, minlength=2) - 16 * share).max() <= 1
    assert len(mine.x_train) == N - len(mine.x_test)
    assert np.count_nonzero(mine.y_train == -1) == 8
    assert mine.content == again.content


def test_a_changed_cell_is_other_content_and_the_format_of_the_file_is_not(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "mine.csv", index=False)
    frame().to_csv(tmp_path / "mine.txt", index=False, sep=";")
    frame().to_parquet(tmp_path / "mine.parquet")
    contents = {
        research_data(open_table(tmp_path / name), "kind", split="part")[0].content
        for name in ("mine.csv", "mine.txt", "mine.parquet")
    }
    assert len(contents) == 1
    changed = frame()
    changed.loc[5, "size"] += 0.5
    assert research(changed, split="part").content not in contents


def test_a_prepared_table_that_is_saved_is_the_same_data_for_another_process(tmp_path: Path) -> None:
    mine = research(frame(), split="part")
    own.save(mine, tmp_path / "data.npz")
    assert load(tmp_path / "data.npz").content == mine.content


def test_an_array_with_a_test_share_is_a_table(tmp_path: Path) -> None:
    pixels, target = load_digits(return_X_y=True)
    target[:100] = -1
    np.savez(tmp_path / "mine.npz", X=pixels, y=target)
    mine, _ = research_data(open_table(tmp_path / "mine.npz"), None, test_share=0.2)
    assert (mine.classes, np.count_nonzero(mine.y_train == -1)) == (tuple("0123456789"), 100)
    assert len(mine.x_test) == round(0.2 * (len(pixels) - 100))


def test_columns_that_are_not_used_are_named() -> None:
    table = frame().assign(id=range(N))
    _, notices = research_data(Table.of(table), "kind", split="part")
    assert notices == ["id: not used (every value is different, as in an identifier)"]


def replaced(column: str, rows: Sequence[int], value: Any) -> pd.DataFrame:
    table = frame()
    table.loc[list(rows), column] = value
    return table


REFUSED: dict[str, tuple[pd.DataFrame, dict[str, Any], str]] = {
    "no word on test rows": (
        frame(),
        {},
        "mine.csv must be divided into training and test rows; give either --test-share",
    ),
    "two words on test rows": (
        frame(),
        {"split": "part", "test_share": 0.2},
        "give either --test-share, as in 0.2, or",
    ),
    "a split column that is absent": (
        frame(),
        {"split": "parts"},
        "mine.csv has no column 'parts'; did you mean 'part'?",
    ),
    "another word in the split": (
        replaced("part", [2], "val"),
        {"split": "part"},
        "'part' is 'val' in row 3; write train",
    ),
    "no test row": (replaced("part", range(N), "train"), {"split": "part"}, "'part' names no test row; write train or"),
    "no training row": (replaced("part", range(N), "test"), {"split": "part"}, "'part' names no training row; write"),
    "a test row without a class": (
        replaced("part", [39], "test"),
        {"split": "part"},
        "mine.csv: row 40 is a test row without a 'kind'; give it one, or make it a training row.",
    ),
    "a class that training lacks": (
        replaced("kind", [4], "c"),
        {"split": "part"},
        "mine has test rows of 'c' and no such training row; give it a training row with a label, or leave",
    ),
    "a share of everything": (frame(), {"test_share": 1.0}, "--test-share 1 makes 32 of the 32 labelled rows of"),
    "a share of nothing": (frame(), {"test_share": 0.001}, "--test-share 0.001 makes 0 of the 32 labelled rows of"),
    "a negative share": (frame(), {"test_share": -0.5}, "--test-share must be a finite number of 0 or more, got -0.5."),
    "a share that is no number": (frame(), {"test_share": float("nan")}, "--test-share must be a finite number of 0"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_table_that_cannot_be_trained_on_is_refused_in_one_sentence(what: str) -> None:
    table, options, sentence = REFUSED[what]
    with pytest.raises(InputError) as error:
        research(table, **options)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)
