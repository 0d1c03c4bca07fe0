"""conda's names, versions, builds and match specs, without conda's solver: the parts that judging a lock needs.

A regular expression is asked of rattler, in whose dialect it is; without rattler it counts as satisfied, as any clause
that this module doesn't read: the solver judged it.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import cache, cached_property, lru_cache
from pathlib import Path

from msgspec import Struct

from envspec.packages.names import conda_name
from envspec.packages.requirement import TEXTS, canonical_name, too_much
from envspec.packages.version_numbers import numbers_in

# conda's order of versions, that of its `VersionOrder`: epochs, letters before numbers, `dev` first, `post` last.

_PARTS = re.compile(r"[0-9]+|[a-z]+")

Component = tuple[tuple[int, int | str], ...]
"""One component of a version: pairs of a rank and a number or a word, in which a number may follow a word."""


def epoch_of(version: str) -> int:
    """The epoch (`1` of `1!2.0`), 0 without one."""
    epoch, mark, _ = version.partition("!")
    return _number(epoch) if mark and epoch.isdecimal() else 0


@lru_cache(maxsize=8192)
def components(version: str) -> tuple[tuple[Component, ...], tuple[Component, ...]]:
    """The release and the local part (after `+`) as comparable components."""
    rest = version.lower().rpartition("!")[2]
    release, _, local = rest.partition("+")
    return _split(release), _split(local) if local else ()


def compare(old: str, new: str) -> int:
    """Compare two versions: -1 if `old` comes before `new`, 0 if they are the same (`1.0` and `1`), else 1."""
    if epoch_of(old) != epoch_of(new):
        return -1 if epoch_of(old) < epoch_of(new) else 1
    for ours, theirs in zip(components(old), components(new), strict=True):
        length = max(len(ours), len(theirs))
        left, right = _pad(ours, length), _pad(theirs, length)
        if left != right:
            return -1 if left < right else 1
    return 0


def starts_with(version: str, prefix: str) -> bool:
    """Return whether a version matches `prefix.*`: `1.2` matches `1.2.3` and `1.2a`, not `1.20`; `1.0` matches `1a`."""
    if epoch_of(version) != epoch_of(prefix):
        return False
    prefix_components, prefix_local = components(prefix)
    version_components, local = components(version)
    return _begins(version_components, prefix_components) and _begins(local, prefix_local)


def _begins(components: tuple[Component, ...], prefix: tuple[Component, ...]) -> bool:
    # zeros that the version leaves out ask for nothing, not even that its last component ends there (rattler's rule)
    while len(prefix) > len(components) and prefix[-1] == _ZERO:
        prefix = prefix[:-1]
    if not prefix or len(prefix) > len(components):
        return not prefix
    *whole, last = prefix
    part = components[len(whole)][: len(last)]
    if components[: len(whole)] != tuple(whole) or part[:-1] != last[:-1]:
        return False
    (rank, value), (_, end) = part[-1] if len(part) == len(last) else (-1, ""), last[-1]
    if isinstance(end, str) and isinstance(value, str) and rank >= 0:
        return value.startswith(end)
    return part == last


def _split(text: str) -> tuple[Component, ...]:
    # a dash stands for an underscore; a trailing underscore (openssl's 1.0.1_) is a part of its own
    text = text.replace("-", "_")
    trailing = text.endswith("_")
    components = [_component(part) for part in re.split(r"[._]", text.rstrip("_"))]
    if trailing and components:
        components[-1] = (*components[-1], _word("_"))
    return tuple(components)


def _component(text: str) -> Component:
    parts: list[tuple[int, int | str]] = [
        (_NUMBER, _number(part)) if part.isdecimal() else _word(part) for part in _PARTS.findall(text)
    ]
    # a component starts with a number, so that 1.a1 is 1.0a1
    if not parts or parts[0][0] != _NUMBER:
        parts.insert(0, (_NUMBER, 0))
    return tuple(parts)


def _number(digits: str) -> int:
    """A number; Python reads none of more than 4300 digits. No version has one, and what claims to is the greatest."""
    return int(digits) if len(digits) <= _DIGITS else 10**_DIGITS


_DIGITS = 1000
_DEV, _WORD, _NUMBER, _POST = range(4)
_ZERO: Component = ((_NUMBER, 0),)


def _word(text: str) -> tuple[int, int | str]:
    if text == "dev":
        return (_DEV, 0)
    if text == "post":
        return (_POST, 0)
    return (_WORD, text)


def _pad(parts: tuple[Component, ...], length: int) -> list[list[tuple[int, int | str]]]:
    """Pad to as many components as the other version has, all of one width, with 0."""
    return [[*part, *[(_NUMBER, 0)] * (_WIDTH - len(part))] for part in (*parts, *[_ZERO] * (length - len(parts)))]


_WIDTH = 12
"""Parts of a component: more than any real version has. A fixed width makes components comparable as lists."""


MAX_MATCH_SPEC = 2000
"""Characters of a match spec. rattler's parser recurses without a bound: thousands of parentheses kill the process."""

_NAME = re.compile(r"(?:[^\s=<>!~\[]*::)?[^\s=<>!~\[]+")
_BRACKET = re.compile(r"([a-z_0-9]+)\s*=\s*(?:'([^']*)'|\"([^\"]*)\"|([^,\]'\"]+))")
_SUBDIR = re.compile(r"noarch|(?:linux|osx|win|emscripten|wasi|freebsd|zos)-[a-z0-9]+")
_WITH_BUILD = re.compile(r"(.*[^=!|,<>~])=([^=,|<>~-]+)")
_FIRST_STARRED = re.compile(r"==[^,|]*\*(?:[,|]|$)")
_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|=|>|<)?\s*(\S+)")


@lru_cache(maxsize=TEXTS)
def admits(match_spec: str, version: str, build: str) -> bool:
    """Return whether a match spec (`pytorch 2.7.* cuda*`, `python>=3.10,<3.13.0a0`) admits a version and a build."""
    # a spec can't hold a longer one, and no version needs as much
    if max(len(match_spec), len(version)) > MAX_MATCH_SPEC or too_much(match_spec) or too_much(version):
        return False
    version_bounds, build_pattern = version_and_build(match_spec)
    return _version_fits(version_bounds, version) and _build_fits(build_pattern, build)


def version_and_build(match_spec: str) -> tuple[str, str]:
    """Read the version and the build of a match spec, each empty if absent."""
    text = " ".join(match_spec.split())
    name = _NAME.match(text)
    rest = text[name.end() :].strip() if name else ""
    named = _bracket_terms(rest)
    version, build = _positional(rest.partition("[")[0].strip())
    return named.get("version", version), named.get("build", build)


def place_of(match_spec: str) -> tuple[str, str]:
    """Read the channel (a name or a URL) and the subdir that a match spec asks for, each empty if absent:
    `conda-forge/linux-64::ffmpeg`, `ffmpeg[channel=conda-forge, subdir=noarch]`."""
    named = _bracket_terms(match_spec)
    channel, _, _ = match_spec.partition("[")[0].rpartition("::")
    channel = named.get("channel", channel.strip())
    above, _, last = channel.rpartition("/")
    if above and _SUBDIR.fullmatch(last):
        return above, named.get("subdir", last)
    return channel, named.get("subdir", "")


def is_file_of(match_spec: str, sha256: str, md5: str | None) -> bool:
    """Return whether a file has the hashes that a match spec asks for: `ffmpeg[sha256=…]`."""
    named = _bracket_terms(match_spec)
    return named.get("sha256", sha256).lower() == sha256 and named.get("md5", md5 or "").lower() == (md5 or "")


def takes_build_number(match_spec: str, number: int) -> bool:
    """Return whether a match spec admits a build number (`ffmpeg[build_number=">=2"]`), which a lock doesn't hold."""
    bounds = _bracket_terms(match_spec).get("build_number", "")
    return not bounds or _clause_fits(bounds, str(number))


def _bracket_terms(match_spec: str) -> dict[str, str]:
    return {term[0]: "".join(term[1:]) for term in _BRACKET.findall(match_spec.partition("[")[2])}


def _positional(text: str) -> tuple[str, str]:
    joined = re.sub(r" ?([,|]) ?", r"\1", re.sub(r"(?<=[<>=!~]) ", "", text))
    version, _, build = joined.partition(" ")
    if not build and (match := _WITH_BUILD.fullmatch(version)):
        version, build = match.groups()
    if build and not version.startswith("=="):
        # =1.2 is fuzzy without a build, exact with one
        return version.removeprefix("="), build.strip()
    # rattler reads ==1.0.* as 1.0.* where it stands first and no build behind it, and as ==1.0 anywhere else
    return version[2:] if not build and _FIRST_STARRED.match(version) else version, build.strip()


def _version_fits(bounds: str, version: str) -> bool:
    if not bounds:
        return True
    if "(" in bounds:
        return _group_fits(bounds, version)
    return any(
        all(_clause_fits(clause, version) for clause in every.split(",") if clause) for every in bounds.split("|")
    )


def _group_fits(bounds: str, version: str) -> bool:
    """Return whether a version satisfies bounds with parentheses, which group."""
    for sign, joined in (("|", any), (",", all)):
        parts, depth = [""], 0
        for letter in bounds:
            depth += {"(": 1, ")": -1}.get(letter, 0)
            if letter == sign and not depth:
                parts.append("")
            else:
                parts[-1] += letter
        if len(parts) > 1:
            return joined(_version_fits(part.strip(), version) for part in parts)
    inner = bounds.strip()
    is_group = inner.startswith("(") and inner.endswith(")")
    return _version_fits(inner[1:-1].strip(), version) if is_group else _clause_fits(inner, version)


def _clause_fits(clause: str, version: str) -> bool:
    match = _CLAUSE.fullmatch(clause.strip())
    if match is None or match[2].startswith("^"):
        return True
    operator, bound = match.groups()
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


def _build_fits(pattern: str, build: str) -> bool:
    if not pattern:
        return True
    if pattern.startswith("^") and pattern.endswith("$"):
        return _expression_fits(pattern, build)
    # of rattler's patterns, `*` alone stands for more than itself
    return fnmatchcase(build.lower(), re.sub(r"[?[]", r"[\g<0>]", pattern.lower()))


def _expression_fits(expression: str, build: str) -> bool:
    try:
        from rattler import MatchSpec, PackageName, PackageRecord, VersionWithSource, exceptions, package
    except ImportError:
        return True
    quote = "'" if '"' in expression else '"'
    try:
        record = PackageRecord(PackageName("a"), VersionWithSource("1"), package.BuildString(build), 0, "noarch", None)
        return MatchSpec(f"a[build={quote}{expression}{quote}]").matches(record)
    except (exceptions.InvalidMatchSpecError, ValueError):
        return False


# Conda builds as their records describe them: for which device and which CUDA.

_MARKED_CUDA = re.compile(r"cuda(?:(\d\d)(\d)(?!\d))?")
_MARKED_CPU = re.compile(r"(?:^|_)cpu(?:_|\d|$)")
_CUDA_PACKAGES = ("__cuda", "cuda-version", "cudatoolkit")
"""Packages that only CUDA builds depend on (conda-forge's CUDA documentation)."""
_LOWEST = re.compile(r"(?:^|,|=| )>?=? ?(\d+\.\d+)")


class BuildRecord(Struct, frozen=True, dict=True):
    """One build of a package, as its record describes it."""

    name: str
    version: str
    string: str
    number: int
    subdir: str
    depends: tuple[str, ...]

    @cached_property
    def for_cuda(self) -> bool:
        return bool(_MARKED_CUDA.search(self.string)) or any(
            depend.startswith(_CUDA_PACKAGES) and conda_name(depend) in _CUDA_PACKAGES for depend in self.depends
        )

    @cached_property
    def for_cpu(self) -> bool:
        """Return whether the build string names the CPU build."""
        return not self.for_cuda and bool(_MARKED_CPU.search(self.string))

    @cached_property
    def cuda(self) -> str | None:
        """The lowest CUDA ("12.6") that the build runs with, None if the record doesn't say."""
        marked = _MARKED_CUDA.search(self.string)
        if marked and marked[1]:
            return f"{marked[1]}.{marked[2]}"
        for depend in self.depends:
            # `__cuda >=11.8` bounds the driver alone: newer majors answer it too
            if conda_name(depend) in ("cuda-version", "cudatoolkit") and (
                match := _LOWEST.search(" ".join(depend.split()))
            ):
                return match[1]
        return None

    def admits(self, cuda: str) -> bool:
        """Return whether the build runs with this CUDA: its own major, and its own minor or a higher one."""
        return self.for_cuda and (
            self.cuda is None or (major(self.cuda) == major(cuda) and numbers_in(self.cuda) <= numbers_in(cuda))
        )

    def runs_on_python(self, python: str) -> bool:
        """Return whether the build fits this Python: False for one made for another."""
        abi = [depend.split()[1] for depend in self.depends if depend.startswith("python_abi ")]
        return all(version.startswith(f"{python}.") for version in abi)

    def __str__(self) -> str:
        return f"{self.name} {self.version} {self.string}"


def foreign_builds(solution: Iterable[BuildRecord], cuda: str) -> list[BuildRecord]:
    """Find the builds of a solution that are for another CUDA major than the asked one."""
    return [build for build in solution if build.cuda and build.for_cuda and major(build.cuda) != major(cuda)]


def major(version: str) -> str:
    """Read the major: "12" of "12.8"."""
    return version.partition(".")[0]


# PyPI names of conda packages: from the record's `purls` if it has them, else from parselmouth's table.
#
# parselmouth (prefix.dev, BSD-3-Clause) looks into every conda-forge package for the distributions it installs; pixi
# uses the same table. `data/conda_pypi.txt` is the table of the date it names, with its licence beside it; `python -m
# tools.refresh conda-names` makes it.

SAME = "="
"""The table's sign for the same name on PyPI."""
_CORRECTIONS = {
    # the CUDA build holds the plugins too, and the table names one distribution a package
    "jaxlib": "jaxlib",
}


def pypi_names(name: str, depends: Iterable[str], purls: Iterable[str] = ()) -> tuple[str, ...]:
    """List the PyPI names (normalised) of a conda package's distributions, sorted; empty if it installs none.

    A package that isn't in the table yet counts under its own name if it depends on Python.
    """
    named = {_of_purl(purl) for purl in purls if purl.startswith("pkg:pypi/")}
    if named:
        return tuple(sorted(named))
    if name in _CORRECTIONS:
        return (_CORRECTIONS[name],)
    tabled = _in_table(name)
    if tabled is not None:
        return (canonical_name(name),) if tabled == SAME else (tabled,) if tabled else ()
    return untabled_names(name, depends)


def untabled_names(name: str, depends: Iterable[str]) -> tuple[str, ...]:
    """List the PyPI names of a package that the table doesn't have, or didn't have yet when it was locked."""
    return (canonical_name(name),) if any(conda_name(depend) == "python" for depend in depends) else ()


def _of_purl(purl: str) -> str:
    return canonical_name(purl.removeprefix("pkg:pypi/").partition("@")[0].partition("?")[0])


def _in_table(name: str) -> str | None:
    """Look up a conda package in the table: "=", a PyPI name, "" for none; None if the package isn't in the table."""
    lines = _lines()
    at = bisect_left(lines, name, key=_name_on)
    known = at < len(lines) and _name_on(lines[at]) == name
    return lines[at].partition(" ")[2] if known else None


@cache
def _lines() -> list[str]:
    """The table's lines, sorted by conda's name; the header's begin with #, which sorts before every name."""
    return Path(__file__).with_name("data").joinpath("conda_pypi.txt").read_text(encoding="utf-8").splitlines()


def _name_on(line: str) -> str:
    return line.partition(" ")[0]
