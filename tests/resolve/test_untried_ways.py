"""No hint of an error of `lock` has a change of the spec that nobody tried: those are ways, which a judge solves."""

import ast
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import sdist, wheel

import envspec
from envspec.base.errors import IndexFailure
from envspec.spec.way import Way, avoiding

ROOT = Path(envspec.__file__).parent
KEYS = ("[pip]", "[conda]", "[env]", "[targets", "[image]", "the spec", "release", "constraints", "dependencies")
AFTER = ("if ", "run the same command with --allow-needed")
"""What the user alone knows or decides, and what was solved already: an answer with sources is all but their code."""

OF_WHAT_IS_WRITTEN = {
    "it in [pip] from indexes to find-links": "the same page by the key that it is of",
    "add to [targets.": "an address that the user alone has",
    "in its own [targets.NAME.pip]": "a wheel that the user alone has",
    "no channel of the spec has": "no change of the spec",
    "check the name's spelling": "a name that is misspelt",
    "where the spec means a branch": "a revision that is written by half",
    "name the channel itself": "an alias that isn't one name",
    "or lock again": "a lock beside another spec than its own",
    "did you mean": "a name that is misspelt",
    "`envspec ": "a command that lists what there is",
    "name its folder: ": "a path that no lock can hold",
    "a version belongs in the spec": "an option that takes names alone",
    "let the lock name the build": "which build an image has is no question for a resolver",
    "report this": "no change of the spec",
    "add to [pip], with all that its README says": "what only the README says",
    "which isn't a valid requirement": "no change of the spec",
}
"""Hints that name a key of the spec as it was written wrongly, or that nothing could be solved with, and why."""


def hints(path: Path) -> list[tuple[int, str]]:
    """The texts of the hints that a module gives its errors, with the line of each; what is put into them is `…`."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            value: ast.AST = node.value
        elif isinstance(node, ast.Assign) and "hint" in ast.unparse(node.targets[0]):
            value = node.value
        else:
            continue
        for part in [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]:
            if isinstance(part, ast.Constant) and isinstance(part.value, str):
                found.append((node.value.lineno, part.value))
            elif isinstance(part, ast.JoinedStr):
                text = "".join(str(one.value) if isinstance(one, ast.Constant) else "…" for one in part.values)
                found.append((node.value.lineno, text))
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "resolve").rglob("*.py")), ids=lambda path: path.stem)
def test_no_hint_names_a_change_of_the_spec_that_nobody_tried(path: Path) -> None:
    named = [(line, text) for line, text in hints(path) if any(key in text for key in KEYS)]
    untried = [one for one in named if not one[1].startswith(AFTER)]
    assert not [one for one in untried if not any(part in one[1] for part in OF_WHAT_IS_WRITTEN)]


@pytest.mark.slow
def test_a_wheel_that_no_installer_takes_is_avoided_where_an_older_one_will_do(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0"), wheel("lib", "2.0", files={"lib-2.0.data/data/pyvenv.cfg": b"x"}))
    index.sidecars = False
    ran = machine.envspec("lock", machine.spec(cpu("lib")))
    assert ran.status == 3 and 'add to [pip]: constraints = ["lib!=2.0"]' in ran.hint, ran.err
    machine.locked(spec=cpu("lib", extra='constraints = ["lib!=2.0"]'))
    assert machine.versions("cpu") == {"lib": "1.0"}
    # a bound alone doesn't help a pin
    ran = machine.envspec("lock", machine.spec(cpu("lib==2.0"), "pinned"))
    assert ran.status == 3 and 'write "lib" and add to [pip]: constraints = ["lib!=2.0"]' in ran.hint, ran.err
    index.add(wheel("sole", "2.0", files={"sole-2.0.data/data/pyvenv.cfg": b"x"}))
    ran = machine.envspec("lock", machine.spec(cpu("sole"), "alone"))
    assert ran.status == 3 and "constraints" not in ran.hint, ran.err


@pytest.mark.slow
def test_a_source_whose_build_fails_is_avoided_where_an_older_one_will_do(machine: Machine, index: Index) -> None:
    index.add(wheel("lib", "1.0"), sdist("lib", "2.0", static=False, files={"backend.py": "raise SystemExit('no')"}))
    ran = machine.envspec("lock", machine.spec(cpu("lib", extra='allow-source = ["lib"]')))
    assert ran.status == 3 and 'add to [pip]: constraints = ["lib!=2.0"]' in ran.hint, ran.err


@pytest.mark.parametrize(
    ("version", "bound"),
    [("1.0", "!=1.0"), ("1.0+cu126", "!=1.0+cu126"), ("v1.0", "!=1.0"), ("", ""), ("odd_name", "")],
)
def test_another_release_is_a_way_where_a_bound_can_name_it(version: str, bound: str) -> None:
    """A source by its URL has no version before it is built, and a file's name may say what is none."""
    error = avoiding(IndexFailure("its wheel is damaged"), "app", version)
    assert error.about == ("app",) and error.ways == ((Way(bounds=(f"app{bound}",)),) if bound else ())
