"""No command, option, code, JSON field or key of a spec gets lost unnoticed: users' scripts hold on to them."""

from pathlib import Path

import pytest

from tools.surface import keys, surface

ROOT = Path(__file__).resolve().parents[2]
RECORDED = (ROOT / "tests" / "data" / "surface.txt").read_text(encoding="utf-8").splitlines()
LOST: dict[str, str] = {
    "library Complaint": "design/37-command-line.md",
    **dict.fromkeys(("code another-file", "code source", "code young"), "scope.md"),
    **dict.fromkeys(("command audit --min-age", "command diff --min-age"), "scope.md"),
    "key audit.json releases": "scope.md",
    **{
        f"key audit.json releases[].{key}": "scope.md"
        for key in ("index", "kind", "package", "page", "published", "version")
    },
    "key spec.schema.json kubernetes.serve": "scope.md",
    **{f"key spec.schema.json kubernetes.serve.{key}": "scope.md" for key in ("health", "port", "program", "replicas")},
}
"""A line that went, and the page of docs/ that says why."""


def test_what_was_there_is_there() -> None:
    assert set(RECORDED) - set(surface()) == LOST.keys(), "what went has a reason, and a row in LOST"
    assert [page for page in LOST.values() if not (ROOT / "docs" / page).exists()] == []


@pytest.mark.parametrize("kind", ["library", "command", "code", "key"])
def test_each_kind_is_recorded(kind: str) -> None:
    assert sum(line.startswith(f"{kind} ") for line in RECORDED) > 5


def test_keys_of_a_schema() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/node"}, "b": {"additionalProperties": {"properties": {"c": {}}}}},
        "$defs": {"node": {"properties": {"next": {"items": {"$ref": "#/$defs/node"}}}}},
        "anyOf": [{"properties": {"d": {}}}],
    }
    assert set(keys(schema, schema, "", ())) == {"a", "a.next", "b", "b.*.c", "d"}
