import os
import re
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from clinic import NETWORK, clinic
from support import UNTRAINED, Finished, laddernet

from laddernet.classifier.estimator import LadderClassifier
from laddernet.errors import InputError
from laddernet.table.model import TableModel


def test_a_model_made_in_python_warns_of_what_fit_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LadderClassifier, "fit", lambda self, *_: self)
    frame = clinic().assign(result=clinic()["result"].fillna("-1"))
    with pytest.warns(UserWarning, match="^result: -1 is taken for a class; if it marks rows without a label"):
        assert TableModel.fit(frame, "result", method="ladder").labels.keys() == {"-1", "ill", "well"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = TableModel.fit(frame, "result", method="ladder", unlabeled=-1)
    assert model.labels.keys() == {"ill", "well"}
    assert model.unlabeled == "-1"


@pytest.mark.usefixtures("few_trees")
def test_a_model_in_python_is_the_one_that_its_file_holds(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = TableModel.fit(clinic(), "result", **NETWORK)
    model.save(tmp_path / "m.safetensors")
    new = clinic(50, seed=5)
    again = TableModel.load(tmp_path / "m.safetensors")
    assert np.array_equal(model.predict_proba(new), again.predict_proba(new))
    assert np.array_equal(
        TableModel.load(fitted[0] / "clinic.safetensors").predict_proba(new), again.predict_proba(new)
    )
    assert set(again.predict(new)) <= {"ill", "well"}
    with pytest.raises(InputError, match=r"^The table has no column 'age'; "):
        again.predict(new.drop(columns="age"))


def test_rows_that_a_model_suggests_come_back_with_labels(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = TableModel.load(fitted[0] / "clinic.safetensors")
    frame = clinic().set_axis([f"row {number}" for number in range(240)])
    asked = model.suggest(frame, count=10)
    call = ("suggest", fitted[0] / "clinic.safetensors", fitted[0] / "clinic.csv", "--count", "10", "--out", "s.csv")
    assert laddernet(*call, cwd=tmp_path).code == 0
    written = pd.read_csv(tmp_path / "s.csv")
    assert list(asked) == list(written)
    assert asked["patient"].tolist() == written["patient"].tolist()
    assert frame.loc[asked.index, "patient"].tolist() == asked["patient"].tolist()
    assert asked["result"].isna().all()

    truth = clinic(labelled=240).set_axis(frame.index)["result"]
    asked["result"] = truth[asked.index]
    filled = frame.assign(result=frame["result"].fillna(asked["result"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = TableModel.fit(frame, "result", labels=asked, **NETWORK)
    assert second.labels == filled["result"].value_counts().sort_index().to_dict()
    expected = TableModel.fit(filled, "result", **NETWORK).predict_proba(frame)
    assert np.array_equal(second.predict_proba(frame), expected)

    asked.to_csv(tmp_path / "l.csv", index=False)  # a file is as good, and so is a list of both
    again = second.suggest(frame, count=240, labels=[tmp_path / "l.csv", asked[:0]])
    assert not set(again.index) & set(asked.index)
    assert len(again) == 170
    with pytest.warns(UserWarning, match=r"^labels: not in the table, so the label is not used: patient 7$"):
        TableModel.fit(frame, "result", labels=[asked, asked[:1].assign(patient=7)], **NETWORK)


def test_no_rows_and_a_column_twice_are_one_sentence(fitted: tuple[Path, Finished]) -> None:
    model = TableModel.load(fitted[0] / "clinic.safetensors")
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        model.predict(clinic()[:0])
    twice = pd.concat([clinic(9), clinic(9)[["age"]]], axis=1)
    with pytest.raises(InputError, match="The table has two columns named 'age'; give each a name of its own"):
        model.predict(twice)


def test_a_column_of_which_no_cell_is_understood_is_refused(tmp_path: Path, fitted: tuple[Path, Finished]) -> None:
    model = TableModel.load(fitted[0] / "clinic.safetensors")
    new = clinic(21, seed=2)
    comma = [f"{age:.1f}".replace(".", ",") if age == age else "" for age in new["age"]]
    days = pd.to_datetime(new["admitted"]).dt.strftime("%d.%m.%Y")
    for name, odd, right in (
        ("age", comma, "numbers written as 1000.5"),
        ("admitted", days, "dates written as 2024-01-31"),
        ("smoker", "ja", "yes or no"),
    ):
        with pytest.raises(InputError) as refused:
            model.predict(new.assign(**{name: odd}))
        assert str(refused.value).startswith(f"Column {name!r}: not one of its ")
        assert str(refused.value).endswith(f"; give {right}, as when the model was fitted.")
    new.assign(age=comma).to_csv(tmp_path / "new.csv", index=False)
    done = laddernet("predict", fitted[0] / "clinic.safetensors", "new.csv", "--out", "p.csv", cwd=tmp_path)
    cells_of_age = f"not one of its 18 filled cells is understood ('{comma[1]}', '{comma[2]}')"
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"laddernet: Column 'age': {cells_of_age}; give ")
    assert os.listdir(tmp_path) == ["new.csv"]
    unread: Counter[str] = Counter()
    model.features(new.assign(smoker=["ja"] * 9 + [None] * 12), unread)  # so few may be an accident
    model.features(new.assign(smoker=["ja"] * 20 + ["yes"]), unread)
    assert +unread == {"smoker": 29}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"frame": [[1, 2]]}, "frame must be a pandas DataFrame, got list"),
        ({"target": None}, "target must be the name of the column of the classes, got None"),
        ({"target": "reslt"}, "The frame has no column 'reslt'; did you mean 'result'"),
        ({"drop": "age"}, "drop must be a list of columns' names, got 'age'"),
        ({"use": 3}, "use must be a list of columns' names, got 3"),
        ({"category": ["agee"]}, "The frame has no column 'agee'; did you mean 'age'"),
        ({"max_steps": 0}, "max_steps must be "),
    ],
)
def test_an_argument_that_is_wrong_is_one_sentence(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        TableModel.fit(**{"frame": clinic(), "target": "result", **arguments})


def test_a_setting_that_the_classifier_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="max_step"):
        TableModel.fit(clinic(), "result", max_step=3)


def test_columns_can_be_left_out_used_or_declared_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LadderClassifier, "fit", lambda self, *_: self)
    model = TableModel.fit(clinic(), "result", drop=["age"], use=("patient",), category=["smoker"], method="ladder")
    assert {column.name: column.kind for column in model.columns} == {
        "patient": "number",
        "ward": "category",
        "smoker": "category",
        "admitted": "date",
    }
    assert model.identifiers == []
    assert TableModel.fit(clinic(), "result", method="ladder").identifiers == ["patient"]


def test_what_is_no_frame_cannot_be_predicted(fitted: tuple[Path, Finished]) -> None:
    with pytest.raises(InputError, match="frame must be a pandas DataFrame, got ndarray"):
        TableModel.load(fitted[0] / "clinic.safetensors").predict(np.zeros((2, 4)))  # type: ignore[arg-type]


def test_a_column_of_a_frame_may_be_named_by_a_number(untrained: None) -> None:
    frame = pd.DataFrame({0: [1.0, 2.0, 3.0, 4.0], 3: ["x", "y", "x", "y"]})
    with pytest.raises(AssertionError, match=UNTRAINED):
        TableModel.fit(frame, 3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^The frame has no column '4'; it has '0', '3'\.$"):
        TableModel.fit(frame, 4)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^frame must be a pandas DataFrame, got ndarray\.$"):
        TableModel.fit(frame.to_numpy(), 3)  # type: ignore[arg-type]
