"""The table `data/repodata_patches.toml`: what of conda-forge's patches holds on PyPI, a row a run of releases."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envspec.facts.corrections import corrections
from envspec.packages.conda import pypi_names
from envspec.packages.requirement import Clause
from tools.refresh.conda_bounds import specifier_text as specifier
from tools.refresh.conda_patches import Patch, patches_of
from tools.refresh.needed_bounds import Needed, needs_of
from tools.refresh.published import Index, Row, row_text
from tools.refresh.releases import PYTHONS, DatedRelease, releases

if TYPE_CHECKING:
    from packaging.version import Version

REPOSITORY = "conda-forge/conda-forge-repodata-patches-feedstock"

_HEADER = """\
# What conda-forge corrects in its own packages and the METADATA on PyPI lacks. `python -m tools.refresh patches` made
# it from the repodata patches of {repository}
# at revision {revision} (BSD-3-Clause: facts alone are taken from it, no text).
# Every row was compared with PyPI: METADATA names the dependency and admits what the bound leaves out, wheels are left
# to choose from on every Python that the marker admits, and the bound was news when the releases were made.
# The packages were not run together here, so a row gives way to requirements that can't be met beside it.
# The marker is part of the constraint: on other Pythons, the bound would leave nothing to install.
# The columns are those of corrections.toml. Rows of one package and dependency share a name, which stays when bounds
# move.
#
# Of {all} bounds and other changes in {files} files, {kept} hold, in {rows} rows. The others:
"""

_Pair = tuple[str, str]
_Judged = tuple[Needed, tuple[tuple[Patch, str], ...]]

Each = Callable[[Callable[[_Pair], _Judged], Iterable[_Pair]], Iterable[_Judged]]
"""`map`, or one that does several at once."""


@dataclass(frozen=True)
class Converted:
    """The table's text, and how many patches were left out for which reason."""

    text: str
    left_out: Mapping[str, int]


@dataclass(frozen=True)
class _Run:
    """Releases in a row that need the same bounds. `low` is None where nothing older is to be kept out."""

    low: Version | None
    high: Version
    bounds: tuple[Clause, ...]
    marker: str


def table_from(
    files: Mapping[str, str],
    revision: str,
    index: Index,
    each: Each = map,
) -> Converted:
    """Make the table from the texts of a repository's files, by name, at a revision. Raises InputError for a file that
    isn't YAML, and IndexFailure.
    """
    patches, others = patches_of(files)
    counted = Counter(one.reason for one in others)
    pairs, unnamed = _by_pair(patches)
    counted.update(unnamed)
    proved = corrections().firm()
    by_package: dict[str, list[Patch]] = {}
    for (package, _), several in pairs.items():
        by_package.setdefault(package, []).extend(several)
    known: dict[str, tuple[DatedRelease, ...]] = {}

    def of(project: str) -> tuple[DatedRelease, ...]:
        if project not in known:
            known[project] = releases(project, index.files(project))
        return known[project]

    def judge(pair: _Pair) -> _Judged:
        if _is_another_project(by_package[pair[0]], of(pair[0])):
            return Needed(*pair), tuple((patch, _OTHER_PROJECT) for patch in pairs[pair])
        return needs_of(*pair, pairs[pair], of, index, proved)

    rows: list[Row] = []
    kept: set[Patch] = set()
    for found, left_out in each(judge, sorted(pairs)):
        counted.update(reason for _, reason in left_out)
        kept.update(set(pairs[found.package, found.dependency]) - {patch for patch, _ in left_out})
        rows += _rows(found, of(found.package))
    return Converted(_text(rows, revision, sorted(files), len(kept), counted), counted)


_OTHER_PROJECT = "PyPI has none of the releases that patches of the package name: it may be another project"


def _is_another_project(patches: Iterable[Patch], known: Sequence[DatedRelease]) -> bool:
    """Say whether patches name single releases of a package, and PyPI's project of that name has none of these."""
    from packaging.version import Version

    named = {version for patch in patches for version in patch.when.named}
    there = {release.version for release in known}
    try:
        return bool(named and known) and there.isdisjoint(map(Version, named))
    except ValueError:
        return False


def _by_pair(patches: Iterable[Patch]) -> tuple[dict[_Pair, list[Patch]], list[str]]:
    """Sort patches by PyPI's names of package and dependency; and why some have none."""
    pairs: dict[_Pair, list[Patch]] = {}
    unnamed = []
    for patch in patches:
        packages = {name for conda in patch.packages for name in _pypi(conda)}
        dependency = _pypi(patch.dependency)
        if not packages or not dependency:
            unnamed.append("conda's name has none on PyPI")
        elif packages == {*dependency}:
            unnamed.append("both are parts of one package on PyPI")
        for package in sorted(packages - {*dependency}) if dependency else ():
            pairs.setdefault((package, dependency[0]), []).append(patch)
    return pairs, unnamed


def _pypi(conda: str) -> tuple[str, ...]:
    """The PyPI name of a conda package, if it's a single one."""
    found = pypi_names(conda, ())
    return found if len(found) == 1 else ()


def _rows(found: Needed, known: Sequence[DatedRelease]) -> Iterator[Row]:
    package = found.package
    for run in _runs(found, [release.version for release in known]):
        bound = specifier(run.bounds)
        files = sorted({file for clause in run.bounds for file in found.files[clause]})
        yield {
            "name": f"conda-forge-{package}-{found.dependency}",
            "package": package,
            "versions": _versions(run),
            "constraint": found.dependency + bound + run.marker,
            "reason": _reason(package, run, found.dependency + bound),
            "source": " ".join(map(_key, files)),
            "proved": "reported",
        }


def _versions(run: _Run) -> str:
    if run.low == run.high:
        return f"=={run.high}"
    return f"<={run.high}" if run.low is None else f">={run.low},<={run.high}"


def _reason(package: str, run: _Run, requirement: str) -> str:
    if run.low == run.high:
        return f"conda-forge found that {package} {run.high} needs {requirement}, and its METADATA doesn't say so"
    which = f"{run.high} and older need" if run.low is None else f"{run.low} to {run.high} need"
    return f"conda-forge found that {package} {which} {requirement}, and their METADATA doesn't say so"


def _runs(found: Needed, versions: Sequence[Version]) -> Iterator[_Run]:
    """Join neighbouring releases that need the same. The oldest run is open to what is older still, where that is
    harmless."""
    for number, (bounds, run) in enumerate(_neighbours(found, versions)):
        good, bad = (frozenset().union(*map(told.__getitem__, run)) for told in (found.pythons, found.without))
        marker = _marker(good, bad)
        older = versions[: versions.index(run[0])]
        harmless = number == 0 and all(_is_harmless(found, bounds, version) for version in older)
        if marker is not None:
            free = harmless and bool(older or len(run) > 1)
            yield _Run(None if free else run[0], run[-1], _strictest(bounds), marker)


def _neighbours(found: Needed, versions: Sequence[Version]) -> Iterator[tuple[frozenset[Clause], list[Version]]]:
    """Releases one after the other that need the same bounds. One in between that needs nothing doesn't part them if
    the bounds are meant for it as well, and are harmless."""
    run: list[Version] = []
    for version in versions:
        needs = found.bounds.get(version, frozenset())
        if run and needs == found.bounds[run[-1]]:
            run.append(version)
        elif not run or needs or not _is_harmless(found, found.bounds[run[-1]], version):
            if run:
                yield found.bounds[run[-1]], run
            run = [version] if needs else []
    if run:
        yield found.bounds[run[-1]], run


def _is_harmless(found: Needed, bounds: frozenset[Clause], version: Version) -> bool:
    return bounds <= found.covered.get(version, frozenset())


def _marker(good: frozenset[str], bad: frozenset[str]) -> str | None:
    """A marker that leaves out the bad Pythons on either side of the good ones, empty for none; None where there is no
    such marker."""
    rank = {python: place for place, python in enumerate(PYTHONS)}
    kept = sorted(map(rank.__getitem__, good - bad))
    left_out = sorted(map(rank.__getitem__, bad))
    if not kept or any(kept[0] < place < kept[-1] for place in left_out):
        return None
    below = [place for place in left_out if place < kept[0]]
    above = [place for place in left_out if place > kept[-1]]
    ends = [f"python_version >= '{PYTHONS[below[-1] + 1]}'"] if below else []
    ends += [f"python_version < '{PYTHONS[above[0]]}'"] if above else []
    return f"; {' and '.join(ends)}" if ends else ""


def _strictest(bounds: frozenset[Clause]) -> tuple[Clause, ...]:
    """Of several lower or upper bounds, the one that says the most."""
    from packaging.version import Version

    kept: dict[tuple[str, str], Clause] = {}
    for operator, version in sorted(bounds):
        side = {">=": "low", ">": "low", "<": "high", "<=": "high"}.get(operator)
        if side is None:
            kept[operator, version] = (operator, version)
            continue
        before = kept.get((side, ""))
        better = max if side == "low" else min
        kept[side, ""] = better(filter(None, (before, (operator, version))), key=lambda clause: Version(clause[1]))
    return tuple(sorted(kept.values()))


def _key(file: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", file.removesuffix(".yaml"))


def _text(rows: Sequence[Row], revision: str, files: Iterable[str], kept: int, left_out: Counter[str]) -> str:
    keys = {key for row in rows for key in row["source"].split()}
    used = sorted(file for file in files if _key(file) in keys)
    header = _HEADER.format(
        repository=REPOSITORY,
        revision=revision,
        all=kept + sum(left_out.values()),
        files=len([*files]),
        kept=kept,
        rows=len(rows),
    )
    reasons = sorted(left_out.items(), key=lambda counted: (-counted[1], counted[0]))
    return "\n".join(
        [
            header + "\n".join(f"# {count:5}  {reason}" for reason, count in reasons),
            "schema = 1",
            'proof.report = "*"',
            *(f'sources.{_key(file)} = "recipe/patch_yaml/{file} of {REPOSITORY} at {revision[:8]}"' for file in used),
            "",
            "corrections = [",
            *map(row_text, rows),
            "]",
            "",
        ]
    )
