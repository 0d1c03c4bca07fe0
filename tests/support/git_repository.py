"""Git repositories with commits that don't depend on the machine."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path


def git(folder: Path, *arguments: str) -> str:
    env = {
        "PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
        "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    return subprocess.run(
        ["git", *arguments], cwd=folder, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


def repository(folder: Path, files: Mapping[str, str], below: str = "") -> str:
    """Make a git repository with one commit on `main`; gives the commit."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / below).mkdir(exist_ok=True, parents=True)
        (folder / below / name).write_text(text)
    if not (folder / ".git").exists():
        git(folder, "init", "-q", "-b", "main")
        git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return git(folder, "rev-parse", "HEAD")
