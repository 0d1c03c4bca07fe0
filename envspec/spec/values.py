"""Values that no pattern can judge: requirements, match specs, points in time, arrays of them. Raises BadValue."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from packaging.requirements import InvalidRequirement
from packaging.specifiers import SpecifierSet

from envspec.base.errors import ToolError
from envspec.base.reader.document import key_path, show
from envspec.base.reader.nodes import BadValue
from envspec.base.reader.positions import Path
from envspec.base.reader.structure import Checked
from envspec.base.redact import has_credentials
from envspec.packages.own_extras import require_extra
from envspec.packages.requirement import canonical_name, parse_requirement, too_much
from envspec.spec.model import Located

if TYPE_CHECKING:
    from rattler import MatchSpec


class Dependency(Struct, frozen=True):
    """A requirement or match spec. Two with the same `identity` ask for the same package under the same conditions."""

    text: str
    name: str
    identity: tuple[str, ...]


def requirement(text: str) -> Dependency:
    """Parse a requirement in the form of PEP 508; gives it with its names normalised (PEP 503)."""
    try:
        parsed = parse_requirement(text)
    except InvalidRequirement as error:
        reason = str(error).split("\n")[0]
        reason = f"isn't a PEP 508 requirement: {reason[:1].lower()}{reason[1:]}"
        raise BadValue(reason, _requirement_hint(text)) from None
    if parsed.url:
        _refuse_credentials(parsed.url)
    parsed.name = canonical_name(parsed.name)
    parsed.extras = {canonical_name(extra) for extra in parsed.extras}
    return Dependency(str(parsed), parsed.name, (parsed.name, str(parsed.marker or "")))


def bound(text: str) -> Dependency:
    """Parse a constraint: a requirement without URL and extras, which asks for nothing."""
    parsed = requirement(text)
    if "@" in parsed.text.partition(";")[0]:
        raise BadValue("names an address, and a constraint only bounds versions", "put it into dependencies")
    if "[" in parsed.text.partition(";")[0]:
        raise BadValue("asks for extras, and a constraint asks for nothing", "leave the extras out")
    if parsed.text.partition(";")[0].strip() == parsed.name:
        raise BadValue("bounds nothing: it has no version", f"for example: '{parsed.name}<2'")
    _refuse_extra_marker(parsed)
    return parsed


def override(text: str) -> Dependency:
    """Parse an override: a requirement that isn't of an extra."""
    parsed = requirement(text)
    _refuse_extra_marker(parsed)
    return parsed


def _refuse_extra_marker(parsed: Dependency) -> None:
    if re.search(r"\bextra\b", parsed.text.rpartition(";")[2] if ";" in parsed.text else ""):
        raise BadValue("has an extra in its marker", "leave it out: it holds for the package, whoever asks for it")


def _requirement_hint(text: str) -> str:
    text = text.strip()
    pinned = re.match(r"([A-Za-z0-9._-]+)(?:\s*=\s*|\s+)([0-9][A-Za-z0-9.*+!_-]*)$", text)
    if pinned:
        return f"write '{pinned[1]}=={pinned[2]}'"
    if text.startswith("-"):
        return "pip's options don't belong here; [pip] has the keys indexes, sources and allow-source"
    if re.match(r"[a-z+]+://", text):
        return "begin with the package's name: 'NAME @ URL'"
    if "::" in text:
        return "match specs belong in [conda]"
    if text.startswith((".", "/", "~")) or text.endswith((".whl", ".tar.gz", ".zip")):
        return 'write NAME, and name the file\'s folder: find-links = { own = "./wheels" }, sources = { NAME = "own" }'
    return "for example: 'torch==2.9.*' or 'transformers>=4.57,<5'"


def _refuse_credentials(url: str) -> None:
    if has_credentials(url):
        hint = "leave the credentials out: git's credential helpers, ssh or netrc give them to `envspec lock`"
        raise BadValue("has credentials in its URL", hint)


def specifier(text: str) -> str:
    """Parse a version or a PEP 440 specifier. Returns a specifier, its clauses sorted: `2.8.3` is `==2.8.3`."""
    if reason := too_much(text):
        raise BadValue(f"isn't a version: {reason}", "for example: 2.8.3")
    stripped = text.strip()
    try:
        parsed = SpecifierSet(f"=={stripped}" if stripped[:1] not in "<>=!~" else stripped)
    except ValueError:
        raise BadValue("isn't a version or a specifier", 'for example: "2.8.3", "2.8.*" or ">=2.7,<2.9"') from None
    return ",".join(sorted(clause.operator + clause.version for clause in parsed))


_NUMBER = r"(?:0|[1-9]\d{0,15})"
_VERSION = rf"{_NUMBER}(?:\.{_NUMBER})*"
_BOUND = rf"(?:>=|<=|==|!=|<|>){_VERSION}"
_PLAIN_MATCH_SPEC = re.compile(
    rf"([A-Za-z0-9_][A-Za-z0-9_.-]*)(?: *({_BOUND}(?:,{_BOUND})*)| +({_VERSION}\.\*))?", re.ASCII
)
"""The forms that rattler gives back unchanged, except for spaces and the name's case."""


def match_spec(text: str) -> Dependency:
    """Parse a conda match spec; gives it as rattler writes it.

    Plain match specs are read without rattler, so that reading a lock doesn't need it. Raises ToolError for other match
    specs where py-rattler isn't installed.
    """
    from envspec.packages.conda import MAX_MATCH_SPEC

    if len(text) > MAX_MATCH_SPEC:
        raise BadValue(f"is longer than {MAX_MATCH_SPEC} characters", "make it shorter")
    if reason := too_much(text):
        raise BadValue(f"isn't a match spec: {reason}", "write it with fewer parentheses")
    plain = _PLAIN_MATCH_SPEC.fullmatch(text.strip(" "))
    if plain is not None:
        name, bound = plain[1].lower(), plain[2] or plain[3]
        return Dependency(f"{name} {bound}" if bound else name, name, (name,))
    require_extra("conda", f"reading the match spec {show(text)} needs")
    from rattler import MatchSpec
    from rattler.exceptions import InvalidMatchSpecError

    try:
        parsed = MatchSpec(text)
    except InvalidMatchSpecError as error:
        # rattler quotes the part that it stumbles over; where there is a URL, that could be a password.
        reason = "" if "://" in text else ": " + str(error).split("\n")[0]
        raise BadValue(f"isn't a match spec{reason}", "for example: 'ffmpeg 7.*' or 'ffmpeg >=7,<8'") from None
    for url in re.findall(r"(?<![A-Za-z+])[A-Za-z+]+://[^\s\"'\]]*", text):
        _refuse_credentials(url)
    name = _conda_name(parsed)
    return Dependency(str(parsed), name, (name,))


def _conda_name(parsed: MatchSpec) -> str:
    name = parsed.name
    assert name is not None, "a match spec without a name doesn't parse"
    return name.normalized


# The arrays of requirements and match specs in a checked document.


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
    by_identity: dict[tuple[str, ...], Located] = {}
    for entry, text in checked.children(*path):
        try:
            dependency = parse(text)
        except BadValue as error:
            checked.problem(entry, f"{key_path(path)}: {show(text)} {error.reason}", error.hint)
            continue
        except ToolError as error:
            error.place = checked.place(*entry)
            raise
        place = checked.place(*entry)
        first = by_identity.setdefault(dependency.identity, Located(dependency.text, place))
        if first.place == place:
            continue
        joined = None if parse is match_spec else _join(first.text, dependency.text)
        if joined is None:
            hint = f"line {first.place.line} already has it: join the two"
            checked.problem(entry, f"{key_path(path)}: {show(text)} asks for {dependency.name} a second time", hint)
        else:
            by_identity[dependency.identity] = Located(joined, first.place)
    return tuple(by_identity.values())


def _join(line: str, other: str) -> str | None:
    """Write two requirements of one package and marker as one; None where an address is among them."""
    if line == other:
        return line
    joined, more = parse_requirement(line), parse_requirement(other)
    if joined.url or more.url:
        return None
    joined.extras |= more.extras
    joined.specifier &= more.specifier
    return requirement(str(joined)).text
