"""A policy as an ONNX model: its most probable actions as a graph of standard operators."""

from typing import Any

import numpy as np

from mdpnewton.checks import required
from mdpnewton.policies.alone import MOST

OPSET = 17  # what every runtime of the last years knows
IR = 9  # the version of the format that goes with it


def onnx_model(about: dict[str, Any], arrays: dict[str, np.ndarray]) -> bytes:
    """The model that `LoadedPolicy.export_onnx` writes.

    Args:
        about: Description of the policy, with its spaces.
        arrays: Its arrays.
    """
    onnx = required("onnx", "an ONNX model")
    graph = _Graph(onnx)
    outputs = _outputs(graph, about, arrays)
    if about["distribution"] == "gaussian":
        last = _in_the_box(graph, about, arrays, outputs)
    else:
        last = _chosen(graph, about, outputs)
    helper, double = onnx.helper, onnx.TensorProto.DOUBLE
    action, size = about["action"], about["size"] + bool(about["deadline"])
    target = helper.np_dtype_to_tensor_dtype(np.dtype(action["dtype"]))
    if about["distribution"] == "softmax":
        last = graph("Squeeze", last, graph.constant(np.array([1])))
    else:
        last = graph("Reshape", last, graph.constant(np.array([0, *action["shape"]])))
    graph("Cast", last, to=target, out="action")
    taken = ("action", target, ["batch", *action["shape"]])
    return graph.model([("observation", double, ["batch", size])], [taken])


def controller_model(tables: dict[str, np.ndarray]) -> bytes:
    """The model that `LoadedController.export_onnx` writes.

    Args:
        tables: Its tables by name.
    """
    onnx = required("onnx", "an ONNX model")
    graph, whole, double = _Graph(onnx), onnx.TensorProto.INT64, onnx.TensorProto.DOUBLE
    initial, action = tables["initial"], tables["action"]
    before = np.concatenate([initial[None], tables["transition"]])  # the first: nothing before
    both = before[..., None] * np.moveaxis(action, 0, 1)[None]  # by row, seen, node, action
    _, seen, nodes, actions = both.shape
    best = both.reshape(-1, nodes * actions).argmax(axis=1)
    row = graph("Add", "node", graph.constant(np.int64(1)))
    row = graph("Mul", row, graph.constant(np.int64(seen)))
    row = graph("Add", row, "observation")
    graph("Gather", graph.constant(best % actions), row, out="action")
    graph("Gather", graph.constant(best // actions), row, out="next_node")
    shared = graph.constant(both.reshape(-1, nodes, actions))
    graph("Gather", shared, row, out="probabilities")
    outputs = [(name, whole, ["batch"]) for name in ("action", "next_node")]
    return graph.model(
        [(name, whole, ["batch"]) for name in ("node", "observation")],
        [*outputs, ("probabilities", double, ["batch", nodes, actions])],
    )


class _Graph:
    """Nodes and constants as they are added."""

    def __init__(self, onnx: Any):
        self._onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def __call__(self, operator: str, *inputs: str, out: str = "", **settings: Any) -> str:
        name = out or f"{operator.lower()}{len(self.nodes)}"
        self.nodes.append(self._onnx.helper.make_node(operator, inputs, [name], **settings))
        return name

    def constant(self, array: Any) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(self._onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def model(
        self, inputs: list[tuple[str, int, list[Any]]], outputs: list[tuple[str, int, list[Any]]]
    ) -> bytes:
        """The whole model, checked; inputs and outputs have a name, a type and a shape."""
        helper = self._onnx.helper
        ends = ([helper.make_tensor_value_info(*one) for one in each] for each in (inputs, outputs))
        model = helper.make_model(
            helper.make_graph(self.nodes, "policy", *ends, self.constants),
            opset_imports=[helper.make_opsetid("", OPSET)],
            ir_version=IR,
            producer_name="mdpnewton",
        )
        self._onnx.checker.check_model(model)
        content: bytes = model.SerializeToString()
        return content


def _outputs(graph: _Graph, about: dict[str, Any], arrays: dict[str, np.ndarray]) -> str:
    """The logits or the mean; see `choosing`."""
    single, double = graph._onnx.TensorProto.FLOAT, graph._onnx.TensorProto.DOUBLE
    x = "observation"
    if "mean" in arrays:
        shifted = graph("Sub", x, graph.constant(arrays["mean"]))
        z = graph("Div", shifted, graph.constant(arrays["scale"]))
        limit = np.float64(arrays["limit"])
        z = graph("Clip", z, graph.constant(-limit), graph.constant(limit))
        first = graph("Slice", z, *(graph.constant(np.array([n])) for n in (0, 1, 1)))
        one = graph("Add", graph("Mul", first, graph.constant(0.0)), graph.constant(1.0))
        parts = [one, z]
        if "frequencies" in arrays:
            turned = graph("MatMul", z, graph.constant(arrays["frequencies"].T))
            angles = graph("Add", turned, graph.constant(arrays["phases"]))
            waves = graph("Cos", graph("Cast", angles, to=single))  # of single precision
            size = (2 / max(arrays["phases"].size, 1)) ** 0.5
            waves = graph("Mul", graph("Cast", waves, to=double), graph.constant(size))
            parts.append(waves)
        x = graph("Concat", *parts, axis=1)
    for n in range(about["layers"]):
        x = graph("MatMul", x, graph.constant(arrays[f"weight{n}"].T))
        if f"bias{n}" in arrays:
            x = graph("Add", x, graph.constant(arrays[f"bias{n}"]))
        if n < about["layers"] - 1:
            x = graph("Tanh", x)
    return x


def _in_the_box(
    graph: _Graph, about: dict[str, Any], arrays: dict[str, np.ndarray], mean: str
) -> str:
    """The action that the environment gets for a mean; see `to_box`."""
    if about["squashed"]:
        most = (graph.constant(-MOST), graph.constant(MOST))
        mean = graph("Clip", graph("Tanh", mean), *most)
    middle, half, low, high = (
        graph.constant(arrays[name]) for name in ("middle", "half", "low", "high")
    )
    wanted = graph("Add", middle, graph("Mul", half, mean))
    wanted = graph("Min", graph("Max", wanted, low), high)
    return graph("Round", wanted) if about["action"]["whole"] else wanted


def _chosen(graph: _Graph, about: dict[str, Any], logits: str) -> str:
    """The number of the largest logit, or of that of every part."""
    start = graph.constant(np.array(about["action"]["start"], np.int64))
    if about["distribution"] == "softmax":
        return graph("Add", graph("ArgMax", logits, axis=1, keepdims=1), start)
    ends = np.cumsum(about["sizes"])
    parts = [
        graph("Slice", logits, *(graph.constant(np.array([n])) for n in (end - size, end, 1)))
        for size, end in zip(about["sizes"], ends, strict=True)
    ]
    chosen = [graph("ArgMax", part, axis=1, keepdims=1) for part in parts]
    return graph("Add", graph("Concat", *chosen, axis=1), start)
