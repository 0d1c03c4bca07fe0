"""`envspec install` of a spec's own project: built as it is now, and anew when it changes."""

import pytest
from support.index import Index
from support.installs import PYTHON, SUBDIR
from support.machine import Machine
from support.packages import source_files, wheel

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

BACKEND = source_files("own", "1.0")["backend.py"].replace('f"{STEM}.py": ""', 'f"{STEM}.py": open("content").read()')
"""Its module is the project's file `content`."""
MAKER = wheel("maker", "1.0", files={"maker.py": BACKEND.encode()})
PROJECT = """\
[build-system]
requires = ["maker"]
build-backend = "maker"
[project]
name = "own"
version = "1.0"
dependencies = ["app"]
"""


def test_a_project_that_changed_is_built_anew(machine: Machine, index: Index) -> None:
    index.add(MAKER, wheel("app", "1.0"))
    (machine.folder / "pyproject.toml").write_text(PROJECT)
    content = machine.folder / "content"
    content.write_text("a = 1\n")
    target = f"[targets.here]\nplatform = '{SUBDIR}'\nglibc = '2.17'\n"
    machine.locked(spec=f"[env]\npython = '{PYTHON}'\nproject = '..'\n{target}")
    words = ("install", "specs/demo.toml", "--target", "here", "--prefix", "env")
    for text, told in (("a = 1\n", True), ("a = 1\n", False), ("a = 2\n", True), ("a = 2\n", False)):
        content.write_text(text)
        assert ("own" in machine.envspec(*words, status=0).out) is told
        (own,) = (machine.folder / "env").rglob("site-packages/own.py")
        assert own.read_text() == text
