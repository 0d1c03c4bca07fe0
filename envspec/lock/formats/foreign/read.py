"""Two files of any known format, ready to compare."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import InputError, Place
from envspec.base.plain_files import read_plain
from envspec.lock.formats.foreign import by_platform, poetry_lock, requirements, uv_lock
from envspec.lock.formats.foreign.selection import NO_WISH, Offers, Selection, Wish, describe, forks, select
from envspec.lock.formats.foreign.shape import check_pin, malformed, text_of, toml_of, yaml_of
from envspec.lock.formats.foreign.side import Side
from envspec.lock.formats.foreign.terms import terms_of
from envspec.lock.formats.foreign.universal import (
    DEFAULT_PLATFORMS,
    DEFAULT_PYTHON,
    Environment,
    Universal,
    holds,
    read_pylock,
)
from envspec.lock.formats.foreign.uv_lock import UvLock
from envspec.lock.model import Lock, LockedTarget, SpecInputs, TargetInputs
from envspec.packages.other_formats import INTENTS, format_of
from envspec.packages.requirement import canonical_name
from envspec.packages.tags import PLATFORMS, marker_environment
from envspec.packages.version_numbers import numbers

_UNIVERSAL: Mapping[str, tuple[Callable[[Mapping[str, Any]], Universal | UvLock], str]] = {
    "poetry_lock": (poetry_lock.read, "edges index files"),
    "uv_lock": (uv_lock.read, "direct edges index files"),
    "pylock": (read_pylock, "index files"),
}
_BY_PLATFORM: Mapping[str, tuple[Callable[[Any], Lock | tuple[Lock, bool]], str]] = {
    "pixi_lock": (by_platform.read_pixi, "edges index files licence"),
    "conda_lock": (by_platform.read_conda_lock, "edges index files"),
    "explicit": (by_platform.read_explicit, "index files"),
    "environment_yml": (by_platform.read_environment, ""),
}
"""The readers of formats by name, with what these record of packages."""

KNOWN = (
    "envspec.lock, requirements.txt, pylock.toml, uv.lock, poetry.lock, conda-lock.yml, pixi.lock, explicit lists of"
    " conda packages, environment.yml"
)


_MINOR = re.compile(r"python(?:_full)?_version [<>=!~]=? [\"'](3\.\d{1,3})")


class _Waiting(Struct, frozen=True):
    """A universal file whose environments aren't chosen yet. `python` is the oldest version that it supports; of the
    markers that say where it counts, if it has any, one must hold (`supported`). `named` are names and versions of
    all its packages, `newest` the newest Python that its markers tell from older ones."""

    open: Callable[[tuple[Environment, ...]], Side]
    offers: Offers
    python: str | None
    supported: tuple[str, ...] = ()
    named: frozenset[tuple[str, str]] = frozenset()
    newest: str = "3.0"


def _unseen(before: _Waiting, after: _Waiting, pair: tuple[Side, Side]) -> bool:
    """Return whether a file names a version that the other doesn't, and that no environment has that was looked at."""
    seen = {(pin.name, pin.version) for side in pair for target in side.lock for pin in target.pins}
    return not before.named ^ after.named <= seen


def sides(old: Path, new: Path, wish: Wish = NO_WISH) -> tuple[Side, Side]:
    """Read two files as sides of a comparison, universal files with the extras and groups that `wish` asks for.

    A universal file is evaluated in the other file's targets. Two universal files are evaluated on Linux, macOS and
    Windows, or where `wish` says. By default, two universal files have all their extras and groups, in several forks
    where some conflict; beside any other file, a universal file has its tool's default choices.

    Raises InputError for a file that doesn't exist or has no known format (LockError for an envspec lock) and for
    wishes that the files can't meet, StorageError, and ToolError for YAML without PyYAML.
    """
    before, after = _read(old), _read(new)
    waiting = {"old": before, "new": after}
    offers = {side: file.offers for side, file in waiting.items() if isinstance(file, _Waiting)}
    if isinstance(before, _Waiting) and isinstance(after, _Waiting):
        platforms = wish.platforms or DEFAULT_PLATFORMS
        both = _whole(offers) if not wish.selects else {side: (select(wish, side, offers),) for side in offers}
        now = wish.python or after.python or before.python or DEFAULT_PYTHON
        # a file for older Pythons than before isn't compared with what the old one would hold there
        was = wish.python or max(before.python or now, now, key=numbers)

        def open_both(*newer: str) -> tuple[Side, Side]:
            looked = {
                side: _spread(platforms, (python, *newer), both[side]) for side, python in (("old", was), ("new", now))
            }
            return _open(before, looked["old"]), _open(after, looked["new"])

        pair = open_both()
        newest = max((before.newest, after.newest), key=numbers)
        if not wish.python and numbers(newest) > numbers(was) and _unseen(before, after, pair):
            pair = open_both(newest)
        # whoever names a platform sees it
        if not wish.platforms:
            pair = _usable(pair[0], before.supported), _usable(pair[1], after.supported)
        return _with_newer_on_both(pair, was, now)
    if wish.python or wish.platforms:
        option = "--python" if wish.python else "--platform"
        other = new if isinstance(before, _Waiting) else old
        message = f"{option} is for two universal files; {other} has its own targets"
        raise InputError(message, hint=f"leave out {option}")
    if wish.selects and not offers:
        hint = "leave out --extra, --group and --package: they are for uv.lock, poetry.lock and pylock.toml"
        raise InputError("neither file has extras or groups to choose from", hint=hint)
    if isinstance(before, _Waiting):
        assert isinstance(after, Side)
        return _open(before, _environments(after, before.python, select(wish, "old", offers))), after
    if isinstance(after, _Waiting):
        return before, _open(after, _environments(before, after.python, select(wish, "new", offers)))
    return before, after


def first_pins(path: Path, environments: Iterable[Environment]) -> Lock:
    """Read a file's pins for targets: of a universal file with all its extras and groups, of any other the part of the
    target's name, else of its platform.

    Raises as `sides` does, and InputError for a file that pins nothing for any of the targets.
    """
    file = _read(path)
    made = []
    for environment in environments:
        if isinstance(file, _Waiting):
            looked = tuple(replace(environment, selection=selection) for selection in forks([file.offers]))
            parts = tuple(_open(file, looked).lock)
        else:
            of_platform = [target for target in file.lock if target.inputs.platform in ("", environment.platform)]
            parts = tuple([target for target in of_platform if target.name == environment.name] or of_platform)
        pins = {(pin.kind, pin.name): pin for part in reversed(parts) for pin in part.pins if pin.version}
        inputs = TargetInputs(environment.platform, environment.python, environment.glibc)
        made.append(LockedTarget(environment.name, inputs, tuple(pins.values())))
    if not any(target.pins for target in made):
        raise InputError("it pins nothing for the spec's targets", place=Place(str(path)))
    return Lock(path.stem, SpecInputs(), tuple(made))


def _whole(offers: Mapping[str, Offers]) -> dict[str, tuple[Selection, ...]]:
    """Select everything that both sides have, with the same forks, so that these can be compared."""
    selections = forks(offers.values())
    return dict.fromkeys(offers, selections)


def _spread(
    platforms: Iterable[str], pythons: tuple[str, ...], selections: tuple[Selection, ...]
) -> tuple[Environment, ...]:
    """Give the environments on each platform: those of another Python than the first are called by it."""
    return tuple(
        Environment(
            " ".join(filter(None, (platform, selection.fork, f"Python {python}" if number else ""))),
            platform,
            python,
            selection=selection,
        )
        for platform in platforms
        for selection in selections
        for number, python in enumerate(pythons)
    )


def _open(file: _Waiting, environments: tuple[Environment, ...]) -> Side:
    side = _check(file.open(environments))
    selections = tuple(dict.fromkeys(environment.selection for environment in environments))
    return replace(
        side,
        chosen=describe(selections, file.offers),
        seen=tuple(dict.fromkeys((environment.platform, environment.python) for environment in environments)),
    )


def _with_newer_on_both(pair: tuple[Side, Side], was: str, now: str) -> tuple[Side, Side]:
    """Leave out the environments of a newer Python that one side alone is for."""
    names = [{target.name for target in side.lock} for side in pair]
    common = names[0] & names[1]

    def restrict(side: Side, python: str) -> Side:
        targets = [target for target in side.lock if target.inputs.python == python or target.name in common]
        return replace(side, lock=replace(side.lock, targets=tuple(targets)))

    return restrict(pair[0], was), restrict(pair[1], now)


def _usable(side: Side, supported: tuple[str, ...]) -> Side:
    """Leave out the environments that a universal file isn't for: those that it says it doesn't support, and those for
    which one of its packages has no file, though it has files for others. A file that fits nowhere stays whole."""
    with_files = {(pin.name, pin.version) for target in side.lock for pin in target.pins if pin.artifact}

    def fits(target: LockedTarget) -> bool:
        variables = marker_environment(target.inputs.platform, target.inputs.python)
        lacking = (pin for pin in target.pins if not (pin.artifact or pin.git or pin.url))
        if any((pin.name, pin.version) in with_files for pin in lacking):
            return False
        return not supported or any(holds(marker, variables) for marker in supported)

    with malformed(Path(side.title)):
        targets = tuple(filter(fits, side.lock))
    if not targets:
        return side
    seen = {(target.inputs.platform, target.inputs.python) for target in targets}
    return replace(
        side, lock=replace(side.lock, targets=targets), seen=tuple(machine for machine in side.seen if machine in seen)
    )


def _environments(other: Side, python: str | None, selection: Selection) -> tuple[Environment, ...]:
    """Return the targets of a side. Where a side has no platforms, a universal file is evaluated on Linux."""
    environments = []
    for target in other.lock:
        inputs = target.inputs
        platform = inputs.platform if inputs.platform in PLATFORMS else "linux-64"
        version = inputs.python or python or DEFAULT_PYTHON
        environments.append(Environment(target.name, platform, version, inputs.glibc, selection))
    return tuple(environments)


def _read(path: Path) -> Side | _Waiting:
    """Read a side, or a universal file whose environments aren't chosen yet."""
    text = text_of(path, f"envspec reads {KNOWN}")
    form = format_of(path.name, text)
    if form == "envspec":
        from envspec.lock.read import loads, with_inventories

        def read_beside(name: str) -> bytes | None:
            return read_plain(path.with_name(name)) if path.with_name(name).is_file() else None

        return Side(str(path), with_inventories(loads(text, str(path)), read_beside, str(path.parent)))
    if form == "spec":
        raise InputError("this is a spec, not a lock", place=Place(str(path)), hint="name its envspec.lock")
    if form is None or form in INTENTS:
        raise InputError("envspec doesn't read this format", place=Place(str(path)), hint=f"envspec reads {KNOWN}")
    with malformed(path):
        if form == "requirements":

            def read_side(environments: tuple[Environment, ...]) -> Side:
                with malformed(path):
                    lock, complete = requirements.read(text, environments)
                return Side(str(path), lock, frozenset({"files"}), complete, format=form, terms=terms_of(text, None))

            list(requirements.lines(text))
            return _Waiting(read_side, Offers(), None)
        if form in _UNIVERSAL:
            document = toml_of(text)
            read_universal, recorded = _UNIVERSAL[form]
            universal = read_universal(document)

            def lock_side(environments: tuple[Environment, ...]) -> Side:
                with malformed(path):
                    lock = universal.lock(environments)
                    return Side(str(path), lock, frozenset(recorded.split()), format=form, terms=terms_of("", document))

            rows = document.get("package") or document.get("packages") or ()
            return _Waiting(
                lock_side,
                universal.offers,
                oldest_python(universal.python),
                universal.supported,
                frozenset((canonical_name(row["name"]), str(row.get("version", ""))) for row in rows),
                max(_MINOR.findall(text), key=numbers, default="3.0"),
            )
        read_lock, recorded = _BY_PLATFORM[form]
        contents = None if form == "explicit" else yaml_of(text)
        reading = read_lock(text if contents is None else contents)
        terms = terms_of(text, contents)
    lock: Lock = reading[0] if isinstance(reading, tuple) else reading
    complete: bool = reading[1] if isinstance(reading, tuple) else True
    return _check(
        Side(str(path), lock, frozenset(recorded.split()), complete, by_platform=True, format=form, terms=terms)
    )


def _check(side: Side) -> Side:
    """Check that every package of a side has a name, a version and requirements that comparisons can read.

    All formats pass through here, so no reader can forget the check. Raises InputError.
    """
    with malformed(Path(side.title)):
        for pin in dict.fromkeys(pin for target in side.lock for pin in target.pins):
            check_pin(pin)
    return side


def oldest_python(specifier: str | None) -> str | None:
    """Return the oldest minor Python of a specifier such as `>=3.10,<4` or Poetry's `^3.10`."""
    match = re.search(r"(?:>=|~=|==|\^|~) {0,9}(3\.\d{1,3})", specifier or "")
    return match[1] if match else None
