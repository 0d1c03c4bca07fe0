"""jax: what JAX computes, compiles, differentiates and shares among devices."""

from __future__ import annotations

import functools
import importlib
import importlib.metadata
import importlib.util
import math
import os
import pkgutil
import re
from typing import Any, Callable, Dict, List, Tuple

from envspec_check.capability import capability_of
from envspec_check.checks.frameworks import oracle
from envspec_check.checks.frameworks.kit import APART, WRONG, Kit, judge, put_checks
from envspec_check.checks.frameworks.oracle import Params, farthest, numpy
from envspec_check.checks.frameworks.together import compare_footprints
from envspec_check.interface import MIB, Context, Outcome, Skip, check, failed, passed
from envspec_check.lock import is_direct

HOSTS = 4
"""The devices that a CPU is told to be, so that something can be shared."""


def plugins() -> Dict[str, str]:
    """Return the plugins for accelerators that JAX would load, each with the distribution that brings it: entry points,
    and the modules of a package without a file (discover_pjrt_plugins of jax/_src/xla_bridge.py)."""
    spec = importlib.util.find_spec("jax_plugins")
    folders = list(spec.submodule_search_locations or []) if spec else []
    by_name = {module.name: "jax_plugins" for module in pkgutil.iter_modules(folders)}
    for dist in importlib.metadata.distributions():
        for entry in dist.entry_points:
            if entry.group == "jax_plugins":
                by_name[entry.name] = f"{dist.metadata['Name']} {dist.version}"
    return by_name


def settle(ctx: Context, exact: bool = False, hosts: int = 1) -> Any:
    """Import JAX for the device of the checks, and for no other that it may fall back to."""
    gpu = on_gpu(ctx)
    os.environ["JAX_PLATFORMS"] = "cuda" if gpu else "cpu"
    os.environ["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # what is proved is this compiler, and not what another made
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other checks use the GPU too
    flags = [os.environ.get("XLA_FLAGS", "")]
    flags += ["--xla_gpu_deterministic_ops=true"] if gpu and exact else []
    flags += [f"--xla_force_host_platform_device_count={hosts}"] if hosts > 1 and not gpu else []
    os.environ["XLA_FLAGS"] = " ".join(filter(None, flags))
    return importlib.import_module("jax")


def on_gpu(ctx: Context) -> bool:
    """Return whether the checks of JAX run on the GPU: where only another framework has CUDA they run on the CPU."""
    return ctx.device == "cuda" and bool(plugins())


class JaxKit(Kit):
    name = "jax"

    def __init__(self, ctx: Context, exact: bool = False) -> None:
        self.jax = settle(ctx, exact)
        self.jnp = importlib.import_module("jax.numpy")
        # On GPUs its products of float32 are TF32's unless it is told otherwise.
        self.jax.config.update("jax_default_matmul_precision", "highest")
        self.operators = {
            "matmul": self.jnp.matmul,
            "convolution": self.convolution,
            "attention": self.attention,
            "norm": self.norm,
            "lookup": self.lookup,
        }

    def put(self, array: Any, precision: str) -> Any:
        kinds = {"fp32": self.jnp.float32, "bf16": self.jnp.bfloat16, "fp16": self.jnp.float16}
        return self.jnp.asarray(array, kinds[precision])

    def back(self, array: Any) -> Any:
        return numpy().asarray(array).astype("float64")

    def pull(self, function: Callable[..., Any], inputs: List[Any], weights: Any) -> Tuple[Any, List[Any]]:
        @self.jax.jit
        def both(*given: Any) -> Any:
            result, pull = self.jax.vjp(function, *given)
            return result, pull(weights)

        result, gradients = both(*inputs)
        return result, list(gradients)

    def convolution(self, images: Any, kernel: Any) -> Any:
        kinds = "NHWC", "HWIO", "NHWC"
        return self.jax.lax.conv_general_dilated(images, kernel, (2, 2), "VALID", dimension_numbers=kinds)

    def attention(self, query: Any, key: Any, value: Any) -> Any:
        """With sums in float32, as its own dot_product_attention has them, which older releases lack."""
        wide = self.jnp.einsum("bhqd,bhkd->bhqk", query, key, preferred_element_type=self.jnp.float32)
        size = query.shape[-2]
        seen = self.jnp.tril(self.jnp.ones((size, size), bool))
        shares = self.jax.nn.softmax(self.jnp.where(seen, wide / math.sqrt(query.shape[-1]), -self.jnp.inf))
        return self.jnp.einsum("bhqk,bhkd->bhqd", shares.astype(value.dtype), value)

    def norm(self, rows: Any, scale: Any) -> Any:
        wide = rows.astype(self.jnp.float32)
        centred = wide - wide.mean(-1, keepdims=True)
        shares = centred * self.jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return self.jnp.tanh(shares * scale.astype(self.jnp.float32)).astype(rows.dtype)

    def lookup(self, table: Any) -> Any:
        return self.jnp.take(table, oracle.rows_of(len(table)), axis=0) * 0.5

    def loss(self, params: Params, rows: Any, labels: Any, key: Any = None) -> Any:
        held = self.jnp.tanh(rows @ params["w1"] + params["b1"])
        if key is not None:
            held = held * self.jax.random.bernoulli(key, 0.9, held.shape) / 0.9
        logits = (held @ params["w2"] + params["b2"]).astype(self.jnp.float32)
        own = self.jnp.take_along_axis(self.jax.nn.log_softmax(logits), labels[:, None], axis=1)
        return -own.mean()

    def gradients(self, params: Params, rows: Any, labels: Any) -> Tuple[float, Params]:
        loss, gradients = self.jax.value_and_grad(self.loss)(params, rows, labels)
        return float(loss), {name: self.back(gradient) for name, gradient in gradients.items()}

    def training(self, seed: int, precision: str, dropout: bool = False) -> Any:
        return JaxTraining(self, seed, precision, dropout)


class JaxTraining:
    """SGD with momentum, one compiled step whose weights take the place of those before."""

    def __init__(self, kit: JaxKit, seed: int, precision: str, dropout: bool) -> None:
        jax, jnp = kit.jax, kit.jnp
        self.kit, self.dropout = kit, dropout
        params = {name: kit.put(weights, "fp32") for name, weights in oracle.first_params(seed).items()}
        speed = jax.tree_util.tree_map(jnp.zeros_like, params)
        self.state = {"params": params, "speed": speed, "key": jax.random.PRNGKey(seed)}
        self.apply = jax.jit(functools.partial(self.next, precision=precision), donate_argnums=0)

    def next(self, state: Any, rows: Any, labels: Any, precision: str) -> Any:
        jax, tree = self.kit.jax, self.kit.jax.tree_util
        key, own = jax.random.split(state["key"])

        def loss_of(params: Params) -> Any:
            short = [tree.tree_map(lambda leaf: self.kit.put(leaf, precision), values) for values in (params, rows)]
            return self.kit.loss(*short, labels, own if self.dropout else None)

        loss, gradients = jax.value_and_grad(loss_of)(state["params"])
        speed = tree.tree_map(
            lambda velocity, gradient: oracle.MOMENTUM * velocity + gradient, state["speed"], gradients
        )
        params = tree.tree_map(lambda weight, velocity: weight - oracle.RATE * velocity, state["params"], speed)
        return {"params": params, "speed": speed, "key": key}, loss

    def step(self, rows: Any, labels: Any) -> float:
        self.state, loss = self.apply(self.state, rows, labels)
        return float(loss)

    def params(self) -> Params:
        return {name: self.kit.back(weights) for name, weights in self.state["params"].items()}

    def leaves(self) -> Dict[str, Any]:
        parts = ("params", "speed")
        leaves = {f"{part}.{name}": leaf for part in parts for name, leaf in self.state[part].items()}
        return {**leaves, "key": self.state["key"]}

    def save(self, path: Any) -> None:
        leaves, _ = self.kit.jax.tree_util.tree_flatten(self.state)
        with open(path, "wb") as file:
            numpy().savez(file, *leaves)

    def load(self, path: Any) -> None:
        _, form = self.kit.jax.tree_util.tree_flatten(self.state)
        with numpy().load(path) as held:
            leaves = [self.kit.jnp.asarray(held[f"arr_{at}"]) for at in range(len(held.files))]
        self.state = self.kit.jax.tree_util.tree_unflatten(form, leaves)


@check("jax.build", torch=False)
def jax_build(ctx: Context) -> Outcome:
    """JAX can be imported, and brings a backend for the target's CUDA and for no other vendor's GPUs."""
    loadable, cuda = plugins(), ctx.target.get("cuda")
    os.environ["JAX_PLATFORMS"] = "cpu"
    jax, jaxlib = importlib.import_module("jax"), importlib.import_module("jaxlib")
    details = {"jax": jax.__version__, "jaxlib": jaxlib.__version__, "plugins": loadable}
    if not cuda:
        return passed(details=details)
    major, name = cuda.partition(".")[0], f"jax {jax.__version__}"
    own = [key for key in loadable if re.fullmatch(f"(?:xla_)?cuda{major}", key)]
    if own:
        return passed(details=details)
    remedy = f'write "jax[cuda{major}]" in the spec, and lock again'
    if loadable:
        reason = f"{name} has a plugin for {', '.join(sorted(loadable))}, and none for the target's CUDA {cuda}"
        return failed(reason, remedy, details=details)
    reason = f"{name} has no CUDA plugin, and the target is for CUDA {cuda}: it computes on the CPU"
    if is_direct(ctx.lock, "jax"):
        return failed(reason, remedy, details=details)
    return passed(reason=reason, details=details)  # another package brought it, which asks for no GPU


@check("jax.devices", needs="gpu", torch=False)
def jax_devices(ctx: Context) -> Outcome:
    """JAX takes the GPUs by itself, all of them, and they are the target's."""
    if not plugins():
        raise Skip("jax has no CUDA plugin")
    platforms = os.environ.get("JAX_PLATFORMS")
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    jax = importlib.import_module("jax")
    devices = jax.devices()
    kinds = sorted({device.platform for device in devices})
    capabilities = [str(getattr(device, "compute_capability", "")) for device in devices]
    details = {
        "devices": [str(device.device_kind) for device in devices],
        "platforms": kinds,
        "capabilities": capabilities,
    }
    if jax.default_backend() != "gpu" or kinds != ["gpu"]:
        reason = f"JAX computes on {' and '.join(kinds)}, and {ctx.gpus} GPUs are there"
        reason += f" (JAX_PLATFORMS={platforms})" if platforms else ""
        remedy = (
            "unset JAX_PLATFORMS" if platforms else "what JAX prints at its start says why it leaves the plugin out"
        )
        return failed(reason, remedy, details=details)
    if len(devices) != ctx.gpus:
        return failed(f"JAX sees {len(devices)} GPUs of {ctx.gpus}", "compare with nvidia-smi -L", details=details)
    expected = ["%d.%d" % capability_of(architecture) for architecture in ctx.target.get("architectures", [])]
    if expected and not set(capabilities) <= set(expected):
        reason = f"JAX's GPUs are of {', '.join(sorted(set(capabilities)))}: the target is for {', '.join(expected)}"
        return failed(reason, "use the target for this GPU, or lock one", details=details)
    total = jax.numpy.arange(1000).sum()
    where = {device.platform for device in total.devices()}
    if where != {"gpu"} or int(total) != 499500:
        return failed(f"a sum on the GPU is {total}, on {', '.join(where)}", WRONG, details=details)
    return passed(details=details)


put_checks("jax", JaxKit)


def recurrence(jax: Any, jnp: Any, rows: Any, weights: Any, turns: int) -> Any:
    """Control flow of each kind: a scan, a loop whose end the values decide, a choice; over a batch by vmap."""

    def compute_row(row: Any) -> Any:
        state, _ = jax.lax.scan(lambda held, _: (jnp.tanh(held @ weights), held.sum()), row, None, length=turns)
        grown = jax.lax.while_loop(lambda held: held.sum() ** 2 < 1.0, lambda held: held * 2.0, state + 1e-3)
        return jax.lax.cond(row[0] > 0, lambda held: held, lambda held: -held, grown)

    return jax.vmap(compute_row)(rows)


def recurrence_exactly(rows: Any, weights: Any, turns: int) -> Any:
    np, results = numpy(), []
    for row in rows:
        held = row
        for _ in range(turns):
            held = np.tanh(held @ weights)
        held = held + 1e-3
        while held.sum() ** 2 < 1.0:
            held = held * 2.0
        results.append(held if row[0] > 0 else -held)
    return np.stack(results)


@check("jax.jit", torch=False)
def jax_jit(ctx: Context) -> Outcome:
    """Compiled functions agree with plain ones and float64, and are traced once for a shape, again for another."""
    kit, np = JaxKit(ctx), numpy()
    jax, jnp, made = kit.jax, kit.jnp, np.random.RandomState(ctx.seed)
    traced: List[Tuple[int, ...]] = []

    def function(rows: Any, weights: Any) -> Any:
        traced.append(rows.shape)
        return recurrence(jax, jnp, rows, weights, 5)

    compiled, errors = jax.jit(function), {}
    weights = made.standard_normal((32, 32)) / 5.0
    for at, count in enumerate((16, 16, 300)):
        rows = made.standard_normal((count, 32))
        given = kit.put(rows, "fp32"), kit.put(weights, "fp32")
        right = recurrence_exactly(kit.back(given[0]), kit.back(given[1]), 5)
        errors[f"compiled {at}"] = farthest(kit.back(compiled(*given)), right)
    if traced != [(16, 32), (300, 32)]:
        reason = f"a function is traced {len(traced)} times for 3 calls of 2 shapes"
        remedy = "unset JAX_DISABLE_JIT" if os.environ.get("JAX_DISABLE_JIT") else WRONG
        return failed(f"{reason}: jit doesn't keep what it compiled", remedy, details={"traced": traced})
    with jax.disable_jit():
        errors["plain"] = farthest(kit.back(function(given[0][:4], given[1])), right[:4])
    ahead = jax.jit(function).lower(*given).compile()
    errors["ahead of time"] = farthest(kit.back(ahead(*given)), right)
    return judge(errors, APART["fp32"], "by jit")


def mesh_of(jax: Any) -> Tuple[Any, Callable[..., Any], Any]:
    """Return all devices as a mesh of one axis, how rows lie on it, and what runs a function on each of them."""
    sharding = importlib.import_module("jax.sharding")
    mesh = sharding.Mesh(numpy().array(jax.devices()), ("data",))
    each = getattr(jax, "shard_map", None)  # from 0.6.1 on; before it's experimental
    each = each or importlib.import_module("jax.experimental.shard_map").shard_map

    def lying(*axes: Any) -> Any:
        return sharding.NamedSharding(mesh, sharding.PartitionSpec(*axes))

    rows, whole = sharding.PartitionSpec("data"), sharding.PartitionSpec()
    return (
        mesh,
        lying,
        lambda function, out: each(function, mesh=mesh, in_specs=rows, out_specs=whole if out == "whole" else rows),
    )


@check("jax.sharding", torch=False)
def jax_sharding(ctx: Context) -> Outcome:
    """Arrays on all devices are computed there, and agree with one device and float64; collectives are exact."""
    settle(ctx, hosts=HOSTS)
    kit, np = JaxKit(ctx), numpy()
    jax, jnp, count = kit.jax, kit.jnp, len(kit.jax.devices())
    details: Dict[str, Any] = {"devices": count, "platform": jax.default_backend()}
    if count < 2:
        raise Skip("there is one GPU: nothing can be shared among devices", details=details)
    _, lying, on_each = mesh_of(jax)
    numbers = jnp.arange(count * 6, dtype=jnp.int32).reshape(count * 2, 3)
    held = jax.device_put(numbers, lying("data"))
    right = np.asarray(numbers).reshape(count, 2, 3)
    ring = [(at, (at + 1) % count) for at in range(count)]
    collectives = {
        "psum": (lambda values: jax.lax.psum(values, "data"), "whole", right.sum(0)),
        "psum_scatter": (lambda values: jax.lax.psum_scatter(values[0:1].repeat(count, 0), "data"), "rows", None),
        "ppermute": (
            lambda values: jax.lax.ppermute(values, "data", ring),
            "rows",
            np.roll(right, 1, 0).reshape(-1, 3),
        ),
        "all_gather": (
            lambda values: jax.lax.all_gather(values, "data").sum(0),
            "rows",
            np.tile(right.sum(0), (count, 1)),
        ),
    }
    for name, (function, out, exact) in collectives.items():
        result = np.asarray(jax.jit(on_each(function, out))(held))
        exact = np.tile(right[:, 0].sum(0), (count,)).reshape(result.shape) if exact is None else exact
        if result.shape != exact.shape or not (result == exact).all():
            return failed(f"{name} among {count} devices gives {result.ravel()[:8].tolist()}", WRONG, details=details)
    params, (rows, labels) = oracle.first_params(ctx.seed), oracle.batch_of(ctx.seed, 0)
    rows, labels = np.tile(rows, (count, 1)), np.tile(labels, count)
    _, exact_gradients = oracle.loss_and_gradients(oracle.wide(params), rows.astype("float64"), labels)
    spread = {
        "the batch": (jax.device_put(params, lying()), jax.device_put((rows, labels), lying("data"))),
        "the layers": (split_layers(jax, params, lying), jax.device_put((rows, labels), lying())),
    }
    details["errors"] = errors = {}
    for what, (weights, batch) in spread.items():
        gradients = jax.jit(jax.grad(kit.loss))(weights, *batch)
        errors[what] = max(farthest(kit.back(gradient), exact_gradients[name]) for name, gradient in gradients.items())
        lies = {len(gradient.sharding.device_set) for gradient in gradients.values()}
        if lies != {count}:
            return failed(f"with {what} on {count} devices, gradients lie on {sorted(lies)}", WRONG, details=details)
        if not errors[what] <= APART["fp32"]:
            reason = f"with {what} on {count} devices, gradients are off by {errors[what]:.2g} of float64's"
            return failed(reason, WRONG, details=details)
    return passed(details=details)


def split_layers(jax: Any, params: Params, lying: Callable[..., Any]) -> Params:
    """Return the weights with the width of the network shared among the devices."""
    axes = {"w1": (None, "data"), "b1": ("data",), "w2": ("data", None), "b2": ()}
    return {name: jax.device_put(weights, lying(*axes[name])) for name, weights in params.items()}


@check("jax.memory", needs="gpu", torch=False)
def jax_memory(ctx: Context) -> Outcome:
    """JAX takes no more of a GPU than it needs where it is told to, and gives back what it held."""
    if not plugins():
        raise Skip("jax has no CUDA plugin")
    details, figures = compare_footprints(ctx, "jax")
    jax = settle(ctx)
    device = jax.devices()[0]
    counts = [device.memory_stats()["bytes_in_use"]]
    held = jax.numpy.ones((256, MIB // 4), "float32").block_until_ready()
    counts.append(device.memory_stats()["bytes_in_use"])
    del held
    counts.append(device.memory_stats()["bytes_in_use"])
    details["in_use_bytes"] = counts
    if not counts[1] - counts[0] >= 256 * MIB or not counts[2] - counts[0] < 16 * MIB:
        return failed("JAX doesn't give back the memory of an array that is gone", WRONG, details=details)
    return passed(details=details, figures=figures)
