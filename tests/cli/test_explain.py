"""`envspec explain`: the one table of codes has every code of the package, and no other."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
from cli_project import Envspec
from support.parsed import PARSED, nodes_of

import envspec as package
from envspec.base.codes import meanings

pytest_plugins = ["cli_fixtures"]

ROOT = Path(package.__file__).parent
ELSEWHERE = ("Ended", "Trouble", "WheelBuild", "_run", "build_of", "command")
"""What has a `code` that is another thing: an exit status, one read from a document, a click command, a GPU's."""


Placed = tuple[Path, ast.AST]


@cache
def nodes() -> tuple[Placed, ...]:
    paths = [path for path in sorted(ROOT.rglob("*.py")) if "carried" not in path.parts]
    return tuple((path, node) for path in paths for node in nodes_of(path.read_text("utf-8")))


def positions() -> dict[tuple[Path | None, str], int]:
    """Where classes and functions take a `code`, by name; by module too what is of one module alone."""
    found: dict[tuple[Path | None, str], int] = {}
    for path, node in nodes():
        if isinstance(node, ast.ClassDef):
            targets = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
            fields = [one.id for one in targets if isinstance(one, ast.Name)]
        elif isinstance(node, ast.FunctionDef):
            fields = [one.arg for one in (*node.args.posonlyargs, *node.args.args) if one.arg not in ("self", "cls")]
        else:
            continue
        if "code" in fields and node.name not in ELSEWHERE:
            found[path if node.name.startswith("_") else None, node.name] = fields.index("code")
    return found


@cache
def named() -> dict[str, set[str]]:
    """The texts of each constant that is named in capitals, in whichever module."""
    found: dict[str, set[str]] = {}
    for _, node in nodes():
        if isinstance(node, ast.Assign):
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for target in node.targets:
                for name, value in zip(
                    target.elts if isinstance(target, ast.Tuple) else [target], values, strict=False
                ):
                    if isinstance(name, ast.Name) and name.id.isupper() and isinstance(value, ast.Constant):
                        found.setdefault(name.id, set()).add(str(value.value))
    return found


def constants(value: ast.expr) -> Iterator[str]:
    """The texts that an expression can be; an f-string as a pattern."""
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        yield value.value
    elif isinstance(value, ast.Name):
        yield from named().get(value.id, ())
    elif isinstance(value, ast.IfExp):
        yield from (*constants(value.body), *constants(value.orelse))
    elif isinstance(value, ast.Tuple):
        yield from (text for one in value.elts for text in constants(one))
    elif isinstance(value, ast.JoinedStr):
        yield "".join(str(one.value) if isinstance(one, ast.Constant) else "*" for one in value.values)


def in_the_package() -> Iterator[str]:
    takes = positions()
    for path, node in nodes():
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            at = takes.get((path if name.startswith("_") else None, name))
            if at is not None:
                given = [one.value for one in node.keywords if one.arg == "code"]
                for value in given or node.args[at : at + 1]:
                    yield from constants(value)
        elif isinstance(node, ast.ClassDef):
            for one in node.body:  # an error's own
                if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "code":
                    yield from constants(one.value)
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "attr", "") == "code":
            yield from constants(node.value)


@PARSED
def test_every_code_of_the_package_is_explained() -> None:
    found = {one for one in in_the_package() if re.fullmatch(r"[a-z*]+(-[a-z0-9*]+)*", one)}
    assert len(found) > 240
    missing = {one for one in found if not any(fnmatchcase(name, one) for name in meanings())}
    assert not missing
    # and nothing else is: a code that nothing says any more goes
    assert not {name for name in meanings() if not any(fnmatchcase(name, one) for one in found)}


def test_what_a_code_means_and_what_to_do(envspec: Envspec) -> None:
    told = envspec("explain", "driver-too-old")
    assert (told.code, told.err) == (0, "")
    assert told.out.splitlines() == [
        "driver-too-old: The driver is below the floor of the target's CUDA.",
        "what to do: Update the driver, or lower `cuda`.",
        "said by lock, doctor, init",
        'can be accepted with a reason: accept = { driver-too-old = "why" } in [pip]',
    ]
    # as it is copied from a message
    assert envspec("explain", "[driver-too-old]").out == told.out


def test_all_of_them(envspec: Envspec) -> None:
    assert len(envspec("explain").out.splitlines()) == len(meanings())


@pytest.mark.parametrize(
    ("name", "hint"), [("driver-to-old", "did you mean driver-too-old?"), ("x", "lists the codes")]
)
def test_unknown_codes(envspec: Envspec, name: str, hint: str) -> None:
    told = envspec("explain", name)
    assert (told.code, told.out) == (2, "")
    assert hint in told.err


def test_the_words_are_sentences() -> None:
    assert [text for one in meanings().values() for text in (one.means, one.do) if not text.endswith(".")] == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("torch-numpy-2", "pytorch/pytorch#107302"),
        # in no table: read from METADATA, and from wheels
        ("transformers-extra-torch", "the METADATA of transformers: what its extra torch asks of torch"),
        ("acme-read-numpy", "a wheel of acme: its files show that it needs numpy<2"),
        ("acme-read-setuptools", "a wheel of acme: its files show that it needs setuptools<82"),
    ],
)
def test_a_correction_has_its_source(envspec: Envspec, name: str, source: str) -> None:
    done = envspec("explain", name)
    assert done.code == 0 and source in done.out and f'without-corrections = ["{name}"]' in done.out


def test_a_code_stands_in_one_group() -> None:
    """The later row would take the earlier one's place, and with it whether a spec can accept the finding."""
    text = files("envspec.base").joinpath("codes.toml").read_text(encoding="utf-8")
    written = re.findall(r"^codes\.([a-z0-9-]+) =", text, re.MULTILINE)
    assert sorted({code for code in written if written.count(code) > 1}) == []
