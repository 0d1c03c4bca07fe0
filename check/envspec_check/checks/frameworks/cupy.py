"""cupy: what CuPy computes, compiles, holds and orders on a GPU. It has no build for CPUs."""

from __future__ import annotations

import functools
import importlib
import math
import os
from typing import Any, Callable, Dict, Tuple

from envspec_check.capability import capability_of
from envspec_check.checks.frameworks import oracle
from envspec_check.checks.frameworks.kit import WRONG, judge
from envspec_check.checks.frameworks.oracle import OPERATORS, TOLERANCES, farthest, numpy
from envspec_check.interface import MIB, Context, Outcome, check, failed, passed

LIMITS = {"float64": 1e-12, "float32": TOLERANCES["fp32"], "float16": TOLERANCES["fp16"]}


def cupy_check(name: str) -> Callable[[Callable[[Context, Any], Outcome]], Callable[[Context, Any], Outcome]]:
    """Put a check of CuPy into the table; it gets the module, whose compiled kernels go to the scratch folder."""

    def put(function: Callable[[Context, Any], Outcome]) -> Callable[[Context, Any], Outcome]:
        def run(ctx: Context) -> Outcome:
            os.environ["CUPY_CACHE_DIR"] = str(ctx.scratch / "kernels")
            return function(ctx, importlib.import_module("cupy"))

        check(f"cupy.{name}", needs="gpu", torch=False)(run)
        return function

    return put


@cupy_check("devices")
def cupy_devices(ctx: Context, cupy: Any) -> Outcome:
    """CuPy sees all GPUs, they are the target's, and its CUDA is the target's."""
    runtime = cupy.cuda.runtime
    count, version = runtime.getDeviceCount(), runtime.runtimeGetVersion()
    capabilities = [cupy.cuda.Device(at).compute_capability for at in range(count)]
    details = {"cupy": cupy.__version__, "runtime": version, "driver": runtime.driverGetVersion()}
    details.update(gpus=count, capabilities=capabilities)
    if count != ctx.gpus:
        return failed(f"CuPy sees {count} GPUs of {ctx.gpus}", "compare with nvidia-smi -L", details=details)
    major = (ctx.target.get("cuda") or str(version // 1000)).partition(".")[0]
    if str(version // 1000) != major:
        remedy = f"lock cupy-cuda{major}x"
        return failed(f"CuPy is built for CUDA {version // 1000}, the target for {major}", remedy, details=details)
    expected = ["%d%d" % capability_of(architecture) for architecture in ctx.target.get("architectures", [])]
    if expected and not set(capabilities) <= set(expected):
        reason = f"CuPy's GPUs are of {', '.join(capabilities)}: the target is for {', '.join(expected)}"
        return failed(reason, "use the target for this GPU, or lock one", details=details)
    return passed(details=details)


def own_operators(cupy: Any) -> Dict[str, Callable[..., Any]]:
    def attention(query: Any, key: Any, value: Any) -> Any:
        scores = (query @ key.swapaxes(-1, -2)).astype(cupy.promote_types(query.dtype, "float32"))
        seen = cupy.tril(cupy.ones(scores.shape[-2:], bool))
        scores = cupy.where(seen, scores / math.sqrt(query.shape[-1]), -cupy.inf)
        shares = cupy.exp(scores - scores.max(-1, keepdims=True))
        return (shares / shares.sum(-1, keepdims=True)).astype(value.dtype) @ value

    def norm(rows: Any, scale: Any) -> Any:
        wide = rows.astype(cupy.promote_types(rows.dtype, "float32"))
        centred = wide - wide.mean(-1, keepdims=True)
        return cupy.tanh(centred / cupy.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * scale).astype(rows.dtype)

    def lookup(table: Any) -> Any:
        return table[cupy.asarray(oracle.rows_of(len(table)))] * table.dtype.type(0.5)

    return {"matmul": cupy.matmul, "attention": attention, "norm": norm, "lookup": lookup}


def cupy_operators(ctx: Context, cupy: Any, precision: str) -> Outcome:
    """Each operator's result, against NumPy's float64."""
    made, errors = numpy().random.RandomState(ctx.seed), {}
    for name, function in own_operators(cupy).items():
        case = OPERATORS[name]
        inputs = [made.standard_normal(shape) for shape in (case.quick if ctx.quick else case.shapes)]
        short = [cupy.asarray(array, precision) for array in inputs]
        exact = [cupy.asnumpy(array).astype("float64") for array in short]
        errors[name] = farthest(cupy.asnumpy(function(*short)), case.exact(*exact))
    return judge(errors, LIMITS[precision], f"in {precision}")


for _precision in LIMITS:
    cupy_check(f"operators.{_precision}")(functools.partial(cupy_operators, precision=_precision))


@cupy_check("libraries")
def cupy_libraries(ctx: Context, cupy: Any) -> Outcome:
    """cuSOLVER, cuFFT, cuRAND, cuSPARSE and Thrust are found and give what NumPy gives."""
    np, sparse = numpy(), importlib.import_module("cupyx.scipy.sparse")
    made = np.random.RandomState(ctx.seed)
    square, rows = made.standard_normal((300, 300)) + 30 * np.eye(300), made.standard_normal((300, 272))
    thin = np.where(np.abs(rows) > 1.5, rows, 0.0)
    matrix, more = cupy.asarray(square), cupy.asarray(rows)
    errors = {
        "solve": farthest(cupy.asnumpy(cupy.linalg.solve(matrix, more)), np.linalg.solve(square, rows)),
        "singular values": farthest(
            cupy.asnumpy(cupy.linalg.svd(more, compute_uv=False)), np.linalg.svd(rows, compute_uv=False)
        ),
        "fft": farthest(cupy.asnumpy(cupy.abs(cupy.fft.fft(more))), np.abs(np.fft.fft(rows))),
        "sort": farthest(cupy.asnumpy(cupy.sort(more, axis=0)), np.sort(rows, axis=0)),
        "cumsum": farthest(cupy.asnumpy(cupy.cumsum(more)), np.cumsum(rows)),
        "a sparse product": farthest(cupy.asnumpy(sparse.csr_matrix(cupy.asarray(thin)).T @ matrix), thin.T @ square),
    }
    drawn = cupy.random.RandomState(ctx.seed).standard_normal(100000)
    moments = float(drawn.mean()), float(drawn.std())
    if abs(moments[0]) > 0.02 or abs(moments[1] - 1) > 0.02:
        return failed("normal numbers have the mean %.3g and the deviation %.3g" % moments, WRONG)
    return judge(errors, 1e-9, "in float64")


TEMPLATE = """
template <typename T> __global__ void twice_and_one(const T* from, T* to, int count) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) to[at] = from[at] * T(2) + T(1);
}
"""

SUMS = """
extern "C" __global__ void sums(const int* from, unsigned long long* to, int count) {
    __shared__ unsigned long long held[128];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    held[threadIdx.x] = at < count ? from[at] : 0;
    __syncthreads();
    for (int half = 64; half; half /= 2) {
        if (threadIdx.x < half) held[threadIdx.x] += held[threadIdx.x + half];
        __syncthreads();
    }
    if (!threadIdx.x) atomicAdd(to, held[0]);
}
"""


@cupy_check("kernel")
def cupy_kernel(ctx: Context, cupy: Any) -> Outcome:
    """NVRTC compiles a kernel for this GPU: templates, shared memory, atomics; and CuPy's own kinds of kernels."""
    names = ["twice_and_one<float>", "twice_and_one<double>"]
    module = cupy.RawModule(code=TEMPLATE, options=("--std=c++17",), name_expressions=names)
    count, wrong = 100003, []
    for kind, name in (("float32", "float"), ("float64", "double")):
        values = cupy.arange(count, dtype=kind)
        result = cupy.zeros_like(values)
        module.get_function(f"twice_and_one<{name}>")((-(-count // 128),), (128,), (values, result, cupy.int32(count)))
        wrong += [] if bool((result == values * 2 + 1).all()) else [f"a template for {name}"]
    total, whole = cupy.zeros(1, cupy.uint64), cupy.arange(count, dtype=cupy.int32)
    cupy.RawKernel(SUMS, "sums")((-(-count // 128),), (128,), (whole, total, cupy.int32(count)))
    wrong += [] if int(total[0]) == count * (count - 1) // 2 else ["shared memory and atomics"]
    squares = cupy.ElementwiseKernel("int64 x", "int64 y", "y = x * x", "squares_of")(cupy.arange(1000))
    wrong += [] if int(squares.sum()) == 332833500 else ["ElementwiseKernel"]
    most = cupy.ReductionKernel("int64 x", "int64 y", "x", "max(a, b)", "y = a", "0", "most_of")(squares)
    wrong += [] if int(most) == 998001 else ["ReductionKernel"]

    def product_and_one(first: Any, second: Any) -> Any:
        return first * second + first

    fused = cupy.fuse(product_and_one)(cupy.arange(1000.0), cupy.arange(1000.0))
    wrong += [] if float(fused.sum()) == 333333000.0 else ["fuse"]
    if wrong:
        return failed(f"compiled kernels give wrong numbers: {', '.join(wrong)}", WRONG)
    return passed(details={"nvrtc": list(cupy.cuda.nvrtc.getVersion())})


def in_use(pool: Any) -> Tuple[int, int]:
    return pool.used_bytes(), pool.total_bytes()


@cupy_check("memory")
def cupy_memory(ctx: Context, cupy: Any) -> Outcome:
    """The pool keeps what is freed, uses it again, gives it back when it's told to, and keeps to its limit."""
    pool, size = cupy.get_default_memory_pool(), 256 * MIB
    counts = [in_use(pool)]
    held = cupy.ones(size, cupy.uint8)
    counts.append(in_use(pool))
    where = held.data.ptr
    del held
    counts.append(in_use(pool))
    again = cupy.ones(size, cupy.uint8)
    same = again.data.ptr == where
    del again
    pool.free_all_blocks()
    counts.append(in_use(pool))
    details = {"used_and_total": counts, "limit": pool.get_limit()}
    first, full, freed, empty = counts
    if full[0] - first[0] < size or freed[0] != first[0] or freed[1] < size or empty[1] - first[1] >= size or not same:
        return failed("CuPy's pool of memory doesn't keep and give back what it should", WRONG, details=details)
    pool.set_limit(size=size // 2)
    try:
        cupy.ones(size, cupy.uint8)
    except cupy.cuda.memory.OutOfMemoryError:
        return passed(details=details)
    return failed("CuPy's pool of memory gives more than its limit", WRONG, details=details)


@cupy_check("stream")
def cupy_stream(ctx: Context, cupy: Any) -> Outcome:
    """Work on two streams is ordered by an event, and copies to pinned memory come back whole."""
    np = numpy()
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    done = cupy.cuda.Event()
    with first:
        held = cupy.ones((1024, 1024), cupy.float64)
        for _ in range(20):
            held = held @ held / 1024.0
        held += cupy.arange(1024.0)
        done.record(first)
    second.wait_event(done)
    with second:
        doubled = held * 2.0
        memory = cupy.cuda.alloc_pinned_memory(doubled.nbytes)
        home = np.frombuffer(memory, np.float64, doubled.size).reshape(doubled.shape)
        doubled.get(stream=second, out=home)
    second.synchronize()
    right = np.broadcast_to(2.0 * (1.0 + np.arange(1024.0)), (1024, 1024))
    error = farthest(home, right)
    if not error <= 1e-12:
        return failed(f"what two streams computed together is off by {error:.2g} of NumPy's", WRONG)
    return passed(details={"error": error})
