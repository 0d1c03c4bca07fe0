"""Past the tables' horizon an error becomes a warning; within it, and where a requirement ends, it stays one."""

from __future__ import annotations

import pytest

from envspec.base.errors import Place
from envspec.base.finding import Finding
from envspec.facts import torch_builds
from envspec.packages.version_numbers import numbers
from envspec.rules.judge import judge
from envspec.spec.model import CondaTable, Located, PipTable, Spec, Target

HERE = Place("specs/s.toml", 1, 1)
LAST = torch_builds.newest().version
NEXT_CUDA = f"{max(numbers(build.cuda)[0] for build in torch_builds.builds() if build.cuda) + 1}.0"
NEXT_PYTHON = f"3.{max(numbers(python)[1] for build in torch_builds.builds() for python in build.pythons) + 1}"


def found(
    *pip: str, cuda: str | None = "13.2", python: str = "3.12", conda: tuple[str, ...] = (), gpu: str = "H100"
) -> dict[str, Finding]:
    target = Target("t", "linux-64", cuda, (gpu,) if cuda else (), glibc="2.28", place=HERE)
    table = PipTable(tuple(Located(text, HERE) for text in pip))
    matches = CondaTable(("conda-forge",), tuple(Located(text, HERE) for text in conda))
    findings = judge(Spec("specs/s.toml", "s", python, (target,), pip=table, conda=matches), target).findings
    return {finding.code: finding for finding in findings}


@pytest.mark.parametrize("asked", ["torch", "torch>=2.9", "torch<4", "torch>=2.0,!=2.1.0"])
def test_a_cuda_that_no_known_torch_has_may_be_a_newer_ones(asked: str) -> None:
    one = found(asked, cuda=NEXT_CUDA)["no-build"]
    assert one.severity == "warning" and one.message.endswith("one that envspec doesn't know may have it")
    assert one.remedy and one.remedy.startswith("Nearest: ")


@pytest.mark.parametrize("asked", [f"torch=={LAST}", "torch<2.10", "torch==2.9.*", "torch~=2.9.0"])
def test_a_requirement_that_ends_within_the_tables_stays_an_error(asked: str) -> None:
    assert found(asked, cuda=NEXT_CUDA)["no-build"].severity == "error"
    assert found(asked, cuda=None, python=NEXT_PYTHON)["python-too-new"].severity == "error"


def test_a_python_that_no_known_torch_has_may_be_a_newer_ones() -> None:
    for cuda in ("13.2", None):
        assert found("torch", cuda=cuda, python=NEXT_PYTHON)["python-too-new"].severity == "warning"


def test_what_the_tables_know_stays_an_error() -> None:
    """A newer torch brings back no CUDA and no Python that the known ones have left behind."""
    assert found("torch", cuda="12.8", python="3.7")["python-too-old"].severity == "error"
    assert found("torch>=2.12", cuda="12.8")["no-build"].severity == "error"
    assert found("torch", gpu="V100")["cuda-dropped-gpu"].severity == "error"


def test_condas_builds_too() -> None:
    assert found(conda=("pytorch",), cuda=NEXT_CUDA)["no-build"].severity == "warning"
    assert found(conda=("pytorch 2.13.*",), cuda=NEXT_CUDA)["no-build"].severity == "error"


def test_a_companion_that_is_newer_decides_by_its_metadata() -> None:
    """It was an error: no known torch is for it."""
    assert {code: one.severity for code, one in found("torchvision==0.99.0").items()} == {
        "companion-newer-than-tables": "info"
    }
