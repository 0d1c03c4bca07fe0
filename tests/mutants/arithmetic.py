"""Arithmetic that is wrong in one place, and which check says so: run by the Python of an environment with torch.

    PREFIX/bin/python tests/mutants/arithmetic.py CHECK_FOLDER OUT.json [--sample N | --again OUT.json] [--healthy N]
        [--device cuda] [--part I/N]

The mutants are generated. Every operator that a step of a workload dispatches is made wrong by 1 % ("result x 1.01"),
and by 1 % only where one of its tensors is longer than 256 ("wrong above 256"); every node of its graph hands on half
of its gradients ("gradient x 0.5"). float64 stays right, as a kernel of one type is wrong and not that of another.
Each mutant runs in a fork. On a GPU, which a forked process can use only if its parent didn't, nothing is made before
the forks; `--part` is every N-th mutant from the I-th on, so that several processes share them. One that changes no
number anywhere isn't a mutant, and is counted as `unchanged`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, sys.argv[1])

from envspec_check import checks, workloads  # noqa: F401 -- they fill the tables
from envspec_check.checks import reference
from envspec_check.interface import CHECKS, REFERENCE_ONLY, WORKLOADS, Context
from envspec_check.trainer import Trainer

torch: Any = importlib.import_module("torch")
TorchDispatchMode: Any = importlib.import_module("torch.utils._python_dispatch").TorchDispatchMode
pytree: Any = importlib.import_module("torch.utils._pytree")
tree_flatten, tree_map = pytree.tree_flatten, pytree.tree_map

KINDS = ("result x 1.01", "wrong above 256", "gradient x 0.5")
LONG = 256
UNDEFINED = ("empty", "new_empty", "empty_like", "empty_strided", "new_empty_strided")
"""Their results hold whatever was there: nothing is computed."""


class Mutant(NamedTuple):
    workload: str
    operator: str
    kind: str


def is_short(value: Any) -> bool:
    """Whether a value is a tensor whose numbers a mutant may change."""
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64


def computes(function: Any) -> bool:
    return not function.is_view and function.overloadpacket.__name__ not in UNDEFINED


class Trace(TorchDispatchMode):  # type: ignore[misc]
    """The operators that give numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        touched = [*tree_flatten(result)[0], *written(function, args, kwargs or {})]
        if computes(function) and any(map(is_short, touched)):
            self.found.add(str(function))
        return result


def written(function: Any, args: Any, kwargs: Any) -> list[Any]:
    """What an operator changes in place."""
    found = []
    for index, argument in enumerate(function._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[index] if index < len(args) else kwargs.get(argument.name)
            found += tree_flatten(value)[0]
    return found


class Wrong(TorchDispatchMode):  # type: ignore[misc]
    """One operator gives 1 % too much: always, or where one of its tensors is longer than LONG."""

    def __init__(self, mutant: Mutant) -> None:
        super().__init__()
        self.mutant, self.changed = mutant, False

    def scaled(self, value: Any) -> Any:
        if not is_short(value):
            return value
        more = value * 1.01
        self.changed = self.changed or bool((more != value).any())
        return more

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        if str(function) != self.mutant.operator:
            return result
        tensors = [one for one in tree_flatten((args, kwargs, result))[0] if isinstance(one, torch.Tensor)]
        if self.mutant.kind == KINDS[1] and max([0, *(size for one in tensors for size in one.shape)]) <= LONG:
            return result
        changes = written(function, args, kwargs)
        for value in changes:
            if is_short(value):
                value.copy_(self.scaled(value))
        return result if changes else tree_map(self.scaled, result)


def graph(root: Any) -> Iterator[Any]:
    """The nodes that gradients go through."""
    seen, todo = set(), [root]
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            todo += [one for one, _ in node.next_functions]


class Halved:
    """Nodes of one name hand on half of their gradients, where a float32 loss goes back."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant, self.changed = mutant, False
        self.names: set[str] = set()
        self.right = torch.Tensor.backward

    def halve(self, given: Any, _: Any) -> Any:
        self.changed = self.changed or any(bool((one != 0).any()) for one in given if one is not None)
        return tuple(None if one is None else one * 0.5 for one in given)

    def __enter__(self) -> Halved:
        def backward(loss: Any, *words: Any, **options: Any) -> Any:
            for node in graph(loss.grad_fn) if is_short(loss) else ():
                self.names.add(node.name())
                if node.name() == self.mutant.operator:
                    node.register_hook(self.halve)
            return self.right(loss, *words, **options)

        torch.Tensor.backward = backward
        return self

    def __exit__(self, *_: object) -> None:
        torch.Tensor.backward = self.right


@contextlib.contextmanager
def while_stepping(trainer: Any, mode: Any) -> Iterator[None]:
    """A mode of dispatch, on while the trainer in float32 makes a step, and off while models and data are made."""
    right = trainer.gradients, trainer.update

    def under(method: Any) -> Any:
        def called(self: Any, *words: Any) -> Any:
            with contextlib.nullcontext() if self.wide else mode:
                return method(self, *words)

        return called

    trainer.gradients, trainer.update = map(under, right)
    try:
        yield
    finally:
        trainer.gradients, trainer.update = right


def mutants_of(ctx: Context, workload: str) -> list[Mutant]:
    """All mutants of a workload's steps."""
    trace, nodes = Trace(), Halved(Mutant(workload, "", ""))
    with while_stepping(Trainer, trace), nodes:
        next(reference.compare(ctx, workload, 1, 8))
    operators = [Mutant(workload, name, kind) for name in sorted(trace.found) for kind in KINDS[:2]]
    leaves = ("torch::autograd::AccumulateGrad",)
    return operators + [Mutant(workload, name, KINDS[2]) for name in sorted(nodes.names) if name not in leaves]


def told(ctx: Context, mutant: Mutant, others: dict[str, Any]) -> dict[str, Any]:
    """Whether a check says that this mutant is wrong, and which."""
    wrong = Halved(mutant) if mutant.kind == KINDS[2] else Wrong(mutant)
    found: dict[str, Any] = {**mutant._asdict(), "check": None, "what": None, "error": None}
    limit = reference.LIMITS[reference.device_class(ctx)]
    with wrong if mutant.kind == KINDS[2] else while_stepping(Trainer, wrong):
        for name in (mutant.workload, *REFERENCE_ONLY):
            for errors in reference.compare(ctx, name, *reference.lengths(ctx, name)):
                what = max(errors, key=lambda key: errors[key])
                found["error"] = max(errors[what], found["error"] or 0.0)
                if not errors[what] <= limit:
                    return {**found, "check": "training.reference", "what": what, "changed": wrong.changed}
    with wrong:
        found["check"] = next((name for name, one in others.items() if failed(one.run, ctx)), None)
    return {**found, "changed": wrong.changed}


def failed(run: Callable[[Any], Any], ctx: Any) -> bool:
    try:
        return bool(run(ctx).status == "fail")
    except Exception as error:  # noqa: BLE001, a Fault, or whatever the mutant made of the check
        return type(error).__name__ != "Skip"


def in_fork(work: Callable[[], Any]) -> Any:
    """What a piece of work gives, or None, in a process of its own."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.write(writes, json.dumps(work()).encode())
            code = 0
        finally:
            os._exit(code)
    os.close(writes)
    with open(reads, "rb") as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else None


def healthy(ctx: Context, seed: int) -> dict[str, Any]:
    """What the check says where nothing is wrong."""
    outcome = CHECKS["training.reference"].run(replace(ctx, seed=seed))
    worst = max(error for errors in outcome.details["errors"].values() for error in errors.values())
    return {"seed": seed, "status": outcome.status, "error": worst}


def chosen(ctx: Context, asked: argparse.Namespace) -> list[Mutant]:
    """The mutants that the command line asks for."""
    if asked.again:
        before = json.loads(Path(asked.again).read_text())["mutants"]
        return [Mutant(one["workload"], one["operator"], one["kind"]) for one in before if not one["check"]]
    found = [Mutant(*one) for name in WORKLOADS for one in in_fork(functools.partial(mutants_of, ctx, name))]
    found = found[:: max(1, len(found) // asked.sample)][: asked.sample] if asked.sample else found
    first, parts = asked.part
    return found[first::parts]


def part(text: str) -> tuple[int, int]:
    first, _, parts = text.partition("/")
    return int(first), int(parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("check")
    parser.add_argument("out")
    parser.add_argument("--sample", type=int, help="so many of the mutants, spread over all of them")
    parser.add_argument("--again", metavar="FILE", help="those that no check told in a run before")
    parser.add_argument("--healthy", type=int, default=0, metavar="SEEDS", help="so many runs without a mutant too")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--part", type=part, default=(0, 1), metavar="I/N", help="of all mutants, from 0/N on")
    asked = parser.parse_args()
    for name in ("torch.distributed", "torch._dynamo", "sympy"):
        importlib.import_module(name)  # torch imports them late, and each fork would do so anew
    torch.set_num_threads(1)
    ctx = Context(
        {}, asked.device, "basic", 20, True, 0, 60.0, Path(asked.out).parent, asked.check, asked.device == "cuda"
    )
    if ctx.device == "cpu":
        next(reference.compare(ctx, "basic", 1, 8))  # what torch makes once is made before the forks
    sound = [in_fork(functools.partial(healthy, ctx, seed)) for seed in range(asked.healthy)]
    others = {name: one for name, one in CHECKS.items() if one.group == "operators" and not one.needs}
    results = []
    for mutant in chosen(ctx, asked):
        result = in_fork(functools.partial(told, ctx, mutant, others))
        if result is None:  # it took the process with it, and so the check's
            result = {
                **mutant._asdict(),
                "check": "training.reference",
                "what": "crash",
                "error": None,
                "changed": True,
            }
        results.append(result)
    document = {"torch": torch.__version__, "mutants": results, "healthy": sound}
    Path(asked.out).write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
