"""docs/gpu.md names every finding that there is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import envspec.lock.extras
import envspec.prove.doctor
import envspec.resolve.torch_index.holes
import envspec.rules

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "gpu.md").read_text(encoding="utf-8")
FOLDERS = [Path(package.__path__[0]) for package in (envspec.prove.doctor, envspec.rules)]
MODULES = [Path(module.__file__ or "") for module in (envspec.lock.extras, envspec.resolve.torch_index.holes)]
CALLS = ("Finding", "_silent")


def codes() -> Iterator[str]:
    """The code of every finding that the sources make: the text after the severity, or the first of `_silent`."""
    for path in (*MODULES, *(path for folder in FOLDERS for path in folder.glob("*.py"))):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
                code = node.args[0 if node.func.id == "_silent" else 1]
                code = constants.get(code.id, code) if isinstance(code, ast.Name) else code
                found = [part.value for part in ast.walk(code) if isinstance(part, ast.Constant)]
                yield from (text for text in found if isinstance(text, str) and re.fullmatch("[a-z-]+", text))


def test_every_code_has_its_place_on_the_page() -> None:
    found = set(codes())
    assert len(found) > 50
    assert sorted(code for code in found if f"`{code}`" not in PAGE) == []


def test_the_page_names_no_other() -> None:
    tables = [line for line in PAGE.splitlines() if line.startswith("| ")]
    named = {code for line in tables for code in re.findall(r"`([a-z]+(?:-[a-z]+)+)`", line)}
    assert sorted(named - set(codes())) == []
