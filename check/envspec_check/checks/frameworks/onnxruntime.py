"""onnxruntime: whether it has the provider that the target is for, and what a model gives by it."""

from __future__ import annotations

import importlib
import struct
from typing import Any, Dict, List, Sequence, Tuple

from envspec_check.checks.frameworks import oracle
from envspec_check.checks.frameworks.kit import WRONG, judge
from envspec_check.checks.frameworks.oracle import TOLERANCES, farthest, numpy
from envspec_check.interface import Context, Fault, Outcome, Skip, check, failed, passed
from envspec_check.lock import is_direct

CUDA = "CUDAExecutionProvider"

FLOAT, INT64 = 1, 7
"""The types of elements of onnx.proto's TensorProto."""


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    encoded = b""
    while number > 127:
        encoded += bytes([number & 127 | 128])
        number >>= 7
    return encoded + bytes([number])


def message(*fields: Tuple[int, Any]) -> bytes:
    """Return a message of Protocol Buffers: numbers of fields, each with its value."""
    encoded = b""
    for key, value in fields:
        if isinstance(value, int):
            encoded += varint(key << 3) + varint(value)
        elif isinstance(value, float):
            encoded += varint(key << 3 | 5) + struct.pack("<f", value)
        elif isinstance(value, (str, bytes)):
            text = value.encode() if isinstance(value, str) else value
            encoded += varint(key << 3 | 2) + varint(len(text)) + text
        else:
            encoded += b"".join(varint(key << 3) + varint(number) for number in value)
    return encoded


def tensor(name: str, array: Any) -> bytes:
    """Return a TensorProto."""
    kind = FLOAT if str(array.dtype) == "float32" else INT64
    return message((1, array.shape), (2, kind), (8, name), (9, array.tobytes()))


def node(kind: str, inputs: Sequence[str], output: str, **attributes: int | float | List[int]) -> bytes:
    """Return a NodeProto."""
    held: List[Tuple[int, Any]] = []
    for name, value in attributes.items():
        key, form = {int: (3, 2), float: (2, 1), list: (8, 7)}[type(value)]
        held.append((5, message((1, name), (key, value), (20, form))))
    return message(*((1, name) for name in inputs), (2, output), (4, kind), *held)


def value_info(name: str, kind: int, shape: Sequence[int | str]) -> bytes:
    dims = [(1, message((1, dim) if isinstance(dim, int) else (2, dim))) for dim in shape]
    return message((1, name), (2, message((1, message((1, kind), (2, message(*dims)))))))


def model(params: Dict[str, Any], kernel: Any, scale: Any) -> bytes:
    """Return a ModelProto (onnx.proto, IR 8, opset 17) of the network of `oracle` and of its operators, made by hand:
    the package onnx is often not there."""
    np = numpy()
    held = {**params, "kernel": kernel, "scale": scale, "half": np.float32([0.5]), "zero": np.zeros_like(scale)}
    nodes = [
        node("MatMul", ["rows", "w1"], "a"),
        node("Add", ["a", "b1"], "b"),
        node("Tanh", ["b"], "c"),
        node("Gemm", ["c", "w2", "b2"], "logits"),
        node("Softmax", ["logits"], "shares", axis=-1),
        node("Conv", ["images", "kernel"], "convolved", strides=[2, 2]),
        node("LayerNormalization", ["wide", "scale", "zero"], "d", axis=-1, epsilon=1e-5),
        node("Tanh", ["d"], "normed"),
        node("Gather", ["wide", "picked"], "e"),
        node("Mul", ["e", "half"], "looked"),
    ]
    inputs = {
        "rows": (FLOAT, ("batch", oracle.INPUTS)),
        "images": (FLOAT, ("count", 8, 33, 29)),
        "wide": (FLOAT, ("length", 272)),
        "picked": (INT64, ("picks",)),
    }
    outputs = {"shares": 2, "convolved": 4, "normed": 2, "looked": 2}
    graph = message(
        *((1, node) for node in nodes),
        (2, "small"),
        *((5, tensor(name, values)) for name, values in held.items()),
        *((11, value_info(name, *form)) for name, form in inputs.items()),
        *((12, value_info(name, FLOAT, [f"{name}{at}" for at in range(rank)])) for name, rank in outputs.items()),
    )
    return message((1, 8), (7, graph), (8, message((1, ""), (2, 17))))


def compare(ctx: Context, providers: Sequence[Any], levels: Sequence[str]) -> Dict[str, float]:
    """Measure each output's distance from float64's, by graph level and size of the batch."""
    ort, np = importlib.import_module("onnxruntime"), numpy()
    made = np.random.RandomState(ctx.seed)
    params = oracle.first_params(ctx.seed)
    kernel = made.standard_normal((16, 8, 3, 3)).astype(np.float32)
    scale = made.standard_normal(272).astype(np.float32)
    text, errors = model(params, kernel, scale), {}
    for level in levels:
        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
        session = ort.InferenceSession(text, options, providers=list(providers))
        named = [provider if isinstance(provider, str) else provider[0] for provider in providers]
        if session.get_providers()[0] != named[0]:
            reason = f"onnxruntime takes {session.get_providers()[0]} where it was told to take {named[0]}"
            raise Fault(reason, "its output says which library the provider misses")
        for count in (4, 300):
            rows, wide = (made.standard_normal((count, size)).astype(np.float32) for size in (oracle.INPUTS, 272))
            images = made.standard_normal((4, 8, 33, 29)).astype(np.float32)
            given = {"rows": rows, "wide": wide, "images": images, "picked": oracle.rows_of(count).astype(np.int64)}
            outputs = dict(zip(("shares", "convolved", "normed", "looked"), session.run(None, given)))
            exact = {
                name: values.astype(np.float64) for name, values in {**given, "kernel": kernel, "scale": scale}.items()
            }
            logits = oracle.logits_of(oracle.wide(params), exact["rows"])
            shares = np.exp(logits - logits.max(1, keepdims=True))
            swapped = exact["images"].transpose(0, 2, 3, 1), exact["kernel"].transpose(2, 3, 1, 0)
            right = {
                "shares": shares / shares.sum(1, keepdims=True),
                "convolved": oracle.convolution(*swapped).transpose(0, 3, 1, 2),
                "normed": oracle.norm(exact["wide"], exact["scale"]),
                "looked": oracle.lookup(exact["wide"]),
            }
            errors.update({f"{name} of {count} ({level})": farthest(outputs[name], right[name]) for name in right})
    return errors


LEVELS = ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL")


@check("onnxruntime.build", torch=False)
def onnxruntime_build(ctx: Context) -> Outcome:
    """onnxruntime can be imported, and has the provider that the target is for."""
    ort, cuda = importlib.import_module("onnxruntime"), ctx.target.get("cuda")
    providers = ort.get_available_providers()
    details = {"onnxruntime": ort.__version__, "providers": providers}
    if not cuda or CUDA in providers:
        return passed(details=details)
    reason = f"onnxruntime {ort.__version__} is built for {', '.join(providers)}, and the target for CUDA {cuda}"
    if is_direct(ctx.lock, "onnxruntime"):
        return failed(reason, "lock onnxruntime-gpu in its place; both at once overwrite each other", details=details)
    return passed(reason=reason, details=details)  # another package brought it, which asks for no GPU


@check("onnxruntime.model", torch=False)
def onnxruntime_model(ctx: Context) -> Outcome:
    """A small model gives float64's numbers on the CPU, as it stands and optimised, for small and large batches."""
    return judge(compare(ctx, ["CPUExecutionProvider"], LEVELS), TOLERANCES["fp32"], "by the CPU")


@check("onnxruntime.cuda", needs="gpu", torch=False)
def onnxruntime_cuda(ctx: Context) -> Outcome:
    """The same model gives the same numbers by CUDA, and onnxruntime doesn't fall back to the CPU in silence."""
    ort = importlib.import_module("onnxruntime")
    if CUDA not in ort.get_available_providers():
        raise Skip("onnxruntime is built for CPUs")
    if hasattr(ort, "preload_dlls"):  # from 1.21 on: CUDA's libraries of the environment
        ort.preload_dlls()
    return judge(
        compare(ctx, [(CUDA, {"use_tf32": "0"}), "CPUExecutionProvider"], LEVELS), TOLERANCES["fp32"], "by CUDA"
    )


@check("onnxruntime.determinism", torch=False)
def onnxruntime_determinism(ctx: Context) -> Outcome:
    """The same input gives the same bits, run after run and session after session."""
    ort, np = importlib.import_module("onnxruntime"), numpy()
    made = np.random.RandomState(ctx.seed)
    kernel, scale = made.standard_normal((16, 8, 3, 3)), made.standard_normal(272)
    text = model(oracle.first_params(ctx.seed), kernel.astype(np.float32), scale.astype(np.float32))
    given = {
        "rows": made.standard_normal((300, oracle.INPUTS)).astype(np.float32),
        "images": made.standard_normal((4, 8, 33, 29)).astype(np.float32),
        "wide": made.standard_normal((300, 272)).astype(np.float32),
        "picked": np.arange(300),
    }
    seen = set()
    for _ in range(2):
        session = ort.InferenceSession(text, providers=["CPUExecutionProvider"])
        seen.update(b"".join(output.tobytes() for output in session.run(None, given)) for _ in range(5))
    if len(seen) > 1:
        return failed(f"10 runs of one model with one input give {len(seen)} results", WRONG)
    return passed()
