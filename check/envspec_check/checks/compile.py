"""compile: torch.compile beside eager."""

from __future__ import annotations

import importlib
import os
import platform
import re
import shutil
import time
import traceback
from typing import Any, Callable, List, Optional, Sequence, Tuple

from envspec_check.checks.by_hand import attention_of
from envspec_check.checks.operators import TOLERANCES, farthest
from envspec_check.interface import Context, Outcome, Skip, check, failed, passed, skipped
from envspec_check.trainer import exact_fp32, exactly


def lacking_to_compile(text: str) -> Outcome | None:
    """Name the tool or package that an error of torch.compile misses; None for another error."""
    old = re.search(r"Found (.+) which is too old to be supported by the triton.* capability (\d+\.\d+)", text)
    if old:
        reason = f"torch.compile can't work on a GPU as old as {old.group(1)} ({old.group(2)}): Triton needs 7.0"
        return skipped(reason, remedy="train without torch.compile on it")
    package = re.search(r"ModuleNotFoundError: No module named '([A-Za-z0-9_]+)'", text)
    if package:
        # torch 2.9 on a CPU imports setuptools, which it asks for from Python 3.12 on only
        reason = f"torch.compile imports {package.group(1)}, which isn't installed"
        return failed(reason, f"add {package.group(1)} to the spec's [pip] dependencies, and lock again")
    if re.search(r"libcuda\.so(\.1)? (cannot|can't|can not) (be )?found|cannot find -lcuda", text):
        remedy = "set TRITON_LIBCUDA_PATH to the folder of libcuda.so.1 (under apptainer's --nv: /.singularity.d/libs)"
        return failed("Triton finds no libcuda.so: ldconfig doesn't know where it is", remedy)
    if "Python.h" in text:
        return failed("torch.compile needs Python's headers: Python.h is missing", "install them (Debian: python3-dev)")
    compilers = [word for word in (os.environ.get("CXX"), os.environ.get("CC"), "g++", "gcc", "clang") if word]
    missing = not any(shutil.which(word.split()[0]) for word in compilers)
    says = re.search(
        r"No working C\+\+ compiler|InvalidCxxCompiler|Failed to find C compiler|No such file.*(gcc|g\+\+)", text
    )
    if missing or says:
        remedy = "install one (Debian: apt install g++; conda: gxx_linux-64), or name it in CC and CXX"
        return failed("torch.compile needs a C and C++ compiler, and there is none", remedy)
    return None


def counts(torch: Any) -> Tuple[int, Optional[int]]:
    """Count the graphs that this process captured so far, and inductor's kernels of them; None where this torch doesn't
    count those."""
    graphs = int(importlib.import_module("torch._dynamo.utils").counters["stats"]["unique_graphs"])
    metrics = importlib.import_module("torch._inductor.metrics")
    kernels = getattr(metrics, "generated_kernel_count", None)
    return graphs, None if kernels is None else int(kernels)


def eager_outcome(torch: Any) -> Outcome | None:
    """Give the outcome where torch.compile compiled nothing: eager agrees with itself."""
    graphs, kernels = counts(torch)
    if graphs and kernels != 0:
        return None
    reason = "torch.compile compiled nothing: it %s" % (
        "captured no graph" if not graphs else "made no kernel of the graphs that it captured"
    )
    off = [name for name in ("TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE", "PYTORCH_JIT") if os.environ.get(name)]
    remedy = "unset %s" % ", ".join(off) if off else "look for what replaces or patches torch.compile"
    return failed(reason, remedy, details={"graphs": graphs, "kernels": kernels})


def feed_forward(torch: Any) -> Callable[[Any, Any, Any], Any]:
    """Two products of matrices with a normalisation, a GELU and a softmax between them."""
    functional = torch.nn.functional

    def function(x: Any, first: Any, second: Any) -> Any:
        hidden = functional.gelu(functional.layer_norm(x, (x.shape[-1],)) @ first)
        return (functional.softmax(hidden @ second, -1) * x).sum()

    return function


def cross_attention(torch: Any) -> Callable[[Any, Any, Any], Any]:
    """Attention of images to texts: rows of one kind ask rows of another, four heads of sixteen."""
    functional = torch.nn.functional

    def function(x: Any, first: Any, second: Any) -> Any:
        texts = functional.layer_norm(x.roll(1, 0), (x.shape[-1],)) @ first @ second
        query, key = (rows.unflatten(-1, (4, 16)).transpose(0, 1)[None] for rows in (x, texts))
        attended = functional.scaled_dot_product_attention(query, key, key)[0].transpose(0, 1).flatten(1)
        return (attended * x).sum()

    return function


def compiled_alike(
    ctx: Context, sizes: Sequence[int], made: Callable[[Any], Callable[..., Any]] = feed_forward, **options: Any
) -> Outcome:
    """A function compiled with these options gives what eager gives, both ways, for so many rows at a time."""
    torch, function = ctx.torch, made(ctx.torch)
    exact_fp32(torch)
    torch.manual_seed(ctx.seed)
    # Else what can't be compiled is called as it is, and compared with itself.
    importlib.import_module("torch._dynamo").config.suppress_errors = False

    weights = [torch.randn(*shape, device=ctx.device) for shape in ((64, 96), (96, 64))]
    compiled, errors, began = None, [], time.monotonic()
    seconds = 0.0
    for size in sizes:
        results: List[List[Any]] = []
        inputs = [torch.randn(size, 64, device=ctx.device), *weights]
        for how in ("eager", "compiled"):
            own = [tensor.clone().requires_grad_() for tensor in inputs]
            try:
                if how == "compiled" and compiled is None:
                    compiled = torch.compile(function, **options)
                value = (compiled if how == "compiled" else function)(*own)
                value.backward()
            except Exception as error:
                traceback.print_exc()
                text = f"{type(error).__name__}: {error}"
                if re.search(r"not (yet )?supported (on|for) .*(Python|torch.compile)|Python 3\.\d+\+? not", text):
                    reason = f"torch {torch.__version__} can't compile on Python {platform.python_version()}"
                    raise Skip(reason) from None
                named = lacking_to_compile(text + traceback.format_exc())
                if named is None:
                    raise
                return named
            ctx.synchronize()
            results.append([exactly(value), *(exactly(tensor.grad) for tensor in own)])
        seconds = seconds or time.monotonic() - began
        errors += [farthest(torch, result, right) for result, right in zip(results[1], results[0])]
    limit = 10 * TOLERANCES["fp32"]
    graphs, kernels = counts(torch)
    details = {"errors": errors, "tolerance": limit, "graphs": graphs, "kernels": kernels}
    figures = [("compile.first_s", seconds, "s")]
    nothing = eager_outcome(torch)
    if nothing:
        return nothing
    if not max(errors) <= limit:
        reason = f"compiled and eager differ by {max(errors):.2g} of the largest value; {limit:.2g} is allowed"
        remedy = "train without torch.compile until this torch is replaced"
        return failed(reason, remedy, details=details, figures=figures)
    return passed(details=details, figures=figures)


@check("compile.eager")
def compile_eager(ctx: Context) -> Outcome:
    """torch.compile compiles, and gives what eager gives, forwards and backwards."""
    return compiled_alike(ctx, (32,))


@check("compile.dynamic")
def compile_dynamic(ctx: Context) -> Outcome:
    """One graph serves batches of unlike sizes."""
    if ctx.quick:
        return skipped("a second graph is compiled without --quick")
    outcome = compiled_alike(ctx, (24, 40, 33), dynamic=True)
    if outcome.status == "pass" and outcome.details["graphs"] > 1:
        reason = "torch.compile(dynamic=True) made %d graphs for 3 sizes, not one" % outcome.details["graphs"]
        return failed(reason, "expect a compilation for each size in training", details=outcome.details)
    return outcome._replace(figures=())


@check("compile.flex_attention")
def compile_flex_attention(ctx: Context) -> Outcome:
    """flex_attention scores as its score_mod says."""
    if ctx.quick:
        return skipped("torch.compile's parts are imported without --quick")
    try:
        flex = importlib.import_module("torch.nn.attention.flex_attention")
    except ImportError:
        return skipped(f"torch {ctx.torch.__version__} has no flex_attention")
    torch, drawn = ctx.torch, ctx.torch.Generator().manual_seed(ctx.seed)
    query, key, value = (torch.randn(1, 2, 128, 16, generator=drawn) for _ in range(3))
    at = torch.arange(128)
    right = attention_of(torch, query, key, value, 0.1 * (at[:, None] - at[None]), 0.25)
    with torch.no_grad():
        result = flex.flex_attention(
            *(tensor.to(ctx.device) for tensor in (query, key, value)),
            score_mod=lambda score, b, h, q, k: score + 0.1 * (q - k),
        )
    off = farthest(torch, result, right)
    details = {"error": off, "tolerance": 10 * TOLERANCES["fp32"]}
    if not off <= details["tolerance"]:
        return failed(f"it is off by {off:.2g} of the largest value", "train without flex_attention", details=details)
    return passed(details=details)


@check("compile.cuda_graphs", needs="gpu")
def compile_cuda_graphs(ctx: Context) -> Outcome:
    """mode="reduce-overhead" replays CUDA graphs of cross-modal attention, and they compute what eager computes."""
    outcome = compiled_alike(ctx, (32, 32, 32, 32), cross_attention, mode="reduce-overhead")
    counters = importlib.import_module("torch._dynamo.utils").counters["inductor"]
    left_out = int(counters.get("cudagraph_skips", 0))
    if outcome.status == "pass" and left_out:
        reason = "reduce-overhead left out CUDA graphs %d times" % left_out
        return failed(reason, "TORCH_LOGS=cudagraphs says why", details=outcome.details)
    return outcome._replace(figures=())
