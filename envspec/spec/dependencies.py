"""The arrays of requirements and match specs in a checked document."""

from __future__ import annotations

from collections.abc import Callable

from envspec.base.errors import ToolError
from envspec.base.reader.document import key_path, show
from envspec.base.reader.positions import Path
from envspec.base.reader.structure import Checked
from envspec.packages.requirement import parse_requirement
from envspec.spec.model import Located
from envspec.spec.values import BadValue, Dependency, match_spec, requirement


def pip_dependencies(
    checked: Checked, *path: str | int, parse: Callable[[str], Dependency] = requirement
) -> tuple[Located, ...]:
    """Return the requirements of the array at `path`; problems go to `checked`. A package that is written twice is one
    requirement with both bounds and all extras, at the first one's place, as it is to pip and uv."""
    return _dependencies(checked, parse, path)


def conda_dependencies(checked: Checked, *path: str | int) -> tuple[Located, ...]:
    """Return the match specs of the array at `path`; problems go to `checked`."""
    return _dependencies(checked, match_spec, path)


def _dependencies(checked: Checked, parse: Callable[[str], Dependency], path: Path) -> tuple[Located, ...]:
    found: dict[tuple[str, ...], Located] = {}
    for item, text in checked.children(*path):
        try:
            dependency = parse(text)
        except BadValue as error:
            checked.problem(item, f"{key_path(path)}: {show(text)} {error.reason}", error.hint)
            continue
        except ToolError as error:
            error.place = checked.place(*item)
            raise
        place = checked.place(*item)
        first = found.setdefault(dependency.identity, Located(dependency.text, place))
        if first.place == place:
            continue
        joined = None if parse is match_spec else _join(first.text, dependency.text)
        if joined is None:
            hint = f"line {first.place.line} already has it: join the two"
            checked.problem(item, f"{key_path(path)}: {show(text)} asks for {dependency.name} a second time", hint)
        else:
            found[dependency.identity] = Located(joined, first.place)
    return tuple(found.values())


def _join(one: str, other: str) -> str | None:
    """Write two requirements of one package and marker as one; None where an address is among them."""
    if one == other:
        return one
    joined, more = parse_requirement(one), parse_requirement(other)
    if joined.url or more.url:
        return None
    joined.extras |= more.extras
    joined.specifier &= more.specifier
    return requirement(str(joined)).text
