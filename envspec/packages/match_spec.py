"""Conda match specs against a version and a build, without conda's solver: the part that judging a lock needs.

A clause that this module doesn't read (a regular expression, a hash) counts as satisfied: the solver judged it.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import lru_cache

from envspec.packages.conda_order import compare, starts_with
from envspec.packages.requirement import TEXTS, too_much

MAX_MATCH_SPEC = 2000
"""Characters of a match spec. rattler's parser recurses without a bound: thousands of parentheses kill the process."""

_NAME = re.compile(r"(?:[^\s=<>!~\[]*::)?[^\s=<>!~\[]+")
_BRACKET = re.compile(r"(version|build|channel|subdir)\s*=\s*(?:'([^']*)'|\"([^\"]*)\"|([^,\]'\"]+))")
_SUBDIR = re.compile(r"noarch|(?:linux|osx|win|emscripten|wasi|freebsd|zos)-[a-z0-9]+")
_EXACT = re.compile(r"=([^=<>!~,|\s]+)=([^=,|\s]+)")
_FIRST_STARRED = re.compile(r"==[^,|]*\*(?:[,|]|$)")
_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|=|>|<)?\s*(\S+)")


@lru_cache(maxsize=TEXTS)
def admits(match_spec: str, version: str, build: str) -> bool:
    """Say whether a match spec (`pytorch 2.7.* cuda*`, `python>=3.10,<3.13.0a0`) admits a version and a build."""
    # a spec can't hold a longer one, and no version needs as much
    if max(len(match_spec), len(version)) > MAX_MATCH_SPEC or too_much(match_spec) or too_much(version):
        return False
    wanted_version, wanted_build = version_and_build(match_spec)
    return _version_fits(wanted_version, version) and _build_fits(wanted_build, build)


def version_and_build(match_spec: str) -> tuple[str, str]:
    """Read the version and the build of a match spec, each empty if absent."""
    text = " ".join(match_spec.split())
    name = _NAME.match(text)
    rest = text[name.end() :].strip() if name else ""
    before, _, bracket = rest.partition("[")
    named = {found[0]: "".join(found[1:]) for found in _BRACKET.findall(bracket)}
    version, build = _positional(before.strip())
    return named.get("version", version), named.get("build", build)


def place_of(match_spec: str) -> tuple[str, str]:
    """Read the channel (a name or a URL) and the subdir that a match spec asks for, each empty if absent:
    `conda-forge/linux-64::ffmpeg`, `ffmpeg[channel=conda-forge, subdir=noarch]`."""
    before, _, bracket = match_spec.partition("[")
    named = {found[0]: "".join(found[1:]) for found in _BRACKET.findall(bracket)}
    channel, _, _ = before.rpartition("::")
    channel = named.get("channel", channel.strip())
    above, _, last = channel.rpartition("/")
    if above and _SUBDIR.fullmatch(last):
        return above, named.get("subdir", last)
    return channel, named.get("subdir", "")


def _positional(text: str) -> tuple[str, str]:
    # name=1.2 and name=1.2=py_0: fuzzy without a build, exact with one
    if exact := _EXACT.fullmatch(text):
        return exact[1], exact[2]
    joined = re.sub(r" ?([,|]) ?", r"\1", re.sub(r"(?<=[<>=!~]) ", "", text))
    version, _, build = joined.partition(" ")
    # rattler reads ==1.0.* as 1.0.* where it stands first and no build behind it, and as ==1.0 anywhere else
    return version[2:] if not build and _FIRST_STARRED.match(version) else version, build.strip()


def _version_fits(wanted: str, version: str) -> bool:
    # parentheses group, which no package's metadata has been seen to need
    if not wanted or "(" in wanted:
        return True
    return any(all(_clause_fits(one, version) for one in every.split(",") if one) for every in wanted.split("|"))


def _clause_fits(clause: str, version: str) -> bool:
    found = _CLAUSE.fullmatch(clause.strip())
    if found is None or found[2].startswith("^"):
        return True
    operator, bound = found.groups()
    if bound == "*":
        return True
    starred = bound.endswith("*")
    bound = bound.rstrip("*").rstrip(".") if starred else bound
    if "*" in bound:
        return operator is not None or fnmatchcase(version, clause)
    if operator == "~=":
        within = bound.rpartition(".")[0]
        return compare(version, bound) >= 0 and (not within or starts_with(version, within))
    if operator == "=" or (starred and operator is None):
        return starts_with(version, bound)
    if starred and operator == "!=":
        return not starts_with(version, bound)
    order = compare(version, bound)
    if starred and operator == ">":
        operator = ">="  # rattler's reading of >1.0.*
    return {">=": order >= 0, "<=": order <= 0, ">": order > 0, "<": order < 0, "!=": order != 0}.get(
        operator or "==", order == 0
    )


def _build_fits(wanted: str, build: str) -> bool:
    if not wanted or wanted.startswith("^"):
        return True
    return fnmatchcase(build, wanted.replace("[", "[[]"))
