"""What a checked document says of `exclude-newer` and its exceptions."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.texts import nearest
from envspec.packages.requirement import canonical_name
from envspec.spec.checked import Checked
from envspec.spec.messages import dotted, show
from envspec.spec.model import NewerFor
from envspec.spec.newer import span_of
from envspec.spec.values import BadValue, utc_time

_KEY = "exclude-newer"


def newer_for(checked: Checked, whole: str | None) -> tuple[NewerFor, ...]:
    """Read the exceptions of the spec's own bound (`whole`), sorted. Problems go to `checked`: one of an index that
    [pip] doesn't have, and an age where the spec's own bound is none, because a lock holds that one's moment alone."""
    return tuple(sorted(_newer_for(checked, whole), key=lambda one: (one.of_index, one.name)))


def _newer_for(checked: Checked, whole: str | None) -> Iterator[NewerFor]:
    for key in ("exclude-newer-package", "exclude-newer-index"):
        of_index = key.endswith("index")
        for path, _ in checked.children("env", key):
            name, bound = str(path[-1]), bound_in_time(checked, *path, _KEY)
            if not checked.given("env", _KEY):
                checked.problem(path, f"{dotted(path)}: the spec has no exclude-newer to be free of", "remove it")
            elif span_of(bound) is not None and span_of(whole) is None:
                hint = "write a date, or an age in both"
                checked.problem((*path, _KEY), f"{dotted(path)}: an age needs one in [env] exclude-newer, too", hint)
            elif of_index:
                _check_index(checked, path, name)
            until = last_day(checked, *path, "until")
            reason = str(checked.value(*path, "reason") or "")
            yield NewerFor(name if of_index else canonical_name(name), of_index, bound, reason, until)


def _check_index(checked: Checked, path: tuple[str | int, ...], name: str) -> None:
    known = [
        str(index[-1]) for table in (("pip", "indexes"), ("pip", "find-links")) for index, _ in checked.children(*table)
    ]
    if name not in known and checked.sound_throughout("pip"):
        near = nearest(name, known)
        hint = f"did you mean {near!r}?" if near else "name one of [pip] indexes or find-links"
        checked.problem(path, f"{dotted(path)}: the spec has no index {show(name)}", hint)


def bound_in_time(checked: Checked, *path: str | int) -> str | None:
    """Read a moment, as RFC 3339 in UTC, or a duration."""
    value = checked.value(*path)
    if value is None or (isinstance(value, str) and span_of(value) is not None):
        return value
    return _moment(checked, value, path)


def last_day(checked: Checked, *path: str | int) -> str | None:
    """Read the last day on which something of the spec counts."""
    value = checked.value(*path)
    moment = None if value is None else _moment(checked, value, path)
    return moment and moment[:10]


def _moment(checked: Checked, value: object, path: tuple[str | int, ...]) -> str | None:
    try:
        return utc_time(value)  # type: ignore[arg-type]  # a text or a TOML date: the format allows no other
    except BadValue as error:
        checked.problem(path, f"{dotted(path)}: {show(value)} {error.reason}", error.hint)
        return None
