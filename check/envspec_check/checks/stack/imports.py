"""stack.imports: what the spec asks for can be imported."""

from __future__ import annotations

import functools
import importlib
import os
import re
import time
from typing import Any, Dict, Iterable, List, Sequence, Set, Tuple

from envspec_check.checks.stack.locked import AGAIN, describe, settle
from envspec_check.environment import Installed, distributions, own_paths
from envspec_check.import_failures import import_remedy
from envspec_check.interface import Context, Outcome, check, failed, passed, skipped, some
from envspec_check.lock import canonical
from envspec_check.machine import usable_cpus
from envspec_check.process import ending, fork, give_up

ONE = 90.0
"""Seconds that one import may take: from a cold disk of a network the largest take half of that."""

NO_PACKAGE = ("test", "tests", "testing", "doc", "docs", "example", "examples", "benchmark", "benchmarks", "scripts")
"""Folders that wheels carry by mistake, and are imported by none."""

PROJECT = ("pyproject.toml", "setup.py")
"""The files of a project's own folder. A wheel that has one carries a source tree, whose packages no import finds."""


def modules_of(files: Iterable[str]) -> List[str]:
    """Return the modules that a distribution's files are, by their paths: below a folder that is no package itself,
    those which are."""
    modules: Set[str] = set()
    packages: Set[Tuple[str, ...]] = set()
    trees: Set[Tuple[str, ...]] = set()
    for file in files:
        parts = tuple(file.replace("\\", "/").split("/"))
        if parts[0].startswith((".", "_")) or parts[0] in NO_PACKAGE or parts[0].endswith((".dist-info", ".data")):
            continue
        if len(parts) == 1:
            module = re.match(r"([A-Za-z]\w*)(?:\.py|(?:\.[\w-]+)?\.so)$", parts[0])
            modules.update([module.group(1)] if module else [])
        elif parts[-1] == "__init__.py" and all(part.isidentifier() for part in parts[:-1]):
            packages.add(parts[:-1])
        elif parts[-1] in PROJECT:
            trees.add(parts[:-1])
    for package in packages:
        if not any(package[:size] in packages | trees for size in range(1, len(package))):
            modules.add(".".join(package))
    return sorted(modules)


def requests(lock: Dict[str, Any]) -> Dict[str, str]:
    """Return the distributions that the spec asks for, each with the name of its package."""
    requested = {}
    for kind in ("conda", "pip"):
        for package in lock.get(kind, []):
            if package.get("direct"):
                names = package.get("provides") or [package["name"]] if kind == "conda" else [package["name"]]
                requested.update({canonical(name): package["name"] for name in names})
    return requested


def files_of(package: Installed) -> List[str]:
    text = package.distribution.read_text("RECORD") or package.distribution.read_text("SOURCES.txt") or ""
    return [line.split(",")[0].strip('"') for line in text.splitlines()]


def import_it(name: str) -> None:
    importlib.import_module(name)


def import_apart(modules: Sequence[str], at_once: int) -> Dict[str, str]:
    """Import modules, each in a process forked from this one: why those failed that did."""
    todo, wrong = list(modules), {}
    running: Dict[int, Tuple[str, Any, float]] = {}
    while todo or running:
        while todo and len(running) < at_once:
            name = todo.pop(0)
            print("import " + name, flush=True)
            pid, answer = fork(functools.partial(import_it, name))
            running[pid] = name, answer, time.monotonic() + ONE
        for pid, (name, answer, deadline) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                reply = answer.take()
                if status:
                    wrong[name] = reply.get("cause") or ending(status)
            elif time.monotonic() > deadline:
                give_up(pid)
                wrong[name] = "hadn't ended after %g s" % ONE
                del running[pid]
        time.sleep(0.01)
    return wrong


@check("stack.imports")
def stack_imports(ctx: Context) -> Outcome:
    """Each package that the spec asks for can be imported, in a process of its own."""
    requested = requests(ctx.lock)
    owners = {
        module: requested[package.name]
        for package in distributions(own_paths())
        if package.name in requested
        for module in modules_of(files_of(package))
    }
    if not owners:
        return skipped("the spec asks for no package that has modules")
    settle(ctx)
    wrong = import_apart(sorted(owners), usable_cpus())
    details = {"imported": sorted(set(owners) - set(wrong)), "failed": wrong}
    if not wrong:
        return passed(details=details)
    failures = [f"{module} of {describe(ctx, owners[module])}: {why}" for module, why in sorted(wrong.items())]
    remedies = {import_remedy(why) or AGAIN for why in wrong.values()}
    return failed(f"can't be imported: {some(failures, 3)}", "; ".join(sorted(remedies)), details=details)
