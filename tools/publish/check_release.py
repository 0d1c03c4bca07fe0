"""Refuses a release whose tag isn't its version, or whose package page would link to another repository.

python tools/publish/check_release.py vX.Y.Z https://…/OWNER/REPOSITORY
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tomli

ROOT = Path(__file__).resolve().parents[2]


def wrong(tag: str, repository: str) -> list[str]:
    """List the contradictions in a release, a sentence each."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.+)"$', (ROOT / "envspec/__init__.py").read_text(encoding="utf-8"), re.M)
    recipe = (ROOT / "tools/publish/recipe.yaml").read_text(encoding="utf-8")
    named = tomli.loads(project)["project"]["urls"]["Repository"]
    own_version = version[1] if version else "unknown"
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    dated = re.compile(rf"^## \[{re.escape(own_version)}\] - \d{{4}}-\d\d-\d\d$", re.M)
    return [
        *([f"the tag is {tag}, and envspec/__init__.py says {own_version}"] if tag != f"v{own_version}" else []),
        *([f"tools/publish/recipe.yaml isn't of {own_version}"] if f'version: "{own_version}"' not in recipe else []),
        *([f"pyproject.toml names {named}, and this is {repository}"] if named != repository else []),
        *(
            []
            if dated.search(changes)
            else [f"CHANGELOG.md has no heading of {own_version} with its day: ## [{own_version}] - DATE"]
        ),
    ]


if __name__ == "__main__":
    sys.exit("\n".join(wrong(*sys.argv[1:])) or None)
