"""The classifiers as parts of an ONNX graph, one function for each kind."""

from functools import singledispatch

import numpy as np

from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.few_labels import FewLabelClassifier
from laddernet.errors import InputError
from laddernet.inference.linear import Linear
from laddernet.inference.onnx import Graph, linear, logits, scaled, trees


@singledispatch
def probabilities(classifier: object, graph: Graph, x: str) -> str:
    """Add a classifier to a graph, in which ``x`` has its inputs in float64; return the name of the probabilities."""
    kind = type(classifier).__name__
    raise InputError(f"A {kind} cannot be exported to ONNX; fit a FewLabelClassifier or a LadderClassifier.")


@probabilities.register
def _(classifier: LadderClassifier, graph: Graph, x: str) -> str:
    return graph("Softmax", logits(graph, classifier.network_, x, np.float64), axis=1)


@probabilities.register
def _(classifier: FewLabelClassifier, graph: Graph, x: str) -> str:
    members = classifier.members_
    rows = scaled(graph, members.scaling, x, np.float64)
    total = sum(members.weights.get(name, 1) for name in members.models)
    found = []
    for name, model in members.models.items():
        if isinstance(model, LadderClassifier):
            p = probabilities(model, graph, x)
        else:
            p = linear(graph, model, rows) if isinstance(model, Linear) else trees(graph, model, rows)
        found.append(graph("Mul", p, np.float32(members.weights.get(name, 1) / total)))
    return graph("Sum", *found)
