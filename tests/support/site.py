"""A site with a policy. The command line reads one place alone, so a test moves that place in its own process."""

import os
from pathlib import Path

import pytest

CONTACT = "HPC support, hpc-help@example.org"


def place_policy(monkeypatch: pytest.MonkeyPatch, folder: Path, text: str, *, contact: bool = True) -> Path:
    """Write a site's policy below a folder, and have commands that run in this process read it there."""
    from envspec.app import site_policy

    path = folder / "etc" / "envspec" / "policy.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text((f'contact = "{CONTACT}"\n' if contact else "") + text, encoding="utf-8")
    path.chmod(0o644)
    path.parent.chmod(0o755)
    monkeypatch.setattr(site_policy, "PLACE", str(path))
    monkeypatch.setattr(site_policy, "OWNER", os.geteuid())
    return path
