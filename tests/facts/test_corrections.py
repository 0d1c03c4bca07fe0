"""Corrections of published METADATA: which lines a version of a package is shown with, and what pins break."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from envspec.facts import tables
from envspec.facts.corrections import (
    Correction,
    Corrections,
    bounds_of_extras,
    corrections,
    has_common_version,
    implies,
    of_extra,
    table,
    unknown_names,
)
from envspec.packages.requirement import canonical_name, published_requirement

REPOSITORY = Path(__file__).parents[2]

OLD = Correction("a-numpy-2", "a", "<3", "constraint", "numpy<2", "a fails")
ADDS = Correction("a-numpy", "a", "==1.0", "requirement", "numpy", "a imports it")
ROWS = Corrections((OLD, ADDS))


@pytest.mark.parametrize(
    ("version", "published", "lines"),
    [
        ("2.0", ["numpy>=1.20"], ("numpy<2",)),
        ("2.0+cu126", ["numpy"], ("numpy<2",)),
        ("2.0", ["numpy; python_version >= '3.9'"], ("numpy<2 ; python_version >= '3.9'",)),
        ("2.0", ["numpy; extra == 'fast'", "b"], ("numpy<2 ; extra == 'fast'",)),
        ("2.0", ["b"], ()),
        ("3.0", ["numpy"], ()),
    ],
)
def test_a_constraint_bounds_what_metadata_requires(version: str, published: list[str], lines: tuple[str, ...]) -> None:
    assert ROWS.bounds("a", version, published) == lines
    assert ROWS.bounds("b", version, published) == ()


def test_an_active_constraint_bounds_in_any_case() -> None:
    active = ROWS.with_active(["a-numpy-2"])
    assert active.bounds("a", "2.0", ["b"]) == ("numpy<2",)
    assert active.active_packages == {"a"}
    assert active != ROWS and active.inactive() == ROWS


def test_a_requirement_counts_where_metadata_lacks_it() -> None:
    assert ROWS.missing_requirements("a", "1.0", []) == ("numpy",)
    assert ROWS.missing_requirements("a", "1.0", ["numpy; extra == 'fast'"]) == ("numpy",)
    assert ROWS.missing_requirements("a", "1.0", ["numpy>=1.20"]) == ROWS.missing_requirements("a", "2.0", []) == ()


def test_what_pins_break() -> None:
    assert corrections().violations({"torch": "2.1.0+cu121", "numpy": "2.2.6"})[0].requirement == "numpy<2"
    tools = {"setuptools": "69.5.1"}
    for pins in ({"torch": "2.1.0", "numpy": "1.26.4"}, {"torch": "2.3.0", "numpy": "2.2.6"}, {"torch": "2.1.0"}):
        assert corrections().violations({**pins, **tools}) == ()
    assert corrections(off=["torch-numpy-2"]).violations({"torch": "2.1.0", "numpy": "2.0", **tools}) == ()


@pytest.mark.parametrize(
    ("package", "version", "setuptools", "broken"),
    [
        ("torch", "2.1.2", "69.5.1", []),
        ("torch", "2.1.2", "70.0.0", ["torch-setuptools-70"]),
        ("torch", "2.4.1", "80.9.0", []),
        ("torch", "2.4.1", None, ["torch-setuptools"]),
        ("torch", "2.5.0", None, []),
        ("triton", "2.1.0", None, ["triton-setuptools"]),
        ("triton", "3.2.0", None, ["triton-setuptools"]),
        ("triton", "3.3.0", None, []),
    ],
)
def test_what_imports_setuptools_has_it(package: str, version: str, setuptools: str | None, broken: list[str]) -> None:
    pins = {package: version, **({"setuptools": setuptools} if setuptools else {})}
    assert [row.name for row in corrections().violations(pins)] == broken


def test_what_a_correction_adds_is_broken_without_it() -> None:
    assert ROWS.violations({"a": "1.0"}) == (ADDS,)


def test_packages_of_the_specs_own_indexes_are_other_builds() -> None:
    assert ROWS.without(["a"]).rows == ()
    assert ROWS.without(["b"]) is ROWS


def test_of_extras_only_those_of_the_torch_family_that_bound_themselves() -> None:
    published = [
        'torch>=2.6,<3; extra == "torch"',
        "torchvision (>=0.21) ; extra == 'torchvision'",
        'accelerate>=1.1; extra == "torch"',
        'torch>=2.6; extra == "dev"',
        'torch; extra == "torch"',
        'scipy<1.13; extra == "scipy"',
        'torch>=2.4; extra == "torch" and python_version < "3.9"',
    ]
    assert bounds_of_extras(published) == ("torch>=2.6", "torchvision>=0.21")


def test_an_active_extra_holds_version_by_version() -> None:
    row = of_extra("transformers", "5.1.0", "torch>=2.4")
    active = Corrections().with_active([row.name], [row])
    assert active.bounds("transformers", "5.1.0", ['torch>=2.4; extra == "torch"']) == ("torch>=2.4",)
    assert active.bounds("transformers", "4.49.0", ['torch>=2.0; extra == "torch"']) == ("torch>=2.0",)
    assert unknown_names([row.name, "transformers-extra-scipy"]) == ("transformers-extra-scipy",)


def test_each_of_our_own_names_where_upstream_speaks_of_it() -> None:
    sources = tables.read("corrections")["sources"]
    thread = re.compile(r"(?<![\w/.-])[\w.-]+/[\w.-]+#\d+\b")
    assert [row.name for row in table() if not any(thread.search(sources[key]) for key in row.sources)] == []


@pytest.mark.network
@pytest.mark.nightly
@pytest.mark.parametrize("row", table(), ids=lambda row: row.name)
def test_metadata_on_pypi_still_lacks_it(row: Correction) -> None:
    """Of the newest release that a row is about. Where METADATA has come to agree, the row goes."""
    from envspec.configuration.settings import load_settings
    from tools.refresh.__main__ import LiveIndex
    from tools.refresh.releases import releases

    pypi = LiveIndex("pypi", load_settings(os.environ), os.environ)
    about = [
        one for one in releases(row.package, pypi.files(row.package)) if row.concerns(row.package, str(one.version))
    ]
    if not any(one.wheel for one in about):
        pytest.skip(f"{row.package} has no wheels, so no METADATA beside its sources")
    wheel = next(one.wheel for one in reversed(about) if one.wheel)
    lines = [line for line in map(published_requirement, pypi.requires_dist(row.package, wheel)) if not line.marker]
    said = [str(line.specifier) for line in lines if canonical_name(line.name) == row.bounded]
    assert not said or not implies(said, row.requirement)


@pytest.mark.slow
def test_no_table_of_corrections_is_read_where_nothing_is_resolved() -> None:
    """Start-up time is a feature: of `--help`, of `check`, of all that only reads locks."""
    script = (
        "import sys; opened = []\n"
        "sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == 'open' else None)\n"
        "from envspec.cli.main import run\n"
        "assert run(sys.argv[1:]) == 0\n"
        "assert not [file for file in opened if file.endswith('corrections.toml')]\n"
    )
    for words in (["--help"], ["check", "specs/cpu-py311.toml"]):
        ran = subprocess.run([sys.executable, "-c", script, *words], cwd=REPOSITORY, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


def test_what_specifiers_say_already() -> None:
    assert implies(["<2,>=1"], "numpy<2") and implies(["==1.26.4"], "numpy<2") and implies([">=1", "<1.27"], "numpy<2")
    assert not implies([">=1"], "numpy<2") and not implies([], "numpy<2") and not implies(["<=2"], "numpy<2")
    assert has_common_version(">=4.50,<4.56", [">4.49.0"]) and not has_common_version(">=4.50,<4.56", ["==4.40"])
