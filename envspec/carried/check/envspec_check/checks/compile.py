"""compile: torch.compile beside eager."""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
import traceback
from typing import Any

from envspec_check.checks.operators import TOLERANCES, farthest
from envspec_check.interface import Context, Outcome, Skip, check, failed, passed, skipped
from envspec_check.trainer import exact_fp32


def lacking_to_compile(text: str) -> Outcome | None:
    """What an error of torch.compile says of the tools and packages that it needs, if that is what it says."""
    old = re.search(r"Found (.+) which is too old to be supported by the triton.* capability (\d+\.\d+)", text)
    if old:
        reason = f"torch.compile can't work on a GPU as old as {old.group(1)} ({old.group(2)}): Triton needs 7.0"
        return skipped(reason, remedy="train without torch.compile on it")
    package = re.search(r"ModuleNotFoundError: No module named '([A-Za-z0-9_]+)'", text)
    if package:
        # torch 2.9 on a CPU imports setuptools, which it asks for from Python 3.12 on only
        reason = f"torch.compile imports {package.group(1)}, which isn't installed"
        return failed(reason, f"add {package.group(1)} to the spec's [pip] dependencies, and lock again")
    if "Python.h" in text:
        return failed("torch.compile needs Python's headers: Python.h is missing", "install them (Debian: python3-dev)")
    found = [word for word in (os.environ.get("CXX"), os.environ.get("CC"), "g++", "gcc", "clang") if word]
    missing = not any(shutil.which(word.split()[0]) for word in found)
    says = re.search(
        r"No working C\+\+ compiler|InvalidCxxCompiler|Failed to find C compiler|No such file.*(gcc|g\+\+)", text
    )
    if missing or says:
        remedy = "install one (Debian: apt install g++; conda: gxx_linux-64), or name it in CC and CXX"
        return failed("torch.compile needs a C and C++ compiler, and there is none", remedy)
    return None


@check("compile.eager")
def compile_eager(ctx: Context) -> Outcome:
    """torch.compile gives what eager gives, forwards and backwards."""
    torch, functional = ctx.torch, ctx.torch.nn.functional
    exact_fp32(torch)
    torch.manual_seed(ctx.seed)

    def function(x: Any, first: Any, second: Any) -> Any:
        hidden = functional.gelu(functional.layer_norm(x, (x.shape[-1],)) @ first)
        return (functional.softmax(hidden @ second, -1) * x).sum()

    inputs = [torch.randn(*shape, device=ctx.device) for shape in ((32, 64), (64, 96), (96, 64))]
    results = {}
    for how in ("eager", "compiled"):
        own = [one.clone().requires_grad_() for one in inputs]
        began = time.monotonic()
        try:
            value = (torch.compile(function) if how == "compiled" else function)(*own)
            value.backward()
        except Exception as error:
            traceback.print_exc()
            text = f"{type(error).__name__}: {error}"
            if re.search(r"not (yet )?supported (on|for) .*(Python|torch.compile)|Python 3\.\d+\+? not", text):
                raise Skip(f"torch {torch.__version__} can't compile on Python {platform.python_version()}") from None
            named = lacking_to_compile(text + traceback.format_exc())
            if named is None:
                raise
            return named
        ctx.synchronize()
        results[how] = [value, *(one.grad for one in own)], time.monotonic() - began
    errors = [
        farthest(torch, one, exact.detach().to("cpu", torch.float64))
        for one, exact in zip(results["compiled"][0], results["eager"][0])
    ]
    limit = 10 * TOLERANCES["fp32"]
    details = {"errors": errors, "tolerance": limit}
    figures = [("compile.first_s", results["compiled"][1], "s")]
    if not max(errors) <= limit:
        reason = f"compiled and eager differ by {max(errors):.2g} of the largest value; {limit:.2g} is allowed"
        return failed(
            reason, "train without torch.compile until this torch is replaced", details=details, figures=figures
        )
    return passed(details=details, figures=figures)
