"""Two files of any known format, ready to compare."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envspec.diff.foreign.selection import NO_WISH, Offers, Selection, Wish, chosen, described, forks
from envspec.diff.foreign.shape import Malformed, check_pin
from envspec.diff.foreign.universal import DEFAULT_PLATFORMS, DEFAULT_PYTHON, Environment, Universal
from envspec.diff.side import Side
from envspec.errors import InputError, Place, StorageError, ToolError
from envspec.lock.model import Lock
from envspec.packages.marker_environment import PLATFORMS

if TYPE_CHECKING:
    from envspec.diff.foreign.uv_lock import UvLock

_YAML = ("pixi_lock", "conda_lock", "environment_yml")
_TOML = ("poetry_lock", "uv_lock", "pylock")
_BY_PLATFORM = ("pixi_lock", "conda_lock", "explicit", "environment_yml")

KNOWN = (
    "envspec.lock, requirements.txt, pylock.toml, uv.lock, poetry.lock, conda-lock.yml, pixi.lock, explicit lists of"
    " conda packages, environment.yml"
)


@dataclass(frozen=True)
class _Waiting:
    """A universal file whose environments aren't chosen yet. `python` is the oldest version that it supports."""

    open: Callable[[tuple[Environment, ...]], Side]
    offers: Offers
    python: str | None


def sides(old: Path, new: Path, wish: Wish = NO_WISH) -> tuple[Side, Side]:
    """Read two files as sides of a comparison, universal files with the extras and groups that `wish` asks for.

    A universal file is evaluated in the other file's targets. Two universal files are evaluated on Linux, macOS and
    Windows, or where `wish` says. By default, two universal files have all their extras and groups, in several forks
    where some conflict; beside any other file, a universal file has what its tool installs by default.

    Raises InputError for a file that doesn't exist or has no known format (LockError for an envspec lock) and for
    wishes that the files can't meet, StorageError, and ToolError for YAML without PyYAML.
    """
    before, after = _read(old), _read(new)
    waiting = {"old": before, "new": after}
    offers = {side: one.offers for side, one in waiting.items() if isinstance(one, _Waiting)}
    if isinstance(before, _Waiting) and isinstance(after, _Waiting):
        python = wish.python or after.python or before.python or DEFAULT_PYTHON
        platforms = wish.platforms or DEFAULT_PLATFORMS
        both = _whole(offers) if not wish.selects else {side: (chosen(wish, side, offers),) for side in offers}
        looked = {side: _spread(platforms, python, selections) for side, selections in both.items()}
        return _opened(before, looked["old"]), _opened(after, looked["new"])
    if wish.python or wish.platforms:
        option = "--python" if wish.python else "--platform"
        raise InputError(
            f"{option} is for two universal files; {_other(old, new, before)} has its own targets",
            hint=f"leave out {option}",
        )
    if wish.selects and not offers:
        raise InputError(
            "neither file has extras or groups to choose from",
            hint="leave out --extra, --group and --package: they are for uv.lock, poetry.lock and pylock.toml",
        )
    if isinstance(before, _Waiting):
        assert isinstance(after, Side)
        return _opened(before, _environments(after, before.python, chosen(wish, "old", offers))), after
    if isinstance(after, _Waiting):
        return before, _opened(after, _environments(before, after.python, chosen(wish, "new", offers)))
    return before, after


def _other(old: Path, new: Path, before: Side | _Waiting) -> Path:
    return new if isinstance(before, _Waiting) else old


def _whole(offers: Mapping[str, Offers]) -> dict[str, tuple[Selection, ...]]:
    """Select everything that both sides have, with the same forks, so that these can be compared."""
    found = forks(offers.values())
    return dict.fromkeys(offers, found)


def _spread(platforms: Iterable[str], python: str, selections: tuple[Selection, ...]) -> tuple[Environment, ...]:
    return tuple(
        Environment(f"{platform} {one.fork}" if one.fork else platform, platform, python, selection=one)
        for platform in platforms
        for one in selections
    )


def _opened(file: _Waiting, environments: tuple[Environment, ...]) -> Side:
    side = _checked(file.open(environments))
    selections = tuple(dict.fromkeys(one.selection for one in environments))
    return replace(side, chosen=described(selections, file.offers), seen=tuple(dict.fromkeys(map(_seen, environments))))


def _seen(environment: Environment) -> tuple[str, str]:
    return environment.platform, environment.python


def _environments(other: Side, python: str | None, selection: Selection) -> tuple[Environment, ...]:
    """Return the targets of a side. Where a side has no platforms, a universal file is evaluated on Linux."""
    found = []
    for target in other.lock:
        inputs = target.inputs
        platform = inputs.platform if inputs.platform in PLATFORMS else "linux-64"
        version = inputs.python or python or DEFAULT_PYTHON
        found.append(Environment(target.name, platform, version, inputs.glibc, selection))
    return tuple(found)


def _read(path: Path) -> Side | _Waiting:
    """Read a side, or a universal file whose environments aren't chosen yet."""
    text = _text(path)
    form = format_of(path.name, text)
    if form == "envspec":
        from envspec.lock.read import loads

        return Side(str(path), loads(text, str(path)))
    if form == "spec":
        raise InputError("this is a spec, not a lock", place=Place(str(path)), hint="name its envspec.lock")
    if form is None:
        raise InputError("envspec doesn't read this format", place=Place(str(path)), hint=f"envspec reads {KNOWN}")
    module = import_module(f"envspec.diff.foreign.{form}")
    with _malformed(path):
        if form == "requirements":

            def opened(environments: tuple[Environment, ...]) -> Side:
                with _malformed(path):
                    lock, complete = module.read(text, environments)
                return Side(str(path), lock, module.KNOWS, complete, format=form)

            list(module.lines(text))
            return _Waiting(opened, Offers(), None)
        if form in _TOML:
            universal: Universal | UvLock = module.read(_toml(text))

            def looked_at(environments: tuple[Environment, ...]) -> Side:
                with _malformed(path):
                    return Side(str(path), universal.lock(environments), module.KNOWS, format=form)

            return _Waiting(looked_at, universal.offers, oldest_python(universal.python))
        found = module.read(_yaml(text) if form in _YAML else text)
    lock: Lock = found[0] if isinstance(found, tuple) else found
    complete: bool = found[1] if isinstance(found, tuple) else True
    return _checked(Side(str(path), lock, module.KNOWS, complete, form in _BY_PLATFORM, form))


def _checked(side: Side) -> Side:
    """Check that every package of a side has a name, a version and requirements that comparisons can read.

    All formats pass through here, so no reader can forget the check. Raises InputError.
    """
    with _malformed(Path(side.title)):
        for pin in dict.fromkeys(pin for target in side.lock for pin in target.pins):
            check_pin(pin)
    return side


def oldest_python(specifier: str | None) -> str | None:
    """Return the oldest minor Python of a specifier such as `>=3.10,<4` or Poetry's `^3.10`."""
    found = re.search(r"(?:>=|~=|==|\^|~) {0,9}(3\.\d{1,3})", specifier or "")
    return found[1] if found else None


class _malformed:
    """Turn Malformed, and the errors of URL and version parsers, into an InputError that names the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RecursionError):
            raise InputError("this is nested too deeply", place=Place(str(self.path))) from None
        if isinstance(error, Malformed | ValueError):
            raise InputError(str(error)[:500], place=Place(str(self.path), getattr(error, "line", 0))) from None


def _text(path: Path) -> str:
    place = Place(str(path))
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        raise InputError("there is no such file", place=place) from None
    except IsADirectoryError:
        raise InputError("this is a folder", place=place, hint="name the file in it") from None
    except UnicodeDecodeError:
        raise InputError("this is not UTF-8 text", place=place, hint=f"envspec reads {KNOWN}") from None
    except OSError as error:
        raise StorageError(f"this can't be read: {error.strerror}", place=place) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _toml(text: str) -> Mapping[str, Any]:
    import tomli

    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise Malformed(f"this is not TOML: {error}", error.lineno) from None
    except (RecursionError, ValueError) as error:
        raise Malformed(f"this is not TOML: {error}") from None


def _yaml(text: str) -> Mapping[str, Any]:
    """Parse YAML with PyYAML. PyYAML comes with the extra `conda`, whose users have such files; no other format needs
    it. Its C loader is eight times as fast as the one in Python.
    """
    try:
        import yaml
    except ImportError:
        raise ToolError("reading YAML needs PyYAML", hint="pip install 'envspec[conda]'") from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        data = yaml.load(text, Loader=loader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark is not None else 0
        raise Malformed(f"this is not YAML: {' '.join(str(error).split())}", line) from None
    if not isinstance(data, dict):
        raise Malformed("this is not a table of YAML")
    return data


# A format's module, and lines that tell it, whatever the file is called: each begins behind the one before it. They are
# looked for one after the other: one pattern for several would look for the last of them behind each of the first.
_TOLD_BY: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("envspec", (r"\A# Locked from the spec by `envspec lock`",)),
    ("envspec", (r"^lock-version = \d+\n(?:digest = |\n\[env\])",)),
    ("explicit", (r"^@EXPLICIT[ \t]*$",)),
    ("poetry_lock", (r"\A# This file is automatically @generated by Poetry",)),
    ("poetry_lock", (r"^\[\[package\]\]", r"^content-hash = ")),
    ("uv_lock", (r"\Aversion = \d+\n", r"^(?:requires-python = |\[\[package\]\])")),
    ("pylock", (r"^lock-version = ['\"]", r"^(?:\[\[packages\]\]|packages[ \t]*=)")),
    ("pixi_lock", (r"\Aversion: \d+[ \t]*\n", r"^environments:")),
    ("pixi_lock", (r"^environments:", r"^packages:")),
    ("conda_lock", (r"^metadata:", r"^package:")),
    ("conda_lock", (r"^package:", r"^metadata:")),
    ("environment_yml", (r"^dependencies:",)),
    ("spec", (r"^\[env\]|^\[targets[.\]]",)),
)

_OTHER = re.compile(r"\.(?:toml|lock|ya?ml|json|html|md|whl|py)$")


def format_of(name: str, text: str) -> str | None:
    """Recognise a file's format by its content, else by its name; None for an unknown format."""
    for form, lines in _TOLD_BY:
        if _follow(text, lines):
            return form
    return None if _OTHER.search(name) else "requirements"


def _follow(text: str, lines: tuple[str, ...]) -> bool:
    at = 0
    for line in lines:
        found = re.compile(line, re.MULTILINE).search(text, at)
        if found is None:
            return False
        at = found.end()
    return True
