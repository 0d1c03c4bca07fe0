"""tensorflow: what TensorFlow computes, compiles, differentiates and shares among devices."""

from __future__ import annotations

import importlib
import math
import os
from typing import Any, Callable, Dict, List, Tuple

from envspec_check.capability import capability_of
from envspec_check.checks.frameworks import oracle
from envspec_check.checks.frameworks.kit import APART, WRONG, Kit, judge, put_checks
from envspec_check.checks.frameworks.oracle import Params, farthest, numpy
from envspec_check.checks.frameworks.together import compare_footprints
from envspec_check.interface import MIB, Context, Fault, Outcome, Skip, check, failed, passed
from envspec_check.lock import is_direct

HOSTS = 4
"""The devices that a CPU is told to be, so that something can be shared."""

FP16_SUMS = 2e-2
"""How far products in fp16 may be off on CPUs, where older releases (2.15.1) sum in fp16 too."""


def on_gpu(ctx: Context, tf: Any) -> bool:
    """Return whether the checks run on the GPU: a build for CPUs has its checks there."""
    return ctx.device == "cuda" and bool(tf.sysconfig.get_build_info().get("is_cuda_build"))


def settle(ctx: Context, exact: bool = False) -> Any:
    """Import TensorFlow for the device of the checks. Raises Fault where it is to compute on a GPU and has none."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"  # other checks use the GPU too
    if ctx.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    tf = importlib.import_module("tensorflow")
    tf.config.experimental.enable_tensor_float_32_execution(False)
    if on_gpu(ctx, tf) and not tf.config.list_physical_devices("GPU"):
        raise Fault(
            "tensorflow sees no GPU and would compute on the CPU", "see tensorflow.build and tensorflow.devices"
        )
    if exact:
        tf.config.experimental.enable_op_determinism()
        tf.random.set_seed(ctx.seed)
    return tf


class TensorFlowKit(Kit):
    name = "tensorflow"

    def __init__(self, ctx: Context, exact: bool = False) -> None:
        self.tf = settle(ctx, exact)
        self.gpu = on_gpu(ctx, self.tf)
        self.operators = {
            "matmul": self.tf.linalg.matmul,
            "convolution": lambda images, kernel: self.tf.nn.conv2d(images, kernel, 2, "VALID"),
            "attention": self.attention,
            "norm": self.norm,
            "lookup": lambda table: self.tf.gather(table, oracle.rows_of(table.shape[0])) * self.like(0.5, table),
        }

    def tolerance(self, precision: str) -> float:
        return FP16_SUMS if precision == "fp16" and not self.gpu else super().tolerance(precision)

    def put(self, array: Any, precision: str) -> Any:
        kinds = {"fp32": self.tf.float32, "bf16": self.tf.bfloat16, "fp16": self.tf.float16}
        return self.tf.cast(self.tf.convert_to_tensor(array), kinds[precision])

    def back(self, array: Any) -> Any:
        return self.tf.cast(self.tf.convert_to_tensor(array), self.tf.float64).numpy()

    def like(self, value: float, other: Any) -> Any:
        return self.tf.cast(value, other.dtype)

    def pull(self, function: Callable[..., Any], inputs: List[Any], weights: Any) -> Tuple[Any, List[Any]]:
        @self.tf.function
        def both(*given: Any) -> Any:
            with self.tf.GradientTape() as tape:
                tape.watch(given)
                result = function(*given)
            return result, tape.gradient(result, given, output_gradients=weights)

        result, gradients = both(*inputs)
        return result, list(gradients)

    def attention(self, query: Any, key: Any, value: Any) -> Any:
        tf = self.tf
        scores = tf.linalg.matmul(query, key, transpose_b=True)
        wide = tf.cast(scores, tf.float32) / math.sqrt(query.shape[-1])
        seen = tf.linalg.band_part(tf.ones(scores.shape[-2:], tf.bool), -1, 0)
        shares = tf.nn.softmax(tf.where(seen, wide, -math.inf))
        return tf.linalg.matmul(tf.cast(shares, value.dtype), value)

    def norm(self, rows: Any, scale: Any) -> Any:
        tf = self.tf
        wide = tf.cast(rows, tf.float32)
        centred = wide - tf.reduce_mean(wide, -1, keepdims=True)
        shares = centred * tf.math.rsqrt(tf.reduce_mean(centred**2, -1, keepdims=True) + 1e-5)
        return tf.cast(tf.tanh(shares * tf.cast(scale, tf.float32)), rows.dtype)

    def loss(self, params: Params, rows: Any, labels: Any, drawn: Any = None) -> Any:
        tf = self.tf
        held = tf.tanh(tf.linalg.matmul(rows, params["w1"]) + params["b1"])
        if drawn is not None:
            held = held * tf.cast(drawn < 0.9, held.dtype) / self.like(0.9, held)
        logits = tf.cast(tf.linalg.matmul(held, params["w2"]) + params["b2"], tf.float32)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))

    def gradients(self, params: Params, rows: Any, labels: Any) -> Tuple[float, Params]:
        variables = {name: self.tf.constant(weights) for name, weights in params.items()}
        with self.tf.GradientTape() as tape:
            tape.watch(variables)
            loss = self.loss(variables, rows, labels)
        gradients = tape.gradient(loss, variables)
        return float(loss), {name: self.back(gradient) for name, gradient in gradients.items()}

    def training(self, seed: int, precision: str, dropout: bool = False) -> Any:
        return TensorFlowTraining(self, seed, precision, dropout)


class TensorFlowTraining:
    """SGD with momentum on variables, one traced step."""

    def __init__(self, kit: TensorFlowKit, seed: int, precision: str, dropout: bool) -> None:
        tf, first = kit.tf, oracle.first_params(seed)
        self.kit, self.precision, self.dropout = kit, precision, dropout
        self.weights = {name: tf.Variable(values) for name, values in first.items()}
        self.speed = {name: tf.Variable(tf.zeros_like(values)) for name, values in first.items()}
        self.drawing = tf.random.Generator.from_seed(seed)
        self.apply = tf.function(self.next)

    def next(self, rows: Any, labels: Any) -> Any:
        tf = self.kit.tf
        drawn = self.drawing.uniform((rows.shape[0], oracle.HIDDEN)) if self.dropout else None
        with tf.GradientTape() as tape:
            short = {name: self.kit.put(weights, self.precision) for name, weights in self.weights.items()}
            loss = self.kit.loss(short, self.kit.put(rows, self.precision), labels, drawn)
        for name, gradient in tape.gradient(loss, self.weights).items():
            self.speed[name].assign(oracle.MOMENTUM * self.speed[name] + gradient)
            self.weights[name].assign_sub(oracle.RATE * self.speed[name])
        return loss

    def step(self, rows: Any, labels: Any) -> float:
        return float(self.apply(self.kit.tf.constant(rows), self.kit.tf.constant(labels)))

    def params(self) -> Params:
        return {name: self.kit.back(weights) for name, weights in self.weights.items()}

    def leaves(self) -> Dict[str, Any]:
        leaves = {f"params.{name}": weights.numpy() for name, weights in self.weights.items()}
        leaves.update({f"speed.{name}": speed.numpy() for name, speed in self.speed.items()})
        return {**leaves, "generator": self.drawing.state.numpy()}

    def checkpoint(self) -> Any:
        return self.kit.tf.train.Checkpoint(weights=self.weights, speed=self.speed, drawing=self.drawing)

    def save(self, path: Any) -> None:
        self.checkpoint().write(str(path))

    def load(self, path: Any) -> None:
        self.checkpoint().read(str(path)).assert_consumed()


@check("tensorflow.build", torch=False)
def tensorflow_build(ctx: Context) -> Outcome:
    """TensorFlow can be imported, and is built for the target's CUDA."""
    os.environ.update(CUDA_VISIBLE_DEVICES="-1", TF_CPP_MIN_LOG_LEVEL="2")
    tf, cuda = importlib.import_module("tensorflow"), ctx.target.get("cuda")
    built = dict(tf.sysconfig.get_build_info())
    details = {"tensorflow": tf.__version__, "cuda": built.get("cuda_version"), "cudnn": built.get("cudnn_version")}
    if not cuda:
        return passed(details=details)
    remedy = 'write "tensorflow[and-cuda]" in the spec, and lock again'
    if not built.get("is_cuda_build"):
        reason = f"tensorflow {tf.__version__} is built for CPUs, and the target is for CUDA {cuda}"
        if is_direct(ctx.lock, "tensorflow"):
            return failed(reason, remedy, details=details)
        return passed(reason=reason, details=details)  # another package brought it, which asks for no GPU
    if str(built.get("cuda_version", "")).partition(".")[0] != cuda.partition(".")[0]:
        reason = f"tensorflow {tf.__version__} is built for CUDA {built.get('cuda_version')}, the target for {cuda}"
        return failed(reason, remedy, details=details)
    return passed(details=details)


@check("tensorflow.devices", needs="gpu", torch=False)
def tensorflow_devices(ctx: Context) -> Outcome:
    """TensorFlow sees all GPUs, and they are the target's: it says nothing where a library is missing."""
    os.environ.update(TF_FORCE_GPU_ALLOW_GROWTH="true", TF_CPP_MIN_LOG_LEVEL="0")
    tf = importlib.import_module("tensorflow")
    if not on_gpu(ctx, tf):
        raise Skip("tensorflow is built for CPUs")
    devices = tf.config.list_physical_devices("GPU")
    about = [tf.config.experimental.get_device_details(device) for device in devices]
    capabilities = ["%d.%d" % tuple(gpu["compute_capability"]) for gpu in about]
    details = {"devices": [gpu.get("device_name") for gpu in about], "capabilities": capabilities}
    if len(devices) != ctx.gpus:
        remedy = 'write "tensorflow[and-cuda]" in the spec: its output may name the library that it misses'
        reason = f"tensorflow sees {len(devices)} GPUs of {ctx.gpus}"
        return failed(reason + ("" if devices else ": it computes on the CPU"), remedy, details=details)
    expected = ["%d.%d" % capability_of(architecture) for architecture in ctx.target.get("architectures", [])]
    if expected and not set(capabilities) <= set(expected):
        reason = (
            f"tensorflow's GPUs are of {', '.join(sorted(set(capabilities)))}: the target is for {', '.join(expected)}"
        )
        return failed(reason, "use the target for this GPU, or lock one", details=details)
    total = tf.reduce_sum(tf.range(1000))
    if "GPU" not in tf.linalg.matmul(tf.ones((8, 8)), tf.ones((8, 8))).device or int(total) != 499500:
        return failed("tensorflow computes a product on the CPU though it sees GPUs", WRONG, details=details)
    return passed(details=details)


@check("tensorflow.memory", needs="gpu", torch=False)
def tensorflow_memory(ctx: Context) -> Outcome:
    """TensorFlow takes no more of a GPU than it needs where it is told to, and gives back what it held."""
    tf = settle(ctx)
    if not on_gpu(ctx, tf):
        raise Skip("tensorflow is built for CPUs")
    details, figures = compare_footprints(ctx, "tensorflow")
    with tf.device("GPU:0"):
        counts = [tf.config.experimental.get_memory_info("GPU:0")["current"]]
        held = tf.ones((256, MIB // 4)) + 1.0
        counts.append(tf.config.experimental.get_memory_info("GPU:0")["current"])
        del held
        counts.append(tf.config.experimental.get_memory_info("GPU:0")["current"])
    details["in_use_bytes"] = counts
    if not counts[1] - counts[0] >= 256 * MIB or not counts[2] - counts[0] < 16 * MIB:
        return failed("tensorflow doesn't give back the memory of a tensor that is gone", WRONG, details=details)
    return passed(details=details, figures=figures)


put_checks("tensorflow", TensorFlowKit)


@check("tensorflow.function", torch=False)
def tensorflow_function(ctx: Context) -> Outcome:
    """A function, traced or compiled by XLA, agrees with the plain one and float64; it is traced once for a shape."""
    kit, np = TensorFlowKit(ctx), numpy()
    tf, made, traced = kit.tf, numpy().random.RandomState(ctx.seed), []

    def recurrence(rows: Any, weights: Any) -> Any:
        traced.append(tuple(rows.shape))
        held = rows
        for _ in tf.range(5):
            held = tf.tanh(tf.linalg.matmul(held, weights))
        while tf.reduce_sum(held) ** 2 < 100.0:
            held = held * 2.0
        return held if rows[0, 0] > 0 else -held

    weights, errors = made.standard_normal((32, 32)) / 5.0, {}
    graph = tf.function(recurrence)
    for at, count in enumerate((16, 16, 300)):
        rows = made.standard_normal((count, 32))
        given = kit.put(rows, "fp32"), kit.put(weights, "fp32")
        right = kit.back(given[0])
        for _ in range(5):
            right = np.tanh(right @ kit.back(given[1]))
        while right.sum() ** 2 < 100.0:
            right = right * 2.0
        right = right if rows[0, 0] > 0 else -right
        errors[f"traced {at}"] = farthest(kit.back(graph(*given)), right)
    if traced != [(16, 32), (300, 32)]:
        reason = f"a function is traced {len(traced)} times for 3 calls of 2 shapes"
        return failed(f"{reason}: tf.function doesn't keep what it traced", WRONG, details={"traced": traced})
    tf.config.run_functions_eagerly(True)
    errors["eager"] = farthest(kit.back(graph(*given)), right)
    tf.config.run_functions_eagerly(False)
    errors["by XLA"] = farthest(kit.back(tf.function(recurrence, jit_compile=True)(*given)), right)
    return judge(errors, APART["fp32"], "by tf.function")


@check("tensorflow.keras", torch=False)
def tensorflow_keras(ctx: Context) -> Outcome:
    """A model of Keras trains by fit, and gives the same numbers after it was saved and loaded."""
    tf = TensorFlowKit(ctx).tf
    keras = tf.keras
    keras.utils.set_random_seed(ctx.seed)
    layers = [keras.layers.Dense(oracle.HIDDEN, "tanh"), keras.layers.Dropout(0.1), keras.layers.Dense(oracle.CLASSES)]
    model = keras.Sequential([keras.Input((oracle.INPUTS,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(oracle.RATE, oracle.MOMENTUM), loss)
    batches = [oracle.batch_of(ctx.seed, step) for step in range(20)]
    rows, labels = (numpy().concatenate(part) for part in zip(*batches))
    fitted = model.fit(rows, labels, batch_size=oracle.BATCH, epochs=3, verbose=0).history["loss"]
    details = {"keras": getattr(keras, "__version__", None), "losses": fitted}
    if not fitted[-1] <= 0.6 * fitted[0]:
        return failed(
            f"the loss of a model of Keras goes from {fitted[0]:.3g} to {fitted[-1]:.3g}", WRONG, details=details
        )
    path = ctx.scratch / "model.keras"
    model.save(str(path))
    again = keras.models.load_model(str(path))
    if not numpy().array_equal(model.predict(rows, verbose=0), again.predict(rows, verbose=0)):
        return failed("a model of Keras gives other numbers after it was saved and loaded", WRONG, details=details)
    params = dict(zip(("w1", "b1", "w2", "b2"), map(numpy().float64, model.get_weights())))
    error = farthest(model.predict(rows, verbose=0), oracle.logits_of(params, rows.astype("float64")))
    if not error <= APART["fp32"]:
        return failed(f"a model of Keras is off by {error:.2g} of float64's", WRONG, details=details)
    return passed(details={**details, "error": error})


@check("tensorflow.sharding", torch=False)
def tensorflow_sharding(ctx: Context) -> Outcome:
    """MirroredStrategy on all devices agrees with float64; an all-reduce is exact."""
    kit, np = TensorFlowKit(ctx), numpy()
    tf = kit.tf
    gpu = on_gpu(ctx, tf)
    if not gpu:
        host = tf.config.list_physical_devices("CPU")[0]
        tf.config.set_logical_device_configuration(host, [tf.config.LogicalDeviceConfiguration()] * HOSTS)
    names = [device.name for device in tf.config.list_logical_devices("GPU" if gpu else "CPU")]
    details: Dict[str, Any] = {"devices": names}
    if len(names) < 2:
        raise Skip("there is one GPU: nothing can be shared among devices", details=details)
    count, strategy = len(names), tf.distribute.MirroredStrategy(names)
    first, (rows, labels) = oracle.first_params(ctx.seed), oracle.batch_of(ctx.seed, 0)
    _, right = oracle.loss_and_gradients(oracle.wide(first), rows.astype("float64"), labels)
    with strategy.scope():
        weights = {name: tf.Variable(values) for name, values in first.items()}

    @tf.function
    def gradients() -> Any:
        def own() -> Any:
            replica = tf.distribute.get_replica_context()
            at = replica.replica_id_in_sync_group
            mine = tf.constant(rows)[at::count], tf.constant(labels)[at::count]
            with tf.GradientTape() as tape:
                loss = kit.loss(weights, *mine)
            slopes = tape.gradient(loss, weights)
            whole = replica.all_reduce(tf.distribute.ReduceOp.SUM, (at + 1) * 1000003)
            return {name: replica.all_reduce("MEAN", slope) for name, slope in slopes.items()}, whole

        return strategy.run(own)

    slopes, whole = gradients()
    sums = [int(total) for total in strategy.experimental_local_results(whole)]
    if sums != [1000003 * count * (count + 1) // 2] * count:
        return failed(f"an all-reduce among {count} devices gives {sums}", WRONG, details=details)
    each = {name: strategy.experimental_local_results(gradient) for name, gradient in slopes.items()}
    errors = {name: max(farthest(kit.back(copy), right[name]) for copy in copies) for name, copies in each.items()}
    details["errors"] = errors
    worst = max(errors, key=lambda name: errors[name])
    if len(np.unique([len(copies) for copies in each.values()])) != 1 or not errors[worst] <= APART["fp32"]:
        reason = f"among {count} devices the gradient of {worst} is off by {errors[worst]:.2g} of float64's"
        return failed(reason, WRONG, details=details)
    return passed(details=details)
