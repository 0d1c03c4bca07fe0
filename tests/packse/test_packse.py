"""packse's scenarios: what uv takes of them is locked, or it is refused for a rule of envspec's that is named here."""

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import tomli
from msgspec.structs import replace
from support.index import Index
from support.machine import Machine
from support.packages import Dist, sdist, wheel
from uv import find_uv_bin

from envspec.facts.python_builds import newest_build
from tools import packse

SCENARIOS: dict[str, dict[str, Any]] = tomli.loads(packse.TABLE.read_text(encoding="utf-8"))

SOURCE = "newest solution needs a package (published only as|from) source"
REFUSED = {
    **dict.fromkeys(
        (
            "incompatible-python-compatible-override-available-no-wheels",
            "incompatible-python-compatible-override-no-compatible-wheels",
            "incompatible-python-compatible-override-other-wheel",
            "incompatible-python-compatible-override-unavailable-no-wheels",
            "no-wheels",
            "no-wheels-no-build",
            "no-wheels-with-matching-platform",
            "requires-python-wheels",
        ),
        SOURCE,
    ),
    # a cap in Requires-Python, which uv passes over
    "python-less-than-current": r"a 1\.0\.0 doesn't take Python 3\.9 \(Requires-Python <=3\.8\)",
    # the lock names the build that environments get
    "python-patch-override-patch-compatible": r"envspec knows no build of Python 3\.9\.0",
}
"""Scenarios that uv answers and envspec refuses, with its error. A source that is allowed is locked as uv has it."""

BY_DAY = (
    "extra-required",
    "local-transitive-confounding",
    "wrong-backtracking-basic",
    "no-wheels",
    "python-less-than-current",
    "package-yanked-specified-mixed-available",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in BY_DAY else pytest.mark.nightly) for name in SCENARIOS]
)
def test_a_scenario_is_locked_as_uv_compiles_it(name: str, tmp_path: Path) -> None:
    scenario = SCENARIOS[name]
    with Index(prefix=f"/{name}") as index:
        for dist, yanked in dists(scenario):
            index.add(dist, yanked=yanked)
        machine = Machine(tmp_path, index.url)
        python = scenario.get("python", packse.PYTHON)
        asked = f"[env]\npython = {python!r}\n[pip]\ndependencies = {json.dumps(scenario['requires'])}\n"
        machine.spec(f"{asked}[targets.cpu]\nplatform = 'linux-64'\n")
        theirs = compiled(scenario["requires"], python, machine, index)
        ran = machine.envspec("lock", "specs/demo.toml")
        if name in REFUSED:
            assert theirs
            assert re.search(REFUSED[name], ran.error), ran.err
            if REFUSED[name] != SOURCE:
                return
            ran = machine.envspec("lock", "specs/demo.toml", "--allow-needed")
        assert ran.status == (0 if theirs is not None else 1), ran.err
        assert theirs is None or machine.versions("cpu") == theirs


def test_each_refusal_is_of_a_scenario() -> None:
    assert {*REFUSED, *BY_DAY} <= SCENARIOS.keys()
    assert len(SCENARIOS) == 147


def test_a_scenario_is_written_by_what_is_unusual_in_it() -> None:
    packages = {"a": {"versions": {"1.0": {"sdist": True, "wheel": False}, "2.0": {"requires_python": ">=3.12"}}}}
    scenario = {"name": "it", "root": {"requires": ["a>1"]}, "packages": packages, "environment": {"python": "3.9"}}
    read = tomli.loads(packse.scenario_text({**scenario, "description": "prose"}))
    assert read == {"it": {"requires": ["a>1"], "python": "3.9", "a 1.0": {"wheel": False}, "a 2.0": {}}}


def dists(scenario: Mapping[str, Any]) -> Iterator[tuple[Dist, str | None]]:
    """Make the files of a scenario, each with why it is yanked."""
    for release, said in scenario.items():
        if " " in release:
            name, version = release.split()
            requires = [
                *said.get("requires", ()),
                *(one for extra, lines in said.get("extras", {}).items() for one in of_extra(extra, lines)),
            ]
            python = said.get("requires_python", f">={packse.PYTHON}")
            tags = said.get("wheel_tags", ["py3-none-any"]) if said.get("wheel", True) else ()
            made = [wheel(name, version, *requires, tag=tag, extras=[*said.get("extras", ())]) for tag in tags]
            made += [sdist(name, version, *requires)] if said.get("sdist", True) else []
            for dist in made:
                yield replace(dist, requires_python=python), "withdrawn" if said.get("yanked") else None


def of_extra(extra: str, lines: list[str]) -> Iterator[str]:
    """Write an extra's requirements as METADATA has them."""
    for line in lines:
        asked, _, marker = line.partition(";")
        yield f"{asked} ; {f'({marker}) and ' if marker else ''}extra == {extra!r}"


def compiled(requires: list[str], python: str, machine: Machine, index: Index) -> dict[str, str] | None:
    """Ask uv, for the build of Python that the lock names; None where it finds no solution."""
    build = newest_build(python, "linux-64")
    (machine.folder / "in.txt").write_text("\n".join(requires), encoding="utf-8")
    machine.introduce()
    ended = subprocess.run(
        [find_uv_bin(), "pip", "compile", "in.txt", "--no-config", "--index-url", index.url, "--quiet", "--no-header",
         "--no-annotate", "--python-version", build.version if build else python,
         "--python-platform", "x86_64-manylinux_2_28"],
        cwd=machine.folder, env=machine.environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0 or "No solution found" in ended.stderr, ended.stderr
    return dict(re.findall(r"^([\w.-]+)==(\S+)$", ended.stdout, re.MULTILINE)) if ended.returncode == 0 else None
