"""Python and CUDA as the files bound them: what all bounds together allow, and what can't hold beside the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct
from packaging.markers import InvalidMarker

from envspec.base.errors import Place
from envspec.draft.model import Note, VersionClaim
from envspec.facts import conda_builds, torch_builds
from envspec.facts.python_builds import TRIPLES, versions_of
from envspec.facts.toolkits import cuda_releases
from envspec.packages.conda import admits
from envspec.packages.python_range import bound_of, releases_of
from envspec.packages.requirement import is_requirement, parse_marker
from envspec.packages.tags import marker_environment
from envspec.packages.version_numbers import numbers
from envspec.spec.forms import PYTHONS

_PYTHON = re.compile(r"\s*={0,2}\s*(?:cpython[-@]?)?(3\.[0-9]{1,2})(\.[0-9]{1,2}(?![0-9a-z]))?(?![0-9])")
"""A version of Python that a tag, cog.yaml or .python-version names."""
_CUDA = re.compile(r"={0,2}([0-9]+\.[0-9]+)(?:\.[0-9*]+)*")
"""A match spec's version that names one CUDA."""
_PATCHES = 20
"""More patch releases than any CUDA had."""


class Agreement(Struct, frozen=True):
    """The Python and CUDA that claims allow together.

    python       the version that the files name ("3.12", "3.12.6"); None where they only bound it, or say nothing
    requires     the specifier that bounds it
    cuda         the CUDAs that are named, newest first; "cpu" alone where the files want none
    cuda_bounds  the versions of match specs that bound the CUDA, of which each holds
    notes        what can't hold beside the rest
    """

    python: str | None = None
    requires: str | None = None
    cuda: tuple[str, ...] = ()
    cuda_bounds: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()


@lru_cache(maxsize=256)
def settle(claims: tuple[VersionClaim, ...], platform: str = "linux-64") -> Agreement:
    """Find what the bounds that hold on a platform allow together; the first that says it leads."""
    holding = [claim for claim in claims if may_hold(claim.marker, platform)]
    python, requires, notes = _python(holding)
    cuda, cuda_bounds, left = _cuda(holding)
    return Agreement(python, requires, cuda, cuda_bounds, (*notes, *left))


def may_hold(marker: str, platform: str) -> bool:
    """Return whether a marker holds on a platform with any Python; one that can't be read does."""
    if not marker:
        return True
    try:
        parsed = parse_marker(marker)
        return any(parsed.evaluate(marker_environment(platform, f"{minor}.9")) for minor in PYTHONS)
    except (InvalidMarker, ValueError):
        return True


def _python(bounds: Sequence[VersionClaim]) -> tuple[str | None, str | None, list[Note]]:
    python: str | None = None
    of: str | None = None
    requires: str | None = None
    notes: list[Note] = []
    for bound in bounds:
        named, place = _PYTHON.match(bound.text) if bound.about == "python-version" else None, bound.place
        version: str | None = None
        if named:
            version, note = _version(named[1], named[2] or "", place)
            notes += [note] if note else []
        elif bound.about.startswith("python") and bound.text.strip():
            requires, version, note = _narrow(requires, bound)
            notes += [note] if note else []
        # of the tags of a file the last counts, as a Dockerfile's last stage does
        if version and (python is None or version.startswith(f"{python}.") or (named and of == place.file)):
            python, of = version, place.file
        elif version and python and not named and not python.startswith(version):
            text = f"Python {(bound.written or bound.text).strip(' =')} is left out: {python} is asked for, too"
            notes.append(Note(text, place))
    return python, requires, notes


def _version(minor: str, patch: str, place: Place) -> tuple[str | None, Note | None]:
    """Give a Python that is named, with its patch release where envspec knows the build."""
    if minor not in PYTHONS:
        return None, Note(f"Python {minor} is left out: envspec takes {PYTHONS[0]} to {PYTHONS[-1]}", place)
    known = [version for platform in TRIPLES for version in versions_of(minor, platform)]
    if patch and f"{minor}{patch}" not in known:
        return minor, Note(f"Python {minor}{patch} is taken as {minor}: envspec knows no build of it", place)
    return f"{minor}{patch}", None


def _narrow(requires: str | None, bound: VersionClaim) -> tuple[str | None, str | None, Note | None]:
    """Give the bound on Python beside one that there is already, and the version where one alone is left."""
    specifier, place = bound.text.strip(), bound.place
    written = (bound.written or specifier).strip(" =")
    clauses = f"{requires or ''},{specifier}".split(",")
    together = ",".join(dict.fromkeys(clause.strip() for clause in clauses if clause.strip()))
    fitting = [minor for minor in PYTHONS if releases_of(minor, together)]
    if not fitting:
        why = f"the file says {requires} too" if requires else f"envspec takes {PYTHONS[0]} to {PYTHONS[-1]}"
        why = why if is_requirement(f"python {specifier}") else "it isn't a specifier"
        return requires, None, Note(f"Python {written} is left out: {why}", place)
    releases = releases_of(fitting[0], together)
    exact = bound_of(releases) if len(fitting) == 1 else together
    if len(fitting) > 1 or (exact is not None and len(releases) > 1):
        return together, None, None
    python = fitting[0] if exact is None else releases[0]
    if python == f"{fitting[0]}.0" and python not in written:
        text = f"Python {written} means {python} alone: write {fitting[0]}.* for the newest {fitting[0]}"
        return requires, python, Note(text, place)
    return requires, python, None


def _cuda(bounds: Sequence[VersionClaim]) -> tuple[tuple[str, ...], tuple[str, ...], list[Note]]:
    named = {bound.text: None for bound in bounds if bound.about == "cuda"}
    limits = {bound.text: None for bound in bounds if bound.about == "cuda-version" and bound.text != "*"}
    named |= {exact[1]: None for text in limits if (exact := _CUDA.fullmatch(text))}
    versions = sorted(named.keys() - {"cpu"}, key=numbers, reverse=True)
    together, notes = tuple(limits), list[Note]()
    bare = next((bound for bound in bounds if bound.about == "cuda-version" and bound.text == "*"), None)
    if bare and not (named or limits):
        notes.append(Note("a CUDA without a version is asked for: choose one with --cuda", bare.place))
    for bound in bounds:
        if bound.about == "cuda-driver":
            # the CUDA that drivers reach counts where nothing else chooses one
            if not versions and (not together or within(together, [bound.text])):
                versions, together = (
                    ([bound.text], together) if "." in bound.text else ([], (*together, f"{bound.text}.*"))
                )
            else:
                text = f"machines with CUDA {bound.text} are left out: a target's `driver` says what they have"
                notes.append(Note(text, bound.place))
    inside = within(together, versions)
    if together and not (inside or candidates(together, "linux-64")):
        notes.append(Note(f"no CUDA is {' and '.join(together)}: choose one with --cuda"))
        inside, together = versions, ()
    for bound in dict.fromkeys(bounds):
        if bound.about == "cuda" and bound.text in versions and bound.text not in inside:
            text = f"CUDA {bound.text} is left out: {' and '.join(together)} is asked for, too"
            notes.append(Note(text, bound.place))
    return tuple(inside) or (("cpu",) if "cpu" in named else ()), together, notes


def within(bounds: Iterable[str], versions: Iterable[str]) -> list[str]:
    """Choose the versions ("12.8") that all bounds admit, newest first. One that admits no minor version as it stands,
    as `==11.3.1`, admits those of whose patch releases it admits one."""
    chosen = set(versions)
    for bound in bounds:
        fitting = {version for version in chosen | _versions() if admits(f"cuda {bound}", version, "")}
        chosen &= fitting or {
            version
            for version in chosen | _versions()
            if any(admits(f"cuda {bound}", f"{version}.{patch}", "") for patch in range(_PATCHES))
        }
    return sorted(chosen, key=numbers, reverse=True)


def candidates(bounds: Iterable[str], platform: str, *, by_conda: bool = False) -> list[str]:
    """List the CUDA versions within these bounds for which a torch can be locked, by conda-forge's builds or wheels,
    newest first; without any, all that are known."""
    bounds = tuple(bounds)
    if by_conda:
        built: Iterable[str] = {build.cuda for build in conda_builds.builds(platform=platform) if build.cuda}
    else:
        built = torch_builds.lockable_cudas(platform)
    return within(bounds, built or ("12.8",)) or within(bounds, _versions())


def _versions() -> set[str]:
    return {release.version for release in cuda_releases()}
