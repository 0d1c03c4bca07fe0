"""tests/packse/scenarios.toml from packse's scenarios: `python -m tools.packse CHECKOUT`.

Of each scenario the names, versions and requirements, the Python that it is resolved for and the files that an index
has. Its prose stays away, and so do options of uv that a spec has no key for (universal, no-binary, pre-releases).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli

from envspec.lock.toml_text import key, value

TABLE = Path(__file__).resolve().parents[1] / "tests" / "packse" / "scenarios.toml"
PYTHON = "3.12"
"""packse's Python where a scenario has none, and of its releases the lowest."""
_KEYS = {"requires": [], "extras": {}, "requires_python": f">={PYTHON}", "sdist": True, "wheel": True, "wheel_tags": [],
         "yanked": False}  # fmt: skip


def scenario_text(scenario: Mapping[str, Any]) -> str:
    """Write a scenario without its defaults."""
    python = scenario.get("resolver_options", {}).get("python") or scenario.get("environment", {}).get("python", PYTHON)
    lines = [f"[{key(scenario['name'])}]", f"requires = {value(scenario['root']['requires'])}"]
    lines += [f"python = {value(python)}"] if python != PYTHON else []
    for name, package in scenario["packages"].items():
        for version, release in package["versions"].items():
            unusual = {field: release[field] for field, usual in _KEYS.items() if release.get(field, usual) != usual}
            lines.append(f"{value(f'{name} {version}')} = {value(unusual) if unusual else '{}'}")
    return "\n".join(lines) + "\n"


def main(checkout: str) -> None:
    revision = subprocess.run(
        ["git", "-C", checkout, "rev-parse", "HEAD"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    paths = (path for path in Path(checkout, "scenarios").glob("*/*.toml") if path.parent.name != "examples")
    scenarios = sorted(
        (tomli.loads(path.read_text(encoding="utf-8")) for path in paths), key=lambda scenario: scenario["name"]
    )
    head = (
        f"# The packages of github.com/astral-sh/packse (MIT or Apache-2.0), revision {revision[:12]}.\n"
        "# Made by `python -m tools.packse CHECKOUT`.\n"
    )
    TABLE.write_text("\n".join([head, *map(scenario_text, scenarios)]), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
