"""Each GPU of a table locks where `doctor` says that it can work, and is refused for the same reason where it can't."""

from functools import cache

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.index import Index
from support.machine import Machine, cpu
from support.matrix import first_by_day
from support.packages import Dist, wheel

from envspec.base.errors import Place
from envspec.base.finding import errors
from envspec.facts import gpus, torch_builds, wheels
from envspec.facts.compute_capability import sm_of
from envspec.rules.judge import judge
from envspec.spec.model import Located, PipTable, Spec, Target

pytestmark = pytest.mark.e2e
HERE = Place("specs/s.toml", 1, 1)
MACHINES = {"linux-64": "x86_64", "linux-aarch64": "aarch64"}


@cache
def newest(platform: str, variant: str) -> wheels.WheelFile | None:
    """The newest torch of a variant with a wheel for Python 3.12 on a platform."""
    fitting = (one for one in wheels.load(variant).files("torch") if wheels.platform_of(one.file) == platform)
    found = [one for one in fitting if "-cp312-cp312-" in one.file]
    return max(found, key=lambda one: torch_builds.order(one.version.partition("+")[0]), default=None)


def newest_for(capability: str, platform: str) -> tuple[str, wheels.WheelFile]:
    """The newest CUDA whose newest torch has code for a capability, or the newest CUDA, with that torch."""
    known = [
        (variant, torch) for variant in wheels.variants() if variant != "cpu" if (torch := newest(platform, variant))
    ]
    for variant, torch in reversed(known):
        built = torch_builds.builds(torch.version.partition("+")[0], variant=variant, platform=platform)
        if any(capability in one.sm for one in built):
            return variant, torch
    return known[-1]


CASES = [
    *((sm_of(sm), sm, platform) for platform in MACHINES for sm in sorted(
        {sm for one in torch_builds.builds(platform=platform) for sm in one.sm}, key=lambda sm: float(sm)
    )),
    *((one.name, one.capability, "linux-aarch64") for one in gpus.products() if one.kind == "embedded"),
]  # fmt: skip


def required(torch: wheels.WheelFile, platform: str) -> list[Dist]:
    """What a torch requires, each in the version that it fixes."""
    here = {"platform_system": "Linux", "sys_platform": "linux", "platform_machine": MACHINES[platform], "extra": ""}
    here |= {"python_version": "3.12", "python_full_version": "3.12.0", "platform_python_implementation": "CPython"}
    asked = [
        one for line in torch.requires_dist if (one := Requirement(line)).marker is None or one.marker.evaluate(here)
    ]
    return [wheel(canonicalize_name(one.name), fitting(one), extras=sorted(one.extras)) for one in asked]


def fitting(asked: Requirement) -> str:
    """A version that a requirement admits: the one that it fixes, or some."""
    fixed = [part.version for part in asked.specifier if part.operator == "=="]
    return next(one for one in (*fixed, "78.0", "13.99", "12.99", "1.99") if asked.specifier.contains(one))


@pytest.mark.by_commit(4)
@pytest.mark.parametrize(("gpu", "capability", "platform"), first_by_day(1, CASES))
def test_a_lock_says_what_doctor_says(machine: Machine, index: Index, gpu: str, capability: str, platform: str) -> None:
    """No Jetson Thor locked with CUDA 13, for cuDNN was judged by x86_64's wheel, while doctor called it feasible."""
    variant, torch = newest_for(capability, platform)
    cuda = torch_builds.cuda_of_variant(variant)
    version = torch.version.partition("+")[0]
    index.add(*required(torch, platform))
    if torch_builds.pypi_variant(version, platform) == variant:
        tag = f"cp312-cp312-manylinux_2_28_{MACHINES[platform]}"
        index.add(wheel("torch", version, *torch.requires_dist, tag=tag, extras=torch.provides_extra))
    asked = Located(f"torch=={version}", HERE)
    target = Target("t", platform, cuda, (gpu,), glibc="2.28", place=HERE)
    verdict = judge(Spec("specs/s.toml", "s", "3.12", (target,), pip=PipTable((asked,))), target)
    against = errors(verdict.findings)
    line = f"platform = '{platform}'\ncuda = '{cuda}'\ngpus = ['{gpu}']\nglibc = '2.28'"
    ran = machine.envspec("lock", machine.spec(cpu(asked.text, python="3.12", targets=f"[targets.t]\n{line}\n")))
    assert (ran.status == 0) is not bool(against), (against, ran.err)
    assert all(one.message in " ".join(ran.err.split()) for one in against), (against, ran.err)
