"""Public functions and classes of torch that do another thing than they say, and whether the check that should says so:
run by the Python of an environment with torch.

    PREFIX/bin/python tests/mutants/behaviour.py CHECK_FOLDER OUT.json

Each mutant of behaviour.toml runs in a fork. The results have what its check said, and what all of these checks say
where nothing is wrong.
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


def instead(owner: Any, name: str) -> Callable[[Any], None]:
    """Put what is decorated in the place of an attribute, which it gets as its first argument."""

    def put(wrong: Any) -> None:
        right: Any = getattr(owner, name)

        def called(*words: Any, **options: Any) -> Any:
            return wrong(right, *words, **options)

        setattr(owner, name, called)

    return put


def told(ctx: Context, check: str, code: str) -> bool:
    """Whether a check fails in a torch that was changed by this code."""
    names: dict[str, Any] = {"instead": instead, "os": os, "importlib": importlib}
    for name, module in (("torch", ""), ("nn", ".nn"), ("F", ".nn.functional"), ("optim", ".optim"),
                         ("schedules", ".optim.lr_scheduler"), ("data", ".utils.data")):  # fmt: skip
        names[name] = importlib.import_module("torch" + module)
    exec(code, names)
    return failed(CHECKS[check].run, ctx)


def main(check: str, out: str) -> None:
    for name in ("torch.distributed", "torch._dynamo", "sympy"):
        importlib.import_module(name)  # torch imports them late, and each fork would do so anew
    mutants = tomllib.loads(MUTANTS.read_text(encoding="utf-8"))["mutant"]
    sound = [{"check": name, "code": ""} for name in sorted({one["check"] for one in mutants})]
    results: list[dict[str, Any]] = []
    for mutant in (*mutants, *sound):
        scratch = Path(out).parent / f"scratch-{len(results)}"
        scratch.mkdir()
        ctx = Context({}, "cpu", "basic", 20, True, 0, 60.0, scratch, check)
        found = in_fork(functools.partial(told, ctx, mutant["check"], mutant["code"]))
        results.append({**mutant, "told": found})
    Path(out).write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
