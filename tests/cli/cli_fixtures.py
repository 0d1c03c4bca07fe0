"""Fixtures that the tests of commands share: a project to stand in, and the command line to call.

A plugin, not a conftest.py: two modules of that name, here and above, are one too many for mypy.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_project import Project, Told

from envspec.cli.main import run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with one spec and its fresh lock, and the current folder in it."""
    made = Project(tmp_path / "project")
    made.spec()
    made.lock()
    monkeypatch.chdir(made.folder)
    return made


@pytest.fixture
def envspec(capsys: pytest.CaptureFixture[str]) -> Callable[..., Told]:
    """The command line, in this process."""

    def call(*arguments: str) -> Told:
        code = run([str(argument) for argument in arguments])
        return Told(code, *capsys.readouterr())

    return call
