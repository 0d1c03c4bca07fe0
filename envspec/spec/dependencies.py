"""The arrays of requirements and match specs in a checked document."""

from __future__ import annotations

from collections.abc import Callable

from envspec.base.errors import ToolError
from envspec.base.reader.checked import Checked
from envspec.base.reader.messages import dotted, show
from envspec.base.reader.positions import Path
from envspec.spec.model import Located
from envspec.spec.values import BadValue, Dependency, match_spec, requirement


def pip_dependencies(
    checked: Checked, *path: str | int, parse: Callable[[str], Dependency] = requirement
) -> tuple[Located, ...]:
    """Return the requirements of the array at `path`; problems go to `checked`."""
    return _dependencies(checked, parse, path)


def conda_dependencies(checked: Checked, *path: str | int) -> tuple[Located, ...]:
    """Return the match specs of the array at `path`; problems go to `checked`."""
    return _dependencies(checked, match_spec, path)


def _dependencies(checked: Checked, parse: Callable[[str], Dependency], path: Path) -> tuple[Located, ...]:
    found = []
    lines: dict[tuple[str, ...], int] = {}
    for item, text in checked.children(*path):
        try:
            dependency = parse(text)
        except BadValue as error:
            checked.problem(item, f"{dotted(path)}: {show(text)} {error.reason}", error.hint)
            continue
        except ToolError as error:
            error.place = checked.place(*item)
            raise
        place = checked.place(*item)
        if dependency.identity in lines:
            hint = f"line {lines[dependency.identity]} already has it: join the two"
            checked.problem(item, f"{dotted(path)}: {show(text)} asks for {dependency.name} a second time", hint)
            continue
        lines[dependency.identity] = place.line
        found.append(Located(dependency.text, place))
    return tuple(found)
