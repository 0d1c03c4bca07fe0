"""A project in git with a lock that changed since the last commit."""

import os
import subprocess

import pytest
from cli_project import Project, changed, demo_pins


def git(project: Project, *arguments: str) -> None:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments]
    subprocess.run(command, cwd=project.folder, check=True, capture_output=True)


def in_git(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit the project as it is."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    git(project, "init", "-q", "-b", "main")
    git(project, "commit", "-q", "--allow-empty", "-m", "empty")
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "locked")


@pytest.fixture
def committed(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The project in git, and then a newer fsspec in its lock."""
    in_git(project, monkeypatch)
    project.lock(lambda target: changed(demo_pins(target), "fsspec", version="2026.9.1"))
    return project
