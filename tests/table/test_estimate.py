import math
from pathlib import Path

import numpy as np
from clinic import NETWORK, by_hand, clinic
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import StratifiedKFold
from support import Finished

from laddernet.classifier.estimator import LadderClassifier
from laddernet.inference import modelfile
from laddernet.table.estimate import Estimate
from laddernet.table.model import TableModel


def test_the_estimate_is_what_cross_validation_by_hand_gives(fitted: tuple[Path, Finished]) -> None:
    known = TableModel.load(fitted[0] / "clinic.safetensors").estimate
    assert known is not None
    x = by_hand(clinic())
    codes = clinic()["result"].map({"ill": 0, "well": 1}).fillna(-1).to_numpy(int)
    wrong, judged = [], []
    for learn, judge in StratifiedKFold(3, shuffle=True, random_state=1).split(x[:60], codes[:60]):
        rows = np.concatenate([learn, np.arange(60, 240)])  # the rows that are judged by are not seen at all
        predicted = LadderClassifier(**NETWORK).fit(x[rows], codes[rows]).predict(x[judge])
        wrong.append(int(np.count_nonzero(predicted != codes[judge])))
        judged.append(len(judge))
    assert (known.folds, known.labels) == (3, 40)
    assert (known.wrong, known.judged) == (sum(wrong), 60)
    assert math.isclose(known.error, 100 * sum(wrong) / 60)
    assert math.isclose(known.spread, 100 * float(np.std(np.divide(wrong, judged))))
    assert math.isclose(known.majority_error, 100 * (1 - np.bincount(codes[:60]).max() / 60))
    assert known.half_labels in (20, 21)


def test_what_more_labels_would_gain_is_only_told_where_it_shows() -> None:
    clear = Estimate(3, 100, 150, 12, spread=1.0, majority_error=50.0, half_labels=50, half_error=12.0)
    assert clear.sentences()[1] == "With half of the labels it is 12.0 %; with twice as many it may be 5.3 %."
    unclear = Estimate(3, 100, 150, 12, spread=1.0, majority_error=50.0, half_labels=50, half_error=8.5)
    assert unclear.sentences()[1].endswith("no clear difference: the gain by more labels is unknown.")
    by_few_rows = Estimate(3, 8, 12, 1, spread=0.0, majority_error=50.0, half_labels=4, half_error=16.7)
    assert by_few_rows.sentences()[1].endswith("no clear difference: the gain by more labels is unknown.")
    assert len(Estimate(2, 2, 4, 0, spread=0.0, majority_error=50.0).sentences()) == 1


@given(judged=st.integers(2, 500), data=st.data())
def test_no_estimate_is_certain_however_equal_the_folds_are(judged: int, data: st.DataObject) -> None:
    wrong = data.draw(st.integers(0, judged))
    found = Estimate(3, judged, judged, wrong, spread=0.0, majority_error=50.0, half_labels=1, half_error=40.0)
    about = found.about()
    low, high = about["interval"]
    assert low <= about["error"] <= high
    assert high - low >= 0.5
    assert high >= 100 * (1 - 0.05 ** (1 / judged)) - 1e-9
    assert (low > 0) == (wrong > 0)
    sentence, further = found.sentences()
    assert "±" not in sentence
    assert f"{about['error']:.1f} %, between {low:.1f} and {high:.1f} % with 90 % confidence" in sentence
    assert f"({wrong:,} of {judged:,} labelled rows wrong in 3-fold cross-validation" in sentence
    assert "may be 0.0 %" not in further


def test_an_estimate_of_an_older_file_has_the_counts_that_its_error_means(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    arrays, about = modelfile.read(fitted[0] / "clinic.safetensors", "table")
    about["estimate"] = {"folds": 3, "labels": 40, "error": 0.0, "spread": 0.0, "majority_error": 50.0}
    modelfile.write(tmp_path / "old.safetensors", "table", arrays, about)
    old = TableModel.load(tmp_path / "old.safetensors").estimate
    assert old is not None
    assert (old.judged, old.wrong) == (60, 0)
    assert "between 0.0 and 4.9 % with 90 % confidence (0 of 60 labelled rows wrong" in old.sentences()[0]
