"""The table of docs/security.md: each forgery of `tests/forged`, and the honest relocks of `tests/review/diff/real`."""

from __future__ import annotations

from pathlib import Path

import tomli

TESTS = Path(__file__).resolve().parents[2] / "tests"
_LOCKS = {"demo": "of a loopback index", "channel": "of a loopback channel"}


def table() -> str:
    """Return the table's text."""
    rows = ["| the lock of | is | outcome |", "|---|---|---|"]
    for path in sorted((TESTS / "forged").glob("*/forgery.toml")):
        said = tomli.loads(path.read_text("utf-8"))
        lock = _LOCKS.get(said["lock"], f"`{said['lock']}`")
        code = " calls it stale" if said.get("stale") else f": `{said['code']}`"
        warned = "; others warn" if "shows" in said else ""
        rows.append(f"| {lock} | forged: {_words(path.parent.name)} | `{said['refused-by']}`{code}{warned} |")
    for said in tomli.loads((TESTS / "review" / "diff" / "real" / "relocks.toml").read_text("utf-8")).values():
        rows.append(
            f"| `{said['spec']}` | honest: relocked with the releases of {said['from']} to {said['to']},"
            f" {said['changed']} packages changed | no package is of high risk |"
        )
    return "\n".join(rows) + "\n"


def _words(name: str) -> str:
    """Return the words of a folder's name."""
    return name.replace("-s-", "'s ").replace("-", " ")
