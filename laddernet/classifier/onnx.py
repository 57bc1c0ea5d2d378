"""The classifiers as parts of an ONNX graph, one function for each kind."""

from functools import singledispatch

import numpy as np

from laddernet.classifier.estimator import LadderClassifier
from laddernet.errors import InputError
from laddernet.inference.onnx import Graph, logits


@singledispatch
def probabilities(classifier: object, graph: Graph, x: str) -> str:
    """Add a classifier to a graph, in which ``x`` has its inputs in float64; return the name of the probabilities."""
    kind = type(classifier).__name__
    raise InputError(f"A {kind} cannot be exported to ONNX; fit a LadderClassifier, or predict with laddernet.")


@probabilities.register
def _(classifier: LadderClassifier, graph: Graph, x: str) -> str:
    return graph("Softmax", logits(graph, classifier.network_, x, np.float64), axis=1)
