"""The terms of `[pip]` and `[targets.X.pip]` in a checked document besides dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType

from envspec.base.errors import Place
from envspec.base.reader.document import key_path, show
from envspec.base.reader.positions import Path
from envspec.base.reader.structure import Checked
from envspec.packages.requirement import canonical_name
from envspec.spec.dependencies import pip_dependencies
from envspec.spec.model import Located, PipTerms, of_one
from envspec.spec.sources import build_dependencies, stated_metadata
from envspec.spec.values import BadValue, Dependency, bound, override

_KEYS = (
    "constraints", "overrides", "find-links", "accept", "metadata", "build-dependencies", "no-build-isolation",
    "inspect",
)  # fmt: skip


def pip_terms(checked: Checked, *path: str | int) -> PipTerms:
    """Return the terms of the pip table at `path`; problems go to `checked`."""
    if not any(checked.has(*path, key) for key in _KEYS):
        return PipTerms()
    unisolated = checked.children(*path, "no-build-isolation")
    return PipTerms(
        pip_dependencies(checked, *path, "constraints", parse=bound),
        _overrides(checked, *path, "overrides"),
        MappingProxyType({str(item[-1]): url for item, url in checked.children(*path, "find-links")}),
        MappingProxyType(dict(_acceptances(checked, *path, "accept"))),
        stated_metadata(checked, *path, "metadata"),
        MappingProxyType(build_dependencies(checked, *path, "build-dependencies")),
        frozenset(canonical_name(name) for _, name in unisolated),
        checked.value(*path, "inspect"),
    )


def _acceptances(checked: Checked, *path: str | int) -> Iterator[tuple[str, str]]:
    for item, reason in checked.children(*path):
        code = str(item[-1])
        if not isinstance(reason, dict):
            yield code, reason
            continue
        for own, of_package in checked.children(*item):
            yield of_one(code, canonical_name(str(own[-1]))), of_package


def _overrides(checked: Checked, *path: str | int) -> tuple[Located, ...]:
    found = []
    lines: dict[tuple[str, ...], int] = {}
    for item, _ in checked.children(*path):
        text, reason = checked.value(*item, "requirement"), checked.value(*item, "reason")
        if text is None or reason is None:
            continue
        at = (*item, "requirement")
        parsed = _parse_override(checked, at, text)
        if parsed is None:
            continue
        place = checked.place(*at)
        if parsed.identity in lines:
            hint = f"line {lines[parsed.identity]} already has it: join the two"
            checked.problem(at, f"{key_path(path)}: {show(text)} overrides {parsed.name} a second time", hint)
            continue
        lines[parsed.identity] = place.line
        found.append(Located(parsed.text, place, reason.strip()))
    return tuple(found)


def _parse_override(checked: Checked, at: Path, text: str) -> Dependency | None:
    try:
        return override(text)
    except BadValue as error:
        checked.problem(at, f"{key_path(at)}: {show(text)} {error.reason}", error.hint)
        return None


def check_names(checked: Checked) -> None:
    """Refuse a flat index with the name of a simple one: the name of an index says where a package comes from."""
    simple = {str(path[-1]): checked.place(*path, at_key=True) for path, _ in checked.children("pip", "indexes")}
    for table in _tables(checked):
        for path, _ in checked.children(*table, "find-links"):
            name = str(path[-1])
            if name in simple:
                message = f"{key_path(path)}: pip.indexes already has an index {show(name)}{_line(simple[name])}"
                checked.problem(path, message, "give one of them another name", at_key=True)


def flat_names(checked: Checked) -> list[str]:
    """Return the names of all flat indexes that the document gives, the spec's and those of its targets."""
    return [str(path[-1]) for table in _tables(checked) for path, _ in checked.children(*table, "find-links")]


def _tables(checked: Checked) -> list[Path]:
    return [("pip",), *((*path, "pip") for path, _ in checked.children("targets"))]


def _line(place: Place) -> str:
    return f" (line {place.line})" if place.line else ""
