"""The JSON Schema is the shipped file, is valid, and refuses just what the parser's structural checks refuse."""

import copy
import json
import re
from collections.abc import Iterator
from datetime import date, time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import tomli
from hypothesis import example, given, strategies as st
from jsonschema.exceptions import ValidationError

import envspec.spec.schema
from envspec.base.errors import SpecError
from envspec.base.reader.nodes import Array, Boolean, Either, Integer, Names, Node, Number, Table, Text
from envspec.base.reader.structure import violations
from envspec.spec.parse import parse_spec
from envspec.spec.schema import FORMAT, json_schema, rendered_json_schema

HERE = Path(__file__).parent
SHIPPED = Path(envspec.spec.schema.__file__).with_name("spec.schema.json")

NOT_TOML = {case.stem for case in (HERE / "invalid").glob("toml-*.toml")}
BEYOND_A_SCHEMA = {
    # what a text means
    "python-range",
    "exclude-newer-no-such-day",
    "exclude-newer-no-such-offset",
    "match-spec-bad",
    "match-spec-twice",
    "match-spec-with-credentials",
    "match-spec-without-name",
    "requirement-bad-marker",
    "requirement-bad-version",
    "requirement-bare-url",
    "requirement-file",
    "requirement-option",
    "requirement-twice",
    "requirement-twice-in-a-target",
    "requirement-with-credentials",
    "requirement-with-one-equals-sign",
    "requirement-with-token",
    "constraint-of-an-extra",
    "constraint-with-address",
    "constraint-with-extras",
    "constraint-without-a-bound",
    "override-bad",
    "override-of-an-extra",
    "override-twice",
    # one place against another
    "find-links-with-the-name-of-an-index",
    "conda-channels-that-a-lock-cant-name",
    "conda-without-channels",
    "cuda-on-a-mac",
    "driver-without-cuda",
    "elastic-nodes-without-restarts",
    "elastic-ranks-of-srun",
    "memory-in-two-options",
    "memory-in-two-ways",
    "mpi-under-torchrun",
    "empty-dependencies",
    "glibc-on-windows",
    "gpus-without-cuda",
    "no-dependency",
    "source-of-an-unknown-index",
    "source-twice",
    "source-without-indexes",
    # what a matrix makes
    "matrix-clashes-with-a-target",
    "matrix-cuda-on-a-mac",
    "matrix-exclude-matches-nothing",
    "matrix-excludes-everything",
    "matrix-gpus-without-cuda",
    "matrix-makes-a-bad-name",
    "matrix-same-architecture-twice",
    "matrix-too-large",
    # the file's name
    "Name From File",
}


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
    # JSON Schema's patterns are ECMA 262's, where `$` isn't before a final newline; Python's validator takes Python's.
    assert pattern.endswith("$")
    if isinstance(instance, str) and not re.search(pattern[:-1] + r"\Z", instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


# TOML tells 50.0 from 50; JSON doesn't.
_TYPES = jsonschema.Draft7Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
_Validator = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft7Validator, {"pattern": _pattern}, type_checker=_TYPES
)
VALIDATOR = _Validator(json_schema())


def as_json(value: Any) -> Any:
    """Gives a TOML document as editors give it to a schema: dates are strings."""
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_json(item) for item in value]
    return str(value) if isinstance(value, (date, time)) else value


def test_shipped_file_is_the_generated_one() -> None:
    assert SHIPPED.read_text(encoding="utf-8") == rendered_json_schema()
    assert json.loads(SHIPPED.read_text(encoding="utf-8")) == json_schema()


def test_schema_is_a_schema() -> None:
    jsonschema.Draft7Validator.check_schema(json_schema())


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and all objects in it."""
    if isinstance(schema, dict):
        yield schema
    for part in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from parts(part)


def test_what_strict_validators_refuse_is_not_there() -> None:
    """Those of editors and of SchemaStore compile patterns with ECMA 262's flag `u`, which takes no needless escape,
    and want each required key among the properties beside it."""
    found = list(parts(json_schema()))
    patterns = {part["pattern"] for part in found if isinstance(part.get("pattern"), str)}
    assert len(patterns) > 20
    escape = re.compile(r"\\(?![\\^$.*+?()\[\]{}|/dDsSwWbB-]|u[0-9a-f]{4}).")
    assert [pattern for pattern in sorted(patterns) if escape.search(pattern)] == []
    needed = [part for part in found if isinstance(part.get("required"), list)]
    assert needed and all(set(part["required"]) <= set(part["properties"]) for part in needed)


@pytest.mark.parametrize("case", sorted((HERE / "valid").glob("*.toml")), ids=lambda case: case.stem)
def test_valid_specs(case: Path) -> None:
    document = tomli.loads(case.read_text())
    VALIDATOR.validate(as_json(document))
    assert violations(document, FORMAT) == []


@pytest.mark.parametrize(
    "case",
    [case for case in sorted((HERE / "invalid").glob("*.toml")) if case.stem not in NOT_TOML],
    ids=lambda case: case.stem,
)
def test_invalid_specs(case: Path) -> None:
    document = tomli.loads(case.read_text())
    structurally_wrong = case.stem not in BEYOND_A_SCHEMA
    assert bool(violations(document, FORMAT)) == structurally_wrong
    assert VALIDATOR.is_valid(as_json(document)) == (not structurally_wrong)


def test_the_list_of_what_is_beyond_a_schema_is_exact() -> None:
    assert not BEYOND_A_SCHEMA - {case.stem for case in (HERE / "invalid").glob("*.toml")}
    for stem in NOT_TOML:
        with pytest.raises(SpecError):
            parse_spec((HERE / "invalid" / f"{stem}.toml").read_text(), "a.toml")


def nodes(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    yield path, node
    if isinstance(node, Table):
        for key, child in node.keys.items():
            yield from nodes(child, f"{path}.{key}")
    elif isinstance(node, Either):
        yield from (*nodes(node.text, f"{path}|text"), *nodes(node.table, f"{path}|table"))
    elif isinstance(node, Names):
        yield f"{path}.<name>", node.names
        yield from nodes(node.values, f"{path}.*")
    elif isinstance(node, Array):
        yield from nodes(node.items, f"{path}[]")


@pytest.mark.parametrize(("path", "node"), list(nodes(FORMAT)), ids=[path or "root" for path, _ in nodes(FORMAT)])
def test_every_node_is_documented_with_an_example_it_allows(path: str, node: Node) -> None:
    assert node.doc[0].isupper() and node.doc.endswith(".")
    if isinstance(node, Text):
        assert node.allows(node.example)
        assert node.default is None or node.allows(node.default)
    elif isinstance(node, Array):
        assert all(node.items.allows(item) for item in node.example if isinstance(node.items, Text))
        assert len(node.example) >= node.min_items
    elif isinstance(node, Boolean):
        assert node.example is not node.default
    elif isinstance(node, (Integer, Number)):
        assert (node.minimum is None or node.minimum <= node.example) and (
            node.maximum is None or node.example <= node.maximum
        )


BASES = [as_json(tomli.loads(case.read_text())) for case in sorted((HERE / "valid").glob("*.toml"))]
TEXTS = st.sampled_from(
    [
        *("", " ", "a\n", "a\tb", "a\u202eb", "\u2028", "é", "x" * 100, "x" * 101),
        *("cpu", "12.8", "12.8.1", "linux-64", "3.12", "550.54.15", "H100", "2026-11-01", "2026-11-01T00:00:00z"),
        *("torch", "pypi", "pytorch", "../x", "a..b", "a.", "A", "root", "dev", "jupyter"),
        *("https://a.example/x", "https://u:p@a.example/x", "https://a.example/t/x/y", "file:///x"),
    ]
)
SCALARS = TEXTS | st.text(max_size=5) | st.integers(-2, 100_002) | st.booleans() | st.floats(allow_nan=False, width=16)
JUNK = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)


def containers(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from containers(item)


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    document: dict[str, Any] = copy.deepcopy(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(0, 3))):
        container = draw(st.sampled_from(list(containers(document))))
        keys: list[Any] = list(container) if isinstance(container, dict) else list(range(len(container)))
        action = draw(st.sampled_from(["replace", "remove", "add"]))
        if action == "add" or not keys:
            if isinstance(container, dict):
                container[draw(st.sampled_from(["platform", "gpus", "cuda", "x"]) | TEXTS)] = draw(JUNK)
            else:
                container.append(draw(st.sampled_from(container) if container else JUNK))
        elif action == "remove":
            del container[draw(st.sampled_from(keys))]
        else:
            container[draw(st.sampled_from(keys))] = draw(JUNK)
    return document


@given(damaged())
@example({"env": {"python": "3.12"}, "targets": {"a": {"platform": "linux-64", "gpus": [True, 1]}}})
@example({"env": {"python": "3.12\n"}, "targets": {}})
def test_schema_and_parser_agree(document: dict[str, Any]) -> None:
    assert VALIDATOR.is_valid(document) == (violations(document, FORMAT) == [])
