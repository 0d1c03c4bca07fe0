"""A site with a policy and a configuration. The command line reads one place, so a test moves it in its own process."""

import os
from pathlib import Path

import pytest

CONTACT = "HPC support, hpc-help@example.org"


def place_policy(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str, *, contact: bool = True) -> Path:
    """Write a site's policy below a folder, and have commands that run in this process read it there."""
    return place_site(monkeypatch, folder, "policy.toml", (f'contact = "{CONTACT}"\n' if contact else "") + text)


def place_site(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str, text: str) -> Path:
    """Write a file of `/etc/envspec` below a folder, and have commands that run in this process read it there."""
    from envspec.base import places

    path = folder / "etc" / "envspec" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o644)
    path.parent.chmod(0o755)
    monkeypatch.setattr(places, "ETC", str(folder / "etc"))
    monkeypatch.setattr(places, "OWNER", os.geteuid())
    return path
