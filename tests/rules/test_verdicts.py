"""(torch, CUDA, GPUs, driver, Python, glibc) -> verdict, each case with the source it rests on.

A verdict is the complete set of findings, by code; `-` marks a warning and `~` an info. `ok` has no finding.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import tomli

from envspec.base.errors import Place
from envspec.base.finding import Finding
from envspec.facts import torch_builds
from envspec.facts.gpus import find
from envspec.packages.version_numbers import numbers
from envspec.rules.judge import Verdict, admits_newer, judge
from envspec.rules.wanted import FamilyRequirement, parse
from envspec.spec.model import CondaTable, Located, PipTable, Spec, Target

pytestmark = pytest.mark.xdist_group("verdicts")  # one worker judges the cases, and once
KEYS = ("platform", "cuda", "gpus", "driver", "glibc")


@dataclass(frozen=True)
class Case:
    torch: str = ""
    cuda: str | None = None
    verdict: str = ""
    source: str = ""
    gpus: str = ""
    driver: str | None = None
    python: str = "3.12"
    glibc: str = "2.28"
    platform: str = "linux-64"
    conda: str = ""
    nearest: str = ""
    """Words of the first error's remedy."""

    @property
    def id(self) -> str:
        parts = (self.torch or self.conda, self.cuda or "cpu", self.gpus, self.driver, self.python, self.platform)
        return " ".join(part for part in parts if part)


TABLE = Path(__file__).with_name("verdicts.toml")
CASES = [Case(**row) for row in tomli.loads(TABLE.read_text(encoding="utf-8"))["cases"]]


def spec_of(case: Case) -> tuple[Spec, Target]:
    places = {key: Place("specs/s.toml", line, 1) for line, key in enumerate(KEYS, 11)}
    gpus = (case.gpus,) if find(case.gpus) else tuple(case.gpus.split())
    target = Target(
        "t",
        case.platform,
        case.cuda,
        gpus,
        case.driver,
        glibc=case.glibc,
        place=Place("specs/s.toml", 10, 1),
        places=places,
    )
    pip = tuple(Located(text, Place("specs/s.toml", 20 + i, 5)) for i, text in enumerate(case.torch.split()))
    conda = tuple(Located(text, Place("specs/s.toml", 30, 5)) for text in filter(None, case.conda.split(", ")))
    spec = Spec(
        "specs/s.toml",
        "s",
        case.python,
        (target,),
        pip=PipTable(pip),
        conda=CondaTable(("conda-forge",), conda),
        places={"env.python": Place("specs/s.toml", 3, 1)},
    )
    return spec, target


def verdict(findings: tuple[Finding, ...]) -> set[str]:
    marks = {"error": "", "warning": "-", "info": "~"}
    return {marks[finding.severity] + finding.code for finding in findings}


@cache
def judged(case: Case) -> Verdict:
    return judge(*spec_of(case))


@pytest.mark.parametrize("case", CASES, ids=[f"{case.id} -> {case.verdict}" for case in CASES])
def test_verdict(case: Case) -> None:
    findings = judged(case).findings
    assert verdict(findings) == (set() if case.verdict == "ok" else set(case.verdict.split())), findings
    if case.nearest:
        assert case.nearest in (findings[0].remedy or ""), findings[0]


def test_every_finding_is_placed_and_every_error_has_a_remedy() -> None:
    for finding in (finding for case in CASES for finding in judged(case).findings):
        assert finding.place is not None and finding.place.line
        assert finding.message and not finding.message.endswith(".")
        if finding.severity == "error":
            assert finding.remedy, finding


@pytest.mark.parametrize("case", [c for c in CASES if "with" in c.nearest or "conda" in c.nearest], ids=lambda c: c.id)
def test_the_nearest_change_works(case: Case) -> None:
    """What a remedy proposes is judged again: it must have no error."""
    findings = judged(case).findings
    text = findings[0].remedy or ""
    proposals = re.findall(r"(?:torch|pytorch) ([\d.]+) with CUDA ([\d.]+\d)", text)
    proposals += [("", cuda) for cuda in re.findall(r"CUDA ([\d.]+) with", text)]
    by_conda = re.findall(r'(?:cuda = "([\d.]+)" in the target and )?add "pytorch ==([\d.]+)" to \[conda\]', text)
    proposals += [(version, cuda or str(case.cuda)) for cuda, version in by_conda]
    cpu = re.findall(r"torch ([\d.]+) with the CPU", text)
    assert proposals or cpu
    for version, cuda in [*proposals, *((v, None) for v in cpu)]:
        torch, conda = ("", case.torch.replace("torch", "pytorch ")) if by_conda else (case.torch, case.conda)
        if version and torch:
            torch = f"torch=={version}"
        elif version:
            conda = f"pytorch =={version}"
        changed = Case(torch, cuda, "", "", case.gpus, case.driver, case.python, case.glibc, case.platform, conda)
        assert not judge(*spec_of(changed)).errors, (text, changed)
    for python in re.findall(r"Python (3\.\d+)", text):
        changed = Case(case.torch, case.cuda, "", "", case.gpus, case.driver, python, case.glibc, case.platform)
        assert not judge(*spec_of(changed)).errors


def test_a_verdict_says_what_its_findings_say() -> None:
    for found in map(judged, CASES):
        assert found.errors == tuple(finding for finding in found.findings if finding.severity == "error")
        if not found.errors:
            assert found.narrowed is ("-torch-narrowed" in verdict(found.findings))
        assert not found.feasible or (
            found.requirement is not None and set(found.feasible) <= set(found.requirement.versions())
        )


def test_a_way_is_none_that_the_companions_of_the_spec_refuse_or_no_build_is_for() -> None:
    """torch 2.5.1, which torchvision 0.20.1 is made for, has no build for CUDA 12.8; newer ones have."""
    mismatch, build = (
        judged(Case(f"torch=={torch} torchvision==0.20.1", "12.8", "", "")).findings for torch in ("2.9.1", "2.5.1")
    )
    assert "torch 2.5.1" not in str(mismatch[0].remedy)
    assert (
        build[0].code == "no-build" and build[0].remedy == "Nearest: CUDA 12.4 with torch 2.5.1 (driver >= 525.60.13)"
    )


def test_a_free_companion_leaves_every_way_open() -> None:
    (found,) = judged(Case("torch==2.9.1 torchvision", "12.4", "", "")).findings
    assert str(found.remedy).startswith("Nearest: torch 2.6.0 with CUDA 12.4, or CUDA 12.6 with torch 2.9.1")


@pytest.mark.parametrize("more", [1, 2, 3])
def test_what_admits_releases_that_are_newer_than_the_table(more: int) -> None:
    major, minor = numbers(torch_builds.newest().version)[:2]
    place = Place("specs/s.toml", 1, 1)
    assert admits_newer(FamilyRequirement("torch", parse(f"=={major}.{minor + more}.*"), place, "pip"))
    assert not admits_newer(FamilyRequirement("torch", parse(f"=={major}.{minor}.*"), place, "pip"))
