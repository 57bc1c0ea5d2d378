"""A trained network in the ONNX format, for runtimes without JAX, scikit-learn or this package."""

from pathlib import Path

import numpy as np

from laddernet.errors import InputError
from laddernet.files import write_atomic
from laddernet.inference.network import FAR, Network

_OPSET = 17


def write(path: Path, network: Network, classes: np.ndarray) -> None:
    """Write a model with the input ``X`` and the outputs ``label`` and ``probabilities``."""
    try:
        from onnx import TensorProto, checker, helper, numpy_helper
    except ImportError as error:
        raise InputError(f"ONNX is not installed ({error}); install it with pip install 'laddernet[onnx]'.") from error

    scaling = network.scaling
    constants = {
        "shift": scaling.shift.astype(np.float32),
        "classes": classes.astype(object if classes.dtype.kind in "USO" else classes.dtype),
    }
    if scaling.bound is None:  # then W1 includes the factors
        nodes = [helper.make_node("Sub", ["X", "shift"], ["h0"])]
    else:
        numbers = {"low": -FAR, "high": FAR, "one": 1.0, "shrink": scaling.bound**-2}
        constants |= {"factor": scaling.factor, **{name: np.array(n, np.float32) for name, n in numbers.items()}}
        nodes = [
            helper.make_node("Sub", ["X", "shift"], ["shifted"]),
            helper.make_node("Mul", ["shifted", "factor"], ["scaled"]),
            helper.make_node("Clip", ["scaled", "low", "high"], ["v"]),
            helper.make_node("Mul", ["v", "v"], ["square"]),
            helper.make_node("Mul", ["square", "shrink"], ["shrunk"]),
            helper.make_node("Add", ["shrunk", "one"], ["sum"]),
            helper.make_node("Sqrt", ["sum"], ["root"]),
            helper.make_node("Div", ["v", "root"], ["h0"]),
        ]
    top = len(network.weights)
    for l, (W, b) in enumerate(zip(network.weights, network.biases, strict=True), start=1):
        constants |= {f"W{l}": W, f"b{l}": b}
        nodes.append(helper.make_node("Gemm", [f"h{l - 1}", f"W{l}", f"b{l}"], [f"z{l}"]))
        if l < top:
            nodes.append(helper.make_node("Relu", [f"z{l}"], [f"h{l}"]))
    nodes += [
        helper.make_node("Softmax", [f"z{top}"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", [f"z{top}"], ["best"], axis=1, keepdims=0),
        helper.make_node("Gather", ["classes", "best"], ["label"]),
    ]
    kept = [numpy_helper.from_array(np.ascontiguousarray(array), name) for name, array in constants.items()]
    float_type, label_type = TensorProto.FLOAT, next(tensor.data_type for tensor in kept if tensor.name == "classes")
    graph = helper.make_graph(
        nodes,
        "laddernet",
        [helper.make_tensor_value_info("X", float_type, ["rows", network.weights[0].shape[0]])],
        [
            helper.make_tensor_value_info("label", label_type, ["rows"]),
            helper.make_tensor_value_info("probabilities", float_type, ["rows", len(classes)]),
        ],
        kept,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="laddernet")
    model.ir_version = 8  # understood by runtimes of recent years; newer versions only add types
    checker.check_model(model)
    write_atomic(path, model.SerializeToString())
