"""Graphs in the ONNX format, for runtimes without JAX, scikit-learn or this package, and networks as such graphs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from laddernet.errors import packages
from laddernet.files import write_atomic
from laddernet.inference.linear import Linear
from laddernet.inference.network import FAR, Network, Scaling
from laddernet.inference.trees import Trees

ML = "ai.onnx.ml"  # the domain of some operators
OPSET = 17
TEXT_OPSET = 20  # has regular expressions
_IR_VERSION = {OPSET: 8, TEXT_OPSET: 9}  # the oldest form of files that has these operators, for older runtimes

Value = str | float | np.ndarray | np.generic  # the name of a value, or a constant
Port = tuple[str, Any, Sequence[str | int]]  # an input or output: its name, its type (object: text) and its shape


class Graph:
    """A graph under construction: a call adds a node, and returns the name of its first output.

    A number or an array among the inputs becomes a constant. ``names`` are taken: those of the graph's inputs and
    outputs.
    """

    def __init__(self, opset: int = OPSET, names: set[str] | None = None) -> None:
        with packages("Export to ONNX"):
            import onnx.checker
            import onnx.helper
            import onnx.numpy_helper
        self._onnx: Any = onnx
        self.opset = opset
        self._names = set() if names is None else names
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._numbers: dict[tuple[type, float], str] = {}  # those that are constants already

    def __call__(
        self, operator: str, *values: Value, output: str | None = None, outputs: int = 1, **attributes: Any
    ) -> str:
        """Add a node; ``output`` names its first output, and the attribute ``name`` the node itself."""
        names = [output or self.free(operator), *(self.free(operator) for _ in range(outputs - 1))]
        inputs = [value if isinstance(value, str) else self._constant(value) for value in values]
        self._nodes.append(self._onnx.helper.make_node(operator, inputs, names, **attributes))
        return names[0]

    def cast(self, value: str, kind: Any) -> str:
        """Convert a value to a type of NumPy."""
        return self("Cast", value, to=self._type(kind))

    def refuse(self, value: str, if_any: str, sentence: str) -> str:
        """Return the value; if one of ``if_any`` is true, the runtime fails, and names the sentence as the failed node.

        ONNX has no operator that fails on purpose, but a constant has no second element.
        """
        found = self("Sign", self("ReduceSum", self.cast(if_any, np.int64), keepdims=0))
        return self("Add", value, self("CastLike", self("Gather", np.zeros(1), found, name=sentence), value))

    def replaced(self, texts: str, old: str, new: str) -> str:
        """Replace a part of texts, of which there is one in each row, wherever it is found."""
        parts, count = self.free("parts"), self.free("count")
        split = self._onnx.helper.make_node("StringSplit", [texts], [parts, count], delimiter=old)
        self._nodes.append(split)
        body = Graph(self.opset, self._names)
        number, going, text = (self.free(name) for name in ("number", "going", "text"))
        following = body("Add", number, 1)
        longer = body(
            "StringConcat",
            body("StringConcat", text, np.array([new], object)),
            body("Gather", parts, following, axis=2),
        )
        longer = body("Where", body("Less", following, count), longer, text)
        carried: list[Port] = [(body("Identity", going), np.bool_, []), (longer, object, ["rows", 1])]
        loop = body.made([(number, np.int64, []), (going, np.bool_, []), (text, object, ["rows", 1])], carried)
        rounds = self("Sub", self("Gather", self("Shape", parts), 2), 1)
        return self("Loop", rounds, np.True_, self("Gather", parts, 0, axis=2), body=loop)

    def free(self, name: str) -> str:
        """Return a name that no value has."""
        number = len(self._names)
        while f"{name} {number}" in self._names:
            number += 1
        self._names.add(f"{name} {number}")
        return f"{name} {number}"

    def made(self, inputs: Sequence[Port], outputs: Sequence[Port]) -> Any:
        """Return the graph as ONNX describes it."""
        ports = [
            [self._onnx.helper.make_tensor_value_info(name, self._type(kind), shape) for name, kind, shape in some]
            for some in (inputs, outputs)
        ]
        return self._onnx.helper.make_graph(self._nodes, "laddernet", *ports, self._constants)

    def write(
        self, path: Path, inputs: Sequence[Port], outputs: Sequence[Port], about: Mapping[str, str] | None = None
    ) -> None:
        """Check the graph, and write it to a file with these metadata."""
        helper = self._onnx.helper
        sets = [helper.make_opsetid("", self.opset)]
        if any(node.domain == ML for node in self._nodes):
            sets.append(helper.make_opsetid(ML, 3))
        model = helper.make_model(self.made(inputs, outputs), opset_imports=sets, producer_name="laddernet")
        model.ir_version = _IR_VERSION[self.opset]
        helper.set_model_props(model, dict(about or {}))
        self._onnx.checker.check_model(model, full_check=True)
        write_atomic(path, model.SerializeToString())

    def _constant(self, value: float | np.ndarray | np.generic) -> str:
        if isinstance(value, np.ndarray):
            return self._kept(value)
        key = (type(value), float(value))
        if key not in self._numbers:
            self._numbers[key] = self._kept(np.asarray(value))
        return self._numbers[key]

    def _kept(self, array: np.ndarray) -> str:
        name = self.free("constant")
        self._constants.append(
            self._onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        )
        return name

    def _type(self, kind: Any) -> int:
        return int(self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))


def scaled(graph: Graph, scaling: Scaling, x: str, precision: Any, *, factors: bool = True) -> str:
    """Add a scaling to a graph, in which ``x`` has the rows in this precision; its factors may be elsewhere."""
    h = graph("Sub", x, scaling.shift.astype(precision))
    if precision != np.float32:
        h = graph.cast(h, np.float32)
    if factors:
        h = graph("Mul", h, scaling.factor)
    if scaling.bound is not None:
        v = graph("Clip", h, -FAR, FAR)
        root = graph(
            "Sqrt", graph("Add", graph("Mul", graph("Mul", v, v), np.float32(scaling.bound**-2)), np.float32(1))
        )
        h = graph("Div", v, root)
    return h


def logits(graph: Graph, network: Network, x: str, precision: Any = np.float32) -> str:
    """Add a network to a graph, in which ``x`` has the rows in this precision; return the name of its logits."""
    folded = network.scaling.bound is None  # then W1 includes the factors
    h = scaled(graph, network.scaling, x, precision, factors=not folded)
    for l, (W, b) in enumerate(zip(network.weights, network.biases, strict=True), start=1):
        h = graph("Gemm", h, W, b)
        if l < len(network.weights):
            h = graph("Relu", h)
    return h


def linear(graph: Graph, model: Linear, x: str) -> str:
    """Add a linear model to a graph, in which ``x`` has the scaled rows; return the name of its probabilities."""
    z = graph("Gemm", x, model.W.astype(np.float32), model.b.astype(np.float32))
    return graph("Softmax", z, axis=1)


def trees(graph: Graph, model: Trees, x: str) -> str:
    """Add an ensemble of trees to a graph, in which ``x`` has the scaled rows; return the name of its probabilities."""
    nodes = np.arange(len(model.feature))
    tree = np.searchsorted(model.roots, nodes, side="right") - 1
    place = nodes - model.roots[tree]  # within the tree
    leaf = model.left < 0
    boosted = model.baseline is not None
    outputs = len(model.baseline) if model.baseline is not None else model.value.shape[1]
    leaves = np.repeat(nodes[leaf], model.value.shape[1])
    targets = tree[leaves] % outputs if boosted else np.tile(np.arange(outputs), leaf.sum())
    raw = graph(
        "TreeEnsembleRegressor",
        x,
        domain=ML,
        n_targets=outputs,
        aggregate_function="SUM" if boosted else "AVERAGE",
        base_values=[0.0] * outputs if model.baseline is None else model.baseline.tolist(),
        nodes_treeids=tree.tolist(),
        nodes_nodeids=place.tolist(),
        nodes_featureids=model.feature.tolist(),
        nodes_values=model.threshold.tolist(),
        nodes_modes=np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_truenodeids=np.where(leaf, 0, model.left - model.roots[tree]).tolist(),
        nodes_falsenodeids=np.where(leaf, 0, model.right - model.roots[tree]).tolist(),
        target_treeids=tree[leaves].tolist(),
        target_nodeids=place[leaves].tolist(),
        target_ids=targets.tolist(),
        target_weights=model.value[leaf].astype(np.float32).ravel().tolist(),
    )
    if not boosted:
        return raw
    return graph(
        "Softmax", graph("Concat", graph("Mul", raw, np.float32(0)), raw, axis=1) if outputs == 1 else raw, axis=1
    )


def write(path: Path, network: Network, classes: np.ndarray) -> None:
    """Write a network with the input ``X`` and the outputs ``label`` and ``probabilities``."""
    graph = Graph(names={"X", "label", "probabilities"})
    scores = logits(graph, network, "X")
    graph("Softmax", scores, output="probabilities", axis=1)
    add_label(graph, scores, classes, "label")
    graph.write(
        path,
        [("X", np.float32, ["rows", network.weights[0].shape[0]])],
        [
            ("label", _plain(classes).dtype, ["rows"]),
            ("probabilities", np.float32, ["rows", len(classes)]),
        ],
    )


def add_label(graph: Graph, scores: str, classes: np.ndarray, output: str) -> None:
    """Add the class with the highest score as an output of a graph."""
    graph("Gather", _plain(classes), graph("ArgMax", scores, axis=1, keepdims=0), output=output)


def _plain(classes: np.ndarray) -> np.ndarray:
    """Convert texts to the type that ONNX takes."""
    return classes.astype(object) if classes.dtype.kind in "USO" else classes
