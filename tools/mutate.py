"""Mutation: which faults in the code that judges, fetches and installs do the tests see?

    python -m tools.mutate map FOLDER [TESTS…]         copies this tree to FOLDER, once, and learns which of these tests
                                                       run which line
    python -m tools.mutate run FOLDER --count 300      tries mutants in the order of a seed; goes on where it stopped
    python -m tools.mutate again FOLDER                tries those that survived, once more: after another `map`
    python -m tools.mutate show FOLDER                 the figures, and each survivor with its change

`map` needs `coverage`, which isn't among the development packages: `PYTHONPATH=/where/it/is`. Mutants are written into
the copy alone. Each gets the tests that run its line, the most specific and shortest first, until one fails or
`--seconds` are over.
"""

from __future__ import annotations

import argparse
import ast
import copy
import faulthandler
import gc
import inspect
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import _lru_cache_wrapper
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MUTATED = ("lock", "rules", "net", "install", "base/redact.py")
SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}  # fmt: skip
QUIET = ("-q", "-p", "no:cacheprovider", "-p", "no:logging", "-n0")
BY_DAY = "not slow and not network and not huge and not nightly"
Mutant = tuple[str, int, int, str, str, str]
"""A mutant's file, its statement's line and its own, its kind, what stands there, and what is put in its place."""


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield the kinds of change to one node, each with the node that takes its place."""

    def variant(kind: str, **fields: Any) -> tuple[str, ast.AST]:
        made = copy.copy(node)
        for name, value in fields.items():
            setattr(made, name, value)
        return kind, made

    match node:
        case ast.Compare(ops=[operator, *more]) if type(operator) in SWAPPED:
            yield variant("comparison swapped", ops=[SWAPPED[type(operator)](), *more])
        case ast.BoolOp():
            yield variant("and/or swapped", op=SWAPPED[type(node.op)]())
            yield variant("operand dropped", values=node.values[:-1])
            yield variant("operand dropped", values=node.values[1:])
        case ast.UnaryOp(op=ast.Not()):
            yield "not dropped", node.operand
        case ast.BinOp() if type(node.op) in SWAPPED:
            yield variant("operator swapped", op=SWAPPED[type(node.op)]())
        case ast.Constant(value=bool() as value):
            yield variant("constant", value=not value)
        case ast.Constant(value=int() as number):
            yield from (variant("constant", value=number + step) for step in (1, -1))
        case ast.Constant(value=str() as text) if text and " " not in text:
            yield variant("constant", value=f"{text}x")
        case ast.Return(value=ast.expr()):
            for given in (None, True):
                if not (isinstance(node.value, ast.Constant) and node.value.value is given):
                    yield variant("returned", value=ast.Constant(given))
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield "statement deleted", ast.Pass()
        case ast.Call():
            for number in range(len(node.keywords)):
                yield variant("argument dropped", keywords=node.keywords[:number] + node.keywords[number + 1 :])
            if len(node.args) > 1:
                yield variant("argument dropped", args=node.args[:-1])
        case ast.IfExp():
            yield variant("branches swapped", body=node.orelse, orelse=node.body)
        case ast.comprehension(ifs=[_, *rest]):
            yield variant("condition dropped", ifs=rest)
        case ast.Slice(lower=ast.expr()):
            yield variant("bound dropped", lower=None)
        case ast.Slice(upper=ast.expr()):
            yield variant("bound dropped", upper=None)


class MutantFinder(ast.NodeVisitor):
    """The mutants of a module: what can be written over by position, and isn't an annotation or a docstring."""

    def __init__(self, file: str, text: str) -> None:
        self.file, self.text, self.found, self.statement = file, text, list[tuple[Mutant, tuple[int, int]]](), 1
        self.starts = [0]
        for line in text.encode().splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, (ast.JoinedStr, ast.arg, ast.Import, ast.ImportFrom)):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.stmt):
            self.statement = node.lineno
        if hasattr(node, "lineno") and not isinstance(node, ast.Slice):
            for kind, made in changes(node):
                self.keep(kind, node, made)
        for name, child in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "bases"):
                continue
            for each in child if isinstance(child, list) else [child]:
                if isinstance(each, (ast.comprehension, ast.Slice)):
                    self.within(node, name, each)
                if isinstance(each, ast.AST):
                    self.visit(each)

    def within(self, whole: Any, name: str, part: ast.AST) -> None:
        """A part without a position of its own is changed in a copy of what it stands in."""
        for kind, made in changes(part):
            other, value = copy.copy(whole), getattr(whole, name)
            setattr(
                other, name, [made if node is part else node for node in value] if isinstance(value, list) else made
            )
            self.keep(kind, whole, other)

    def keep(self, kind: str, node: Any, made: ast.AST) -> None:
        span = (self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset)
        new = ast.unparse(ast.fix_missing_locations(made))
        if isinstance(made, ast.expr):
            new = f"({new})"
        old = self.text.encode()[slice(*span)].decode()
        self.found.append(((self.file, self.statement, node.lineno, kind, old, new), span))


def mutants(tree: Path) -> list[tuple[Mutant, tuple[int, int]]]:
    """Return all mutants of a tree, in the order of its files and lines."""
    listed = []
    for part in MUTATED:
        place = tree / "envspec" / part
        for path in [place] if place.is_file() else sorted(place.rglob("*.py")):
            text = path.read_text("utf-8")
            places = MutantFinder(str(path.relative_to(tree)), text)
            places.visit(ast.parse(text))
            listed += places.found
    return listed


class LineMap:
    """pytest's plugin of `map`: coverage's context is the test, and only tests that pass count."""

    def __init__(self, coverage: Any) -> None:
        self.coverage, self.seconds, self.bad = coverage, defaultdict[str, float](float), set[str]()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.coverage.switch_context(nodeid)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.bad.add(report.nodeid)


def learn(tree: Path, tests: list[str]) -> None:
    """Run the tests once, in the copy, and keep which ran which line, how long they took, and which failed."""
    import coverage  # type: ignore[import-not-found]
    import pytest

    os.chdir(tree)
    measured = coverage.Coverage(
        data_file=None, include=[f"{tree}/envspec/{part}" + "/**" * (not part.endswith(".py")) for part in MUTATED]
    )
    plugin = LineMap(measured)
    measured.start()
    pytest.main([*QUIET, "-m", BY_DAY, *tests], [plugin])
    measured.stop()
    data, path = measured.get_data(), tree.parent / "map.json"
    known = json.loads(path.read_text()) if path.exists() else {"lines": {}, "seconds": {}, "failed": []}
    for file in data.measured_files():
        rows = known["lines"].setdefault(str(Path(file).relative_to(tree)), {})
        for line, names in data.contexts_by_lineno(file).items():
            rows.setdefault(str(line), []).extend(test for test in names if test and test not in plugin.bad)
    known["seconds"].update(plugin.seconds)
    known["failed"] += sorted(plugin.bad)
    path.write_text(json.dumps(known))


class MutantRun:
    """pytest's plugin of `run`: in place of all tests, each mutant's own in a process forked from this one, which has
    collected them. What a function does is changed in that process, and for what it starts, in the file."""

    def __init__(self, tree: Path, given: argparse.Namespace) -> None:
        self.tree, self.given = tree, given
        self.known = json.loads((tree.parent / "map.json").read_text())
        self.broken, self.failed = set(self.known["failed"]), False
        self.breadth = Counter(
            test for rows in self.known["lines"].values() for names in rows.values() for test in names
        )

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.failed |= report.failed

    def pytest_runtestloop(self, session: Any) -> bool:
        gc.unfreeze()
        functions: dict[tuple[str, str, int], list[Any]] = {}
        self.caches = []
        for each in gc.get_objects():
            if type(each) is FunctionType and each.__code__.co_filename.startswith(f"{self.tree}/envspec"):
                code = each.__code__
                functions.setdefault((code.co_filename, code.co_name, code.co_firstlineno), []).append(each)
            elif type(each) is _lru_cache_wrapper and each.__module__.partition(".")[0] == "envspec":
                self.caches.append(each)
        items = {test.nodeid: test for test in session.items}
        self.scratch = session.config._tmp_path_factory.getbasetemp()
        results = self.tree.parent / "results.jsonl"
        rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        drawn = mutants(self.tree)
        random.Random(self.given.seed).shuffle(drawn)
        until = time.monotonic() + self.given.span
        survived = [number for number, row in enumerate(rows) if not row["killer"]]
        for number in survived if self.given.what == "again" else range(len(rows), self.given.count):
            if time.monotonic() < until:
                rows[number : number + 1] = [self.try_one(number, *drawn[number], functions, items)]
                results.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return True

    def try_one(self, number: int, mutant: Mutant, span: tuple[int, int], functions: Any, items: Any) -> dict[str, Any]:
        file, first, line, kind, old, new = mutant
        rows, seconds = self.known["lines"].get(file, {}), self.known["seconds"]
        seen = [rows[str(at)] for at in range(first, line + 1) if str(at) in rows]
        tests = {test for names in seen for test in names if test in items}
        path, began = self.tree / file, time.monotonic()
        whole, was = path.read_bytes(), path.stat()
        text = whole[: span[0]] + new.encode() + whole[span[1] :]
        changed = [
            (function, code)
            for code in outermost(compile(text, str(path), "exec"))
            for function in functions.get((str(path), code.co_name, code.co_firstlineno), ())
            if function.__code__ != code and len(function.__code__.co_freevars) == len(code.co_freevars)
        ]
        row = {"file": file, "line": line, "kind": kind, "old": old, "new": new, "covered": bool(seen)}
        # what runs at import is read anew, by all tests of the file
        tests = tests or {test for names in rows.values() for test in names if test in items}
        chosen = sorted(tests - self.broken, key=lambda test: (self.breadth[test] * (0.05 + seconds[test]), test))
        path.write_bytes(text)
        os.utime(path, (was.st_atime, was.st_mtime + 10 * (number + 1)))  # no older bytecode fits
        try:
            killer = self.fork_tests(chosen, changed, items) if changed else self.run_tests(chosen)
        finally:
            path.write_bytes(whole)
            os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
            for left in self.scratch.iterdir():
                shutil.rmtree(left, ignore_errors=True)
        if killer in items and self.fork_tests([killer], [], items):
            self.broken.add(killer)  # it fails without a mutant too
            return self.try_one(number, mutant, span, functions, items)
        return {**row, "of": len(tests), "killer": killer, "seconds": round(time.monotonic() - began, 1)}

    def run_tests(self, chosen: list[str]) -> str:
        """Run tests in a Python of their own. Gives the reason why it failed."""
        if not chosen:
            return ""
        command = [sys.executable, "-m", "pytest", *QUIET, "-x", "-m", "not huge", *chosen[:40]]
        try:
            ran = subprocess.run(
                command, cwd=self.tree, capture_output=True, timeout=10 * self.given.seconds, check=False
            )
        except subprocess.TimeoutExpired:
            return "didn't end"
        return "a test, or the import" if ran.returncode in (1, 2) else ""

    def fork_tests(self, chosen: list[str], changed: list[tuple[Any, Any]], items: Any) -> str:
        """Run tests in a forked process. Gives the one that failed or never ended, or nothing."""
        out, into = os.pipe()
        child = os.fork()
        if not child:
            try:
                self.become(chosen, changed, items, into)
            finally:
                os._exit(1)
        os.close(into)
        with os.fdopen(out) as pipe:
            line = pipe.readline().rstrip("\n")
        status = os.waitpid(child, 0)[1]
        return "" if line == "passed" else line or f"the process ended with {status}"

    def become(self, chosen: list[str], changed: list[tuple[Any, Any]], items: Any, into: int) -> None:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        resource.setrlimit(resource.RLIMIT_DATA, (8 << 30, 8 << 30))
        for cache in self.caches:
            cache.cache_clear()
        for function, code in changed:
            function.__code__ = code
        until = time.monotonic() + self.given.seconds
        for name, after in zip(chosen, [*chosen[1:], None], strict=True):
            if time.monotonic() > until:
                break
            # what doesn't end ends the process
            faulthandler.dump_traceback_later(30 + 20 * self.known["seconds"][name], exit=True, file=2)
            items[name].config.hook.pytest_runtest_protocol(item=items[name], nextitem=items.get(after))
            if self.failed:
                os.write(into, f"{name}\n".encode())
                os._exit(0)
        os.write(into, b"passed\n")
        os._exit(0)


def outermost(code: CodeType) -> Iterator[CodeType]:
    """Return the code of a module's functions and methods, without those within functions."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from (
                [constant]
                if constant.co_flags & inspect.CO_NEWLOCALS and constant.co_flags & inspect.CO_OPTIMIZED
                else outermost(constant)
            )


def show(tree: Path) -> None:
    """Print the figures and the survivors."""
    rows = [json.loads(line) for line in (tree.parent / "results.jsonl").read_text().splitlines()]
    left = [row for row in rows if not row["killer"]]
    unseen = sum(not row["covered"] for row in left)
    print(f"{len(rows)} mutants: {len(rows) - len(left)} killed, {len(left) - unseen} survived, {unseen} not run")
    for row in left:
        print(f"{row['file']}:{row['line']}: {row['kind']} ({row['of']} tests)")
        for sign, part in (("-", "old"), ("+", "new")):
            print(f"  {sign} {' '.join(row[part].split())}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("map", "run", "again", "show"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("tests", nargs="*", default=["tests"])
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=90, help="of all tests of a mutant")
    parser.add_argument(
        "--for", type=float, default=1e9, dest="span", help="seconds after which no other mutant begins"
    )
    given = parser.parse_args()
    tree = given.folder.resolve() / "tree"
    if given.what == "show":
        show(tree)
        return
    if given.what == "map" and not tree.exists():
        tree.mkdir(parents=True)
        packed = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
        subprocess.run(["tar", "-x"], cwd=tree, input=packed, check=True)
    sys.path[:0] = [str(tree), str(tree / "tests"), str(tree / "check")]
    os.environ["PYTHONPATH"] = str(tree)
    if given.what == "map":
        learn(tree, given.tests)
        return
    import pytest

    os.chdir(tree)
    known = json.loads((tree.parent / "map.json").read_text())
    files = sorted({test.partition("::")[0] for test in known["seconds"]})
    pytest.main([*QUIET, "-m", BY_DAY, *files], [MutantRun(tree, given)])


if __name__ == "__main__":
    main()
