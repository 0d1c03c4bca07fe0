"""The corrections that come from conda-forge's repodata patches: what every row must be, and that PyPI still agrees."""

import random
import re
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envspec.facts import tables
from envspec.packages.requirement import canonical_name, published_requirement

Row = dict[str, Any]
ROWS: list[Row] = tables.read("repodata_patches")["corrections"]
NAMES = [row["name"] for row in ROWS]


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_row_says_what_who_and_in_which_versions(row: Row) -> None:
    assert list(row) == ["name", "package", "versions", "constraint", "reason", "source", "proved"]
    assert row["package"] == canonical_name(row["package"])
    constraint = Requirement(row["constraint"])
    assert constraint.name == canonical_name(constraint.name) != row["package"]
    assert len(constraint.specifier) and not constraint.extras and not constraint.url
    assert row["proved"] == "reported"
    assert row["reason"].startswith("conda-forge found that ") and str(constraint.specifier) in _sorted(row["reason"])


def _sorted(reason: str) -> str:
    """The reason with its specifiers as `packaging` writes them."""
    return re.sub(r"(?<=[a-z0-9])[<>=!~]=?[^ ]*[^ ,]", lambda found: str(SpecifierSet(found[0])), reason)


@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_row_ends_at_a_release_that_exists(row: Row) -> None:
    """No row is open to releases that are still to come, and none names a pre-release."""
    versions = SpecifierSet(row["versions"])
    assert {clause.operator for clause in versions} in ({"=="}, {"<="}, {">=", "<="})
    clauses = (*versions, *Requirement(row["constraint"]).specifier)
    assert not any(Version(clause.version.removesuffix(".*")).is_prerelease for clause in clauses)


@pytest.mark.parametrize("row", [row for row in ROWS if ";" in row["constraint"]], ids=lambda row: row["name"])
def test_a_marker_tells_pythons_apart_and_nothing_else(row: Row) -> None:
    marker = str(Requirement(row["constraint"]).marker)
    assert re.fullmatch(r'python_version (<|>=) "3\.\d+"( and python_version < "3\.\d+")?', marker)


def test_names_are_of_what_a_row_is_about_and_stay_when_its_bounds_move() -> None:
    assert [f"conda-forge-{row['package']}-{Requirement(row['constraint']).name}" for row in ROWS] == [*NAMES]
    assert {row["name"] for row in _rows("corrections")}.isdisjoint(NAMES)


def _rows(table: str) -> list[Row]:
    return [row for value in tables.read(table).values() if isinstance(value, list) for row in value]


def test_rows_are_in_order() -> None:
    keys = [(row["package"], Requirement(row["constraint"]).name) for row in ROWS]
    assert keys == sorted(keys)


@pytest.mark.network
@pytest.mark.nightly
@pytest.mark.parametrize("row", random.Random(13).sample(ROWS, 8), ids=lambda row: row["name"])
def test_metadata_on_pypi_still_lacks_it(row: Row) -> None:
    """Of the newest release of a row: METADATA names the dependency, and admits a release that the bound leaves out."""
    from tools.refresh.__main__ import _pypi
    from tools.refresh.releases import releases

    pypi = _pypi()
    newest = Version(max(SpecifierSet(row["versions"]), key=lambda clause: Version(clause.version)).version)
    (release,) = [one for one in releases(row["package"], pypi.files(row["package"])) if one.version == newest]
    assert release.wheel is not None
    constraint = Requirement(row["constraint"])
    lines = map(published_requirement, pypi.requires_dist(row["package"], release.wheel))
    about = [line.specifier for line in lines if canonical_name(line.name) == constraint.name]
    there = [one.version for one in releases(constraint.name, pypi.files(constraint.name))]
    assert any(version in said and version not in constraint.specifier for said in about for version in there)
