"""The independent judgement of a target's pins."""

from __future__ import annotations

from typing import Any

import pytest
from lock_samples import LINUX, conda, inputs, wheel
from msgspec import structs
from msgspec.structs import replace
from support.installs import pip_pin, write_lock
from support.machine import Machine
from support.packages import Dist

from envspec.base.errors import InputError
from envspec.lock.graph import Graph
from envspec.lock.judge import judge
from envspec.lock.model import Artifact, BuildPin, GitSource, Lock, LockedTarget, Pin, SpecInputs, TargetInputs
from envspec.lock.rules import files, requirements
from envspec.lock.rules.builds import bounds_of, wrong_build_environments
from envspec.lock.rules.case import LockedCase
from envspec.lock.rules.derived import two_hashes, wrong_marks
from envspec.lock.rules.files import wrong_files
from envspec.lock.rules.requirements import broken_constraints, stray_pins, unmet
from envspec.packages.tags import marker_environment, wheel_tags


def judged(*pins: Pin, roots: tuple[str, ...] = ("a",), platform: str = "linux-64", glibc: str = "2.28") -> list[str]:
    values = structs.replace(inputs(*roots), platform=platform, glibc=glibc if "linux" in platform else None)
    case = LockedCase(LockedTarget("t", values, pins), SpecInputs())
    return [flaw.message for rule in (unmet, stray_pins, wrong_files) for flaw in rule(case)]


@pytest.mark.parametrize(
    ("asked", "pinned", "right"),
    [
        ("a==2.9.1", "2.9.1+cu126", True),
        ("a==2.9.1+cu126", "2.9.1+cu126", True),
        ("a==2.9.1+cu128", "2.9.1+cu126", False),
        ("a>=2", "2.0rc1", False),
        ("a>=1", "2.0rc1", True),
        ("a", "2.0.dev3", True),
        ("a~=2.3", "3.0", False),
        ("a!=2.*", "2.5", False),
        ("A.B_c>1", "2", True),
    ],
)
def test_versions(asked: str, pinned: str, right: bool) -> None:
    name = "a-b-c" if asked.startswith("A") else "a"
    found = judged(wheel(name, pinned), roots=(asked,))
    assert found == ([] if right else [f"the spec requires {asked}, but a is {pinned}"])


def test_a_constraint_holds_for_what_is_installed_and_says_nothing_of_the_rest() -> None:
    values = structs.replace(inputs("a"), constraints=("a<2", "gone<1", 'a<1; sys_platform == "win32"'))
    for version, right in (("1.5", True), ("2.0", False)):
        case = LockedCase(LockedTarget("t", values, (wheel("a", version),)), SpecInputs())
        assert [flaw.code for flaw in broken_constraints(case)] == ([] if right else ["constraint-unmet"])


def test_a_requirement_of_a_pin() -> None:
    assert judged(wheel("a", "1", "b>=2"), wheel("b", "1")) == ["a requires b>=2, but b is 1"]
    assert judged(wheel("a", "1", "b>=2")) == ["a requires b>=2, but nothing provides it"]
    assert judged(wheel("a", "1", 'b>=2; sys_platform == "win32"')) == []


def test_a_pip_package_has_no_build_and_a_conda_package_no_source_of_its_own() -> None:
    pins = (
        structs.replace(wheel("a", "1"), build="h0", direct=True),
        structs.replace(conda("b", "1"), url="https://host/b.conda", direct=False),
    )
    case = LockedCase(LockedTarget("t", inputs("a"), pins), SpecInputs())
    assert [(flaw.code, flaw.package) for flaw in wrong_marks(case)] == [("wrong-build", "a"), ("unasked-source", "b")]


def test_one_file_has_one_hash_in_all_targets_and_a_hash_is_of_one_package() -> None:
    a, b = wheel("a", "1"), wheel("b", "1")
    assert a.artifact and b.artifact
    other = structs.replace(a, artifact=structs.replace(a.artifact, sha256="f" * 64))
    same = structs.replace(b, artifact=structs.replace(b.artifact, sha256=a.artifact.sha256))

    def told(*pins: Pin) -> list[tuple[str, str, tuple[str, ...]]]:
        targets = [LockedTarget(name, inputs("a"), (one,)) for name, one in zip("st", pins, strict=True)]
        return [(flaw.severity, flaw.code, flaw.targets) for flaw in two_hashes(Lock("x", SpecInputs(), (*targets,)))]

    assert told(a, b) == told(a, a) == []
    assert told(a, other) == told(a, same) == [("error", "wrong-hash", ("t",))]


def test_nothing_asks() -> None:
    assert judged(wheel("a", "1"), wheel("b", "1")) == ["b is pinned, but nothing requires it"]
    assert judged(wheel("a", "1"), wheel("b", "1"), roots=("a", "b")) == []


def test_conda_answers_pip() -> None:
    numpy = conda("numpy", "2.3.1", provides=("numpy",))
    assert judged(wheel("a", "1", "numpy>=2"), numpy) == []
    assert judged(wheel("a", "1", "numpy>=3"), numpy) == ["a requires numpy>=3, but numpy is 2.3.1"]
    odd = structs.replace(numpy, version="2024a_1", artifact=Artifact("numpy-2024a_1-h123_0.conda", "0" * 64))
    assert judged(wheel("a", "1", "numpy>=3"), odd) == []


@pytest.mark.parametrize(
    ("asked", "right"),
    [
        ("a", True),
        ("conda-forge::a 1.*", True),
        ("conda-forge/linux-64::a", True),
        ("a[build='h*', channel=conda-forge]", True),
        ("own::a", False),
        ("conda-forge/noarch::a", False),
        ("a[subdir=noarch]", False),
        ("a * x*", False),
    ],
)
def test_where_a_conda_package_is_from(asked: str, right: bool) -> None:
    values = structs.replace(inputs(), conda_requirements=(asked,))
    case = LockedCase(LockedTarget("t", values, (conda("a", "1.0"),)), SpecInputs(channels=("conda-forge",)))
    said = [flaw.message for flaw in unmet(case) if "a is" in flaw.message]
    assert said == ([] if right else [f"the spec requires {asked}, but a is 1.0 h123_0 of conda-forge/linux-64"])


def git_pin(url: str) -> Pin:
    return Pin("pip", "a", "1", "git", None, git=GitSource(url, "0" * 40))


GIT = "https://git.example.org/x/a"


@pytest.mark.parametrize(
    ("asked", "pinned", "right"),
    [
        (f"{GIT}.git@v1", GIT, True),
        (f"{GIT}/@feature/b", f"{GIT}.git", True),
        ("HTTPS://user:secret@GIT.example.org:443/x/a", GIT, True),
        ("https://github.com/X/A", "https://github.com/x/a.git", True),
        (f"{GIT}@main#subdirectory=b", f"{GIT}.git", False),
        ("http://git.example.org/x/a", GIT, False),
        ("ssh://git@git.example.org/x/a@main", GIT, False),
        ("https://git.example.org:8443/x/a", GIT, False),
        ("https://git.example.org/X/a", GIT, False),
        ("https://git.example.org/x/b", GIT, False),
        (f"{GIT}@" + "0" * 40, GIT, True),
        (f"{GIT}@" + "0" * 7, GIT, True),
        (f"{GIT}@%30" + "0" * 7, GIT, True),
        (f"{GIT}@" + "1" * 40, GIT, False),
        (f"{GIT}@" + "0" * 11 + "1", GIT, False),
        (f"{GIT}@%31" + "0" * 7, GIT, False),
        (GIT, f"{GIT}@evil", False),
        (GIT, "https://git.example.org/t/evil/x/a", False),
        (GIT, f"{GIT}?key=evil", False),
        (GIT, f"{GIT}#", False),
        (GIT, "https://git.example.org\\@evil.example/x/a", False),
        (f"{GIT}?a=b", GIT, False),
        (f"{GIT}/../a", GIT, False),
    ],
)
def test_git(asked: str, pinned: str, right: bool) -> None:
    assert (judged(git_pin(pinned), roots=(f"a @ git+{asked}",)) == []) == right


def test_direct_urls() -> None:
    url = "https://files.example.org/a-1-py3-none-any.whl"
    pin = structs.replace(wheel("a", "1"), url=url, index="url")
    assert pin.artifact is not None
    assert judged(pin, roots=(f"a @ {url}#sha256={pin.artifact.sha256}",)) == []
    assert len(judged(pin, roots=(f"a @ {url}#sha256=12",))) == 1
    assert len(judged(pin, roots=(f"a @ {url}x",))) == 1
    assert len(judged(pin, roots=(f"a @ {url}#subdirectory=b",))) == 1
    assert len(judged(wheel("a", "1"), roots=(f"a @ {url}",))) == 1


@pytest.mark.parametrize(
    ("tag", "platform", "glibc", "right"),
    [
        ("py3-none-any", "osx-arm64", "2.28", True),
        ("py2.py3-none-any", "win-64", "2.28", True),
        (f"cp312-cp312-{LINUX}", "linux-64", "2.28", True),
        (f"cp312-cp312-{LINUX}", "linux-64", "2.17", False),
        (f"cp312-cp312-{LINUX}", "linux-aarch64", "2.28", False),
        ("cp311-cp311-manylinux2014_x86_64", "linux-64", "2.28", False),
        ("cp38-abi3-manylinux1_x86_64", "linux-64", "2.17", True),
        ("cp313-abi3-manylinux1_x86_64", "linux-64", "2.17", False),
        ("cp312-cp312t-manylinux2014_x86_64", "linux-64", "2.28", False),
        ("cp312-cp312-musllinux_1_2_x86_64", "linux-64", "2.28", False),
        ("cp312-cp312-linux_x86_64", "linux-64", "2.28", True),
        ("cp312-cp312-manylinux_2_17_aarch64.manylinux2014_aarch64", "linux-aarch64", "2.17", True),
        ("cp312-cp312-macosx_11_0_arm64", "osx-arm64", "", True),
        ("cp312-cp312-macosx_10_13_universal2", "osx-arm64", "", True),
        ("cp312-cp312-macosx_10_13_x86_64", "osx-arm64", "", False),
        ("cp312-cp312-win_amd64", "win-64", "", True),
        ("cp312-cp312-win_arm64", "win-64", "", False),
    ],
)
def test_wheel_tags(tag: str, platform: str, glibc: str, right: bool) -> None:
    found = judged(wheel("a", "1", tag=tag), platform=platform, glibc=glibc)
    assert (found == []) == right
    assert right or f"doesn't run on {platform}, Python 3.12" in found[0]


def test_file_names() -> None:
    wrong = structs.replace(wheel("a", "1"), version="2")
    assert judged(wrong) == ["a-1-py3-none-any.whl is not a 2"]
    other = structs.replace(wheel("b", "1"), name="a")
    assert judged(other) == ["b-1-py3-none-any.whl is not a 1"]
    odd = structs.replace(wheel("a", "1"), artifact=structs.replace(wheel("a", "1").artifact, file="a.exe"))  # type: ignore[type-var]
    assert judged(odd) == ["a.exe isn't the name of a wheel or an sdist"]


def test_marker_environment() -> None:
    assert marker_environment("linux-aarch64", "3.12")["platform_machine"] == "aarch64"
    assert marker_environment("win-64", "3.10")["python_full_version"] == "3.10.0"
    from packaging.markers import default_environment

    assert marker_environment("linux-64", "3.12").keys() == default_environment().keys()
    with pytest.raises(InputError, match="solaris"):
        marker_environment("solaris", "3.12")
    with pytest.raises(InputError, match="solaris"):
        wheel_tags("solaris", "3.12", None)


# The judge of what sources are built with: of the target's torch, CUDA and NumPy, none but its own.


SOURCE = Artifact("ext-1.0.tar.gz", "0" * 64)


def file_of(name: str, version: str) -> str:
    return f"{name.replace('-', '_')}-{version}-py3-none-any.whl"


def pin(name: str, version: str, index: str = "pypi", *, kind: str = "pip") -> Pin:
    return Pin(kind, name, version, index, Artifact(file_of(name, version), "a" * 64))


def built(name: str, version: str, sha256: str = "a" * 64) -> BuildPin:
    return BuildPin(name, version, file_of(name, version), sha256)


TORCH = pin("torch", "2.12.1+cu126", "pytorch/cu126")


CUBLAS = pin("nvidia-cublas-cu12", "12.6.4.1")


def test_a_build_is_bound_to_the_targets_torch_cuda_and_own_packages() -> None:
    """Those that an index has: a URL, a commit and conda's bind nothing, and NumPy has bounds of its own."""
    ours, numpy = pin("ours", "2.0", "internal"), pin("numpy", "2.3.1")
    by_url = replace(pin("theirs", "1.0", ""), url="https://host/theirs-1.0-py3-none-any.whl")
    by_git = replace(pin("git", "1.0", ""), git=GitSource("https://host/git", "0" * 40))
    conda = pin("cuda-nvcc", "12.6", "conda-forge/linux-64", kind="conda")
    plain = pin("idna", "3.1")
    found = bounds_of([TORCH, CUBLAS, ours, numpy, by_url, by_git, conda, plain])
    assert found == ("torch==2.12.1+cu126", "nvidia-cublas-cu12==12.6.4.1", "ours==2.0")


def told(pins: tuple[Pin, ...], *wheels: BuildPin, cuda: str | None = "12.6") -> list[str]:
    source = Pin("pip", "ext", "1.0", "pypi", SOURCE, built_with=wheels)
    target = LockedTarget("t", TargetInputs("linux-64", "3.12", "2.28", cuda), (source, *pins))
    flaws = tuple(wrong_build_environments(LockedCase(target, SpecInputs())))
    assert {flaw.code for flaw in flaws} <= {"wrong-build-environment"}
    return [flaw.message for flaw in flaws]


@pytest.mark.parametrize(
    "one",
    [
        built("torch", "2.12.1+cu126"),
        built("nvidia-cublas-cu12", "12.6.4.1"),
        built("setuptools", "84.0"),
        built("nvidia-cuda-nvcc-cu12", "12.9.86"),
    ],
)
def test_the_target_s_own_and_what_shapes_no_build(one: BuildPin) -> None:
    assert told((TORCH, CUBLAS), one) == []


@pytest.mark.parametrize(
    ("pins", "one", "why"),
    [
        ((TORCH,), built("torch", "2.14.1"), "the target has 2.12.1+cu126 from pytorch/cu126"),
        ((TORCH,), built("torch", "2.12.1+cu126", "b" * 64), "the target has 2.12.1+cu126 from pytorch/cu126"),
        ((), built("torch", "2.14.1"), "the target has none of pip"),
        ((TORCH,), built("triton", "3.7.0"), "the target has none of pip"),
        (
            (pin("torch", "2.12.1", "conda-forge/linux-64", kind="conda"),),
            built("torch", "2.12.1"),
            "the target has that of conda-forge/linux-64",
        ),
        ((TORCH, CUBLAS), built("nvidia-cublas-cu12", "12.9.1.4"), "the target has 12.6.4.1"),
        ((TORCH,), built("nvidia-cudnn-cu13", "9.20"), "the target is for CUDA 12.6"),
        ((TORCH,), built("nvidia-cuda-runtime", "13.0.96"), "the target is for CUDA 12.6"),
        ((pin("acme-core", "1.0", "internal"),), built("acme-core", "1.1"), "the target has 1.0 from internal"),
    ],
)
def test_what_makes_a_build_another_than_the_target_s(pins: tuple[Pin, ...], one: BuildPin, why: str) -> None:
    assert told(pins, one) == [f"ext is built with {one.name} {one.version}, but {why}"]


@pytest.mark.parametrize(
    ("has", "builds", "right"),
    [
        # NumPy's numpyconfig.h, NPY_FEATURE_VERSION: 2.0 builds for 1.19, 2.1 for 1.21, 2.3 for 1.23
        ("1.26.4", "1.26.4", True),
        ("1.26.4", "1.23.5", True),
        ("1.26.4", "2.0.2", True),
        ("1.18.5", "2.0.2", False),
        ("1.22.4", "2.4.6", False),
        ("1.23.5", "1.24.4", False),
        ("2.2.6", "2.0.2", True),
        ("2.2.6", "2.4.6", False),
        ("2.2.6", "1.26.4", False),
    ],
)
def test_numpy(has: str, builds: str, right: bool) -> None:
    found = told((pin("numpy", has),), built("numpy", builds))
    said = f"ext is built with numpy {builds}, but what that builds doesn't run with the target's {has}"
    assert found == ([] if right else [said])


def test_a_target_without_numpy_has_no_say() -> None:
    assert told((), built("numpy", "2.4.6"), cuda=None) == []


def test_a_build_s_wheels_are_of_the_target_s_indexes() -> None:
    wheels = (built("torch", "2.12.1+cu126"), built("setuptools", "84.0"))
    source = Pin("pip", "ext", "1.0", "pypi", SOURCE, built_with=wheels)
    target = LockedTarget("t", TargetInputs("linux-64", "3.12", "2.28", "12.6"), (source, TORCH))
    assert [(one.name, one.index) for one in target.build_wheels(source)] == [
        ("torch", "pytorch/cu126"),
        ("setuptools", "pypi"),
    ]
    assert [one.name for one in target.fetched] == ["ext", "torch", "setuptools"], "each file once"


# A lock of thousands of packages: what its targets share is read once for all of them.


COUNT = 5000
"""More than the largest cache had that was smaller than a lock: read in the same order again, it missed every time."""


@pytest.mark.slow
def test_the_second_target_reads_no_file_name_and_no_requirement_again(machine: Machine) -> None:
    pins = [pip_pin(Dist(f"lib{n}", "1.0", f"lib{n}-1.0-py3-none-any.whl", b"%d" % n, b"")) for n in range(COUNT)]
    lock = write_lock(machine, {"one": pins, "two": pins}, python="3.12", platform="linux-64")
    for cached in (files._flaw_of, requirements._contains):
        cached.cache_clear()
    assert judge(lock) == ()
    for cached in (files._flaw_of, requirements._contains):
        assert cached.cache_info().misses == COUNT


def locked(machine: Machine) -> tuple[Lock, LockedTarget]:
    """A lock of one target, and that target."""
    pins = [pip_pin(Dist("lib", "1.0", "lib-1.0-py3-none-any.whl", b"x", b""))]
    lock = write_lock(machine, {"one": pins}, python="3.12", platform="linux-64", glibc="2.28")
    return lock, lock.targets[0]


@pytest.mark.parametrize(
    ("other", "graphs"),
    [
        ({"gpus": ("A100",)}, 1),
        ({"driver": "550.54.15"}, 1),
        ({"glibc": "2.31"}, 1),
        ({"accept": (("x", "y"),)}, 1),
        ({"platform": "linux-aarch64"}, 2),
        ({"requirements": ("lib<2",)}, 2),
        ({"overrides": (("other==1", "why"),)}, 2),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_targets_that_differ_elsewhere_share_their_graph(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, other: dict[str, Any], graphs: int
) -> None:
    lock, one = locked(machine)
    two = LockedTarget("two", replace(one.inputs, **other), one.pins)
    made: list[LockedTarget] = []
    of = Graph.of

    def counted(target: LockedTarget) -> Graph:
        made.append(target)
        return of(target)

    monkeypatch.setattr(Graph, "of", staticmethod(counted))
    judge(replace(lock, targets=(one, two)))
    assert len(made) == graphs


def test_what_is_judged_once_is_told_of_each_target(machine: Machine) -> None:
    lock, one = locked(machine)
    loose = pip_pin(Dist("loose", "1.0", "loose-1.0-py3-none-any.whl", b"y", b""))
    wrong = LockedTarget("b", one.inputs, (*one.pins, replace(loose, direct=False)))
    flaws = judge(replace(lock, targets=(replace(wrong, name="a"), wrong, replace(one, name="c"))))
    assert [(flaw.package, flaw.targets) for flaw in flaws] == [("loose", ("a", "b"))]


def test_each_targets_own_gpus_are_judged(machine: Machine) -> None:
    """The pins of both are judged once; what is derived from GPUs isn't."""
    lock, one = locked(machine)
    two = LockedTarget("two", replace(one.inputs, gpus=("A100",)), one.pins)
    flaws = judge(replace(lock, targets=(one, two)))
    assert [(flaw.code, flaw.targets) for flaw in flaws] == [("wrong-architectures", ("two",))]


# Names that today's table gives conda packages otherwise


def with_conda(provides: tuple[str, ...], *more: Pin) -> Lock:
    """A target whose requirement `scipy` conda's scipy meets; the lock says that it `provides` these."""
    pin = replace(conda("scipy", "1.0"), index="conda-forge/linux-64", provides=provides, direct=True)
    values = replace(inputs("scipy"), conda_requirements=("scipy",))
    target = LockedTarget("t", values, (pin, *more))
    return Lock("demo", SpecInputs(channels=("conda-forge",)), (target,))


@pytest.mark.parametrize(
    ("provides", "severities"),
    [(("scipy",), set()), (("scipy", "other"), {"warning"}), (("other",), {"error", "warning"})],
)
def test_names_are_judged_as_locked_and_as_of_today(provides: tuple[str, ...], severities: set[str]) -> None:
    found = [one for one in judge(with_conda(provides)) if one.code in ("wrong-provides", "requirement-missing")]
    assert {one.severity for one in found} == severities
    assert [one.message for one in found if one.code == "wrong-provides"] == (
        [f"by today's facts scipy provides scipy (the lock says {', '.join(provides)})"] if severities else []
    )


def test_a_name_that_hides_a_missing_package_is_an_error() -> None:
    lock = with_conda(("scipy", "other"))
    values = replace(lock.targets[0].inputs, requirements=("other", "scipy"))
    flaws = judge(replace(lock, targets=(replace(lock.targets[0], inputs=values),)))
    assert {(one.code, one.severity) for one in flaws if one.code in ("wrong-provides", "requirement-missing")} == {
        ("wrong-provides", "error"),
        ("requirement-missing", "error"),
    }
