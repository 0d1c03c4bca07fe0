"""Public functions and classes of torch that do another thing than they say, and which check says so: run by the Python
of an environment with torch.

    PREFIX/bin/python tests/mutants/behaviour.py CHECK_FOLDER OUT.json [MUTANT...]

Each mutant of behaviour.toml runs in a fork, or those whose names are given; the checks that take seconds come last.
The first of the results is of a torch without a mutant.
"""

import functools
import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, sys.argv[1])
sys.path.insert(0, str(Path(__file__).parents[1]))

from envspec_check.interface import CHECKS, Context

from mutants.arithmetic import failed, in_fork

tomllib: Any = importlib.import_module("tomllib")  # the environment's Python is 3.11
MUTANTS = Path(__file__).with_name("behaviour.toml")
GROUPS = ("operators", "training", "dataloader")
LONG = ("training.reference", "training.ddp", "training.fp32", "training.bf16", "training.fp16")
"""Checks that take seconds."""


def instead(owner: Any, name: str) -> Callable[[Any], None]:
    """Put what is decorated in the place of an attribute, which it gets as its first argument."""

    def put(wrong: Any) -> None:
        right: Any = getattr(owner, name)

        def called(*words: Any, **options: Any) -> Any:
            return wrong(right, *words, **options)

        setattr(owner, name, called)

    return put


def told(ctx: Context, code: str) -> str | None:
    """The check that fails first, or None."""
    names: dict[str, Any] = {"instead": instead, "os": os}
    for name, module in (("torch", ""), ("nn", ".nn"), ("F", ".nn.functional"), ("optim", ".optim"),
                         ("schedules", ".optim.lr_scheduler"), ("data", ".utils.data")):  # fmt: skip
        names[name] = importlib.import_module("torch" + module)
    exec(code, names)
    able = [one for one in CHECKS.values() if one.group in GROUPS and not one.needs]
    return next((one.name for one in sorted(able, key=lambda one: one.name in LONG) if failed(one.run, ctx)), None)


def main(check: str, out: str, *wanted: str) -> None:
    for name in ("torch.distributed", "torch._dynamo", "sympy"):
        importlib.import_module(name)  # torch imports them late, and each fork would do so anew
    mutants = [{"broken": "nothing", "code": ""}, *tomllib.loads(MUTANTS.read_text(encoding="utf-8"))["mutant"]]
    results: dict[str, Any] = {}
    for mutant in mutants:
        name = ": ".join(filter(None, (mutant.get("drawn"), mutant["broken"])))
        if not wanted or name in wanted:
            scratch = Path(out).parent / f"scratch-{len(results)}"
            scratch.mkdir()
            ctx = Context({}, "cpu", "basic", 20, True, 0, 60.0, scratch, check)
            results[name] = in_fork(functools.partial(told, ctx, mutant["code"]))
    Path(out).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
