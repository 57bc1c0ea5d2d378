from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from sklearn.datasets import make_blobs

from laddernet.classifier.few_labels import FewLabelClassifier
from laddernet.classifier.onnx import probabilities
from laddernet.errors import InputError
from laddernet.inference.onnx import Graph

METHODS = ("logistic", "self-training", "forest", "extra-trees", "boosting")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("classes", [2, 3])
def test_a_runtime_computes_the_probabilities_of_each_method(tmp_path: Path, method: str, classes: int) -> None:
    X, y = make_blobs(120, 4, centers=classes, cluster_std=6, random_state=0)
    classifier = FewLabelClassifier(method, random_state=0).fit(X[:60], np.where(np.arange(60) < 40, y[:60], -1))
    graph = Graph(names={"X", "p"})
    graph("Identity", probabilities(classifier, graph, "X"), output="p")
    graph.write(tmp_path / "m.onnx", [("X", np.float64, ["rows", 4])], [("p", np.float32, ["rows", classes])])
    (p,) = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"X": X})
    np.testing.assert_allclose(p, classifier.predict_proba(X), rtol=0, atol=1e-5)


@pytest.mark.parametrize("other", [object, dict])
def test_a_classifier_of_another_kind_is_refused_in_one_sentence(other: Callable[[], object]) -> None:
    with pytest.raises(InputError, match=rf"^A {other.__name__} cannot be exported to ONNX; [^.]*\.$"):
        probabilities(other(), Graph(), "X")
