"""The programs that run in any environment start under the oldest Python that they name."""

import ast
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.matrix import first_by_day

import envspec
from envspec.base.errors import ToolError
from envspec.export.carried import check_files, check_folder
from envspec.install.interpreter import find_interpreter

PACKAGE = Path(envspec.__file__).parent
PROGRAMS = ("carried/multi_node.py", "carried/preflight.py", "carried/bytecode.py", "carried/fetch_variants.py")
CHECK = tuple(f"../{path}" for path in check_files())
BUILTIN = {"dict", "frozenset", "list", "set", "tuple", "type"}
PLAIN = BUILTIN | {"bool", "bytes", "float", "int", "object", "str"}


def evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it that Python evaluates when it gets there: no annotation, as these programs put theirs off
    by `from __future__ import annotations`."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from evaluated(child)


def too_new(source: str) -> list[str]:
    """What of a program Python 3.8 refuses when it is evaluated: `tuple[int]`, `str | None`, a generic of
    `collections.abc`. Raises SyntaxError for syntax that is newer."""
    tree = ast.parse(source, feature_version=(3, 8))
    generic = BUILTIN | {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module in ("collections", "collections.abc", "re")
        for alias in node.names
    }
    found = []
    for node in evaluated(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in generic:
            found.append(ast.unparse(node))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            for side in (node.left, node.right):
                kind = isinstance(side, ast.Name) and side.id in PLAIN
                if kind or (isinstance(side, ast.Constant) and side.value is None):
                    found.append(ast.unparse(node))
                    break
    return found


@pytest.mark.parametrize("program", [*PROGRAMS, *CHECK])
def test_nothing_is_evaluated_that_python_3_8_can_not(program: str) -> None:
    source = (PACKAGE / program).read_text(encoding="utf-8")
    assert "from __future__ import annotations" in source or program.endswith("__init__.py")
    assert too_new(source) == []


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("Outcome = tuple[str | None, dict[str, int]]", ["tuple[str | None, dict[str, int]]", "str | None"]),
        ("def f(x=list[int]): ...", ["list[int]"]),
        ("class A(dict[str, int]): ...", ["dict[str, int]"]),
        ("y = cast(int | None, x)", ["int | None"]),
        ("from collections.abc import Iterator\nX = Iterator[int]", ["Iterator[int]"]),
        ("x: tuple[str | None] = ()\ndef f(x: int | None = None) -> list[int]: ...", []),
        ("x = 1 << 2 | y\nz = found[0]\nw: dict[str, int] = {}", []),
    ],
)
def test_what_is_too_new_is_found(source: str, refused: list[str]) -> None:
    assert [one for one in too_new(source) if one in refused] == refused
    assert bool(too_new(source)) == bool(refused)


@pytest.mark.slow
@pytest.mark.parametrize("version", first_by_day(1, ["3.8", "3.9"]))
@pytest.mark.parametrize("program", first_by_day(1, PROGRAMS))
def test_it_starts_under_an_old_python(tmp_path: Path, program: str, version: str) -> None:
    try:
        python = find_interpreter(version, os.environ)
    except ToolError as error:
        pytest.skip(str(error))
    shutil.copytree(check_folder(), tmp_path / "check")
    shutil.copy(PACKAGE / program, tmp_path / "program.py")
    loads = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='loaded')"
    done = subprocess.run(
        [str(python), "-I", "-c", loads, str(tmp_path / "program.py")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.8", "3.9", "3.13"])
def test_the_check_starts_from_any_folder_under_any_python(tmp_path: Path, version: str) -> None:
    try:
        python = find_interpreter(version, os.environ)
    except ToolError as error:
        pytest.skip(str(error))
    for path, text in check_files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    config = ["--config", str(PACKAGE.parent / "recipes/cpu-py311/cpu/target.json")]
    done = subprocess.run(
        [str(python), "-I", "check", *config, "--only", "static", "--json", "-", "--scratch", str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    report = json.loads(done.stdout)
    isolation = next(one for one in report["checks"] if one["name"] == "static.isolation")
    assert str(tmp_path / "check") not in [path for path, _ in isolation["details"]["leaks"]]
    assert report["complete"] and report["machine"]["python"].startswith(version)
