from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from laddernet.inference import onnx
from laddernet.inference.network import Network, Scaling, softmax


@pytest.mark.parametrize("bound", [None, 2.0])
@pytest.mark.parametrize("classes", [np.array([3, 7]), np.array(["no", "yes"])])
def test_a_runtime_computes_what_the_network_does(tmp_path: Path, bound: float | None, classes: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    weights = tuple(rng.normal(size=shape).astype(np.float32) for shape in ((3, 5), (5, 2)))
    biases = tuple(rng.normal(size=size).astype(np.float32) for size in (5, 2))
    network = Network(Scaling(np.array([1.0, 2.0, 3.0]), np.float32([1, 2, 0.5]), bound), weights, biases)
    onnx.write(tmp_path / "m.onnx", network, classes)
    x = rng.normal(2, 3, size=(60, 3)).astype(np.float32)
    labels, probabilities = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"X": x})
    expected = softmax(network.logits(x))
    np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    assert list(labels) == classes[expected.argmax(axis=1)].tolist()
