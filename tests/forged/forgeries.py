"""Locks that somebody tampered with: each a shipped lock and one change, the digest and the rendered files made right
again, as an attacker would. The forgery's name is the function's.
"""

from __future__ import annotations

from dataclasses import replace

from forging import EVIL, at_version, each_pin, each_target, forgery, wheel, with_file, with_pin, without
from forging import FORGERIES as FORGERIES
from forging import Forgery as Forgery

from envspec.lock.model import (
    Artifact,
    BuildPin,
    GitSource,
    Lock,
    LockedCorrection,
    LockedPython,
    LockedTarget,
    Pin,
    Publisher,
    WheelVariant,
)

# Files


@forgery("mm-v2.9", "wrong-file")
def a_file_of_another_project(lock: Lock) -> Lock:
    return each_pin(lock, "certifi", lambda p: with_file(p, "evil-1.0-py3-none-any.whl", EVIL))


@forgery("mm-v2.9", "wrong-file")
def a_file_of_another_project_under_its_old_hash(lock: Lock) -> Lock:
    return each_pin(lock, "certifi", lambda p: with_file(p, "certifi_-2026.1-py3-none-any.whl"))


@forgery("mm-v2.9", "wrong-file")
def a_file_of_an_older_version(lock: Lock) -> Lock:
    return each_pin(lock, "certifi", lambda p: with_file(p, "certifi-2017.1.23-py2.py3-none-any.whl", EVIL))


@forgery("mm-v2.9", "wrong-platform")
def a_wheel_for_another_machine(lock: Lock) -> Lock:
    return each_pin(lock, "numpy", lambda p: with_file(p, f"numpy-{p.version}-cp312-cp312-manylinux_2_28_aarch64.whl"))


@forgery("mm-v2.9", "wrong-platform")
def a_wheel_for_another_python(lock: Lock) -> Lock:
    return each_pin(lock, "numpy", lambda p: with_file(p, f"numpy-{p.version}-cp311-cp311-manylinux_2_28_x86_64.whl"))


@forgery("mm-v2.9", "wrong-platform")
def a_wheel_for_a_newer_glibc(lock: Lock) -> Lock:
    return each_pin(lock, "numpy", lambda p: with_file(p, f"numpy-{p.version}-cp312-cp312-manylinux_2_39_x86_64.whl"))


@forgery("mm-v2.9", "no-file")
def a_package_without_a_file(lock: Lock) -> Lock:
    return each_pin(lock, "certifi", lambda p: replace(p, artifact=None))


@forgery("mm-v2.9", "wrong-hash")
def another_hash_of_torch(lock: Lock) -> Lock:
    def swapped(pin: Pin) -> Pin:
        assert pin.artifact is not None
        return with_file(pin, pin.artifact.file, EVIL)

    return each_pin(lock, "torch", swapped, target="cu126-volta")


@forgery("mm-v2.9", "wrong-file")
def torch_with_a_build_tag(lock: Lock) -> Lock:
    def renamed(pin: Pin) -> Pin:
        assert pin.artifact is not None
        return with_file(pin, pin.artifact.file.replace("-cp312-cp312-", "-1-cp312-cp312-"), EVIL)

    return each_pin(lock, "torch", renamed, target="cu126-volta")


@forgery("mm-v2.9", "wrong-hash")
def another_hash_in_one_target(lock: Lock) -> Lock:
    def swapped(pin: Pin) -> Pin:
        assert pin.artifact is not None
        return with_file(pin, pin.artifact.file, EVIL)

    return each_pin(lock, "certifi", swapped, target="cu126-volta")


@forgery("mm-v2.9", "wrong-hash")
def the_hash_of_another_package(lock: Lock) -> Lock:
    other = lock.targets[0].pin("idna")
    assert other is not None and other.artifact is not None
    sha256 = other.artifact.sha256

    def swapped(pin: Pin) -> Pin:
        assert pin.artifact is not None
        return with_file(pin, pin.artifact.file, sha256)

    return each_pin(lock, "certifi", swapped)


@forgery("mm-v2.9", "wrong-hash")
def an_md5_of_a_wheel(lock: Lock) -> Lock:
    def hashed(pin: Pin) -> Pin:
        assert pin.artifact is not None
        return replace(pin, artifact=replace(pin.artifact, md5="e" * 32))

    return each_pin(lock, "certifi", hashed)


# Where packages come from


@forgery("mm-v2.9", "unasked-source")
def a_package_from_git(lock: Lock) -> Lock:
    git = GitSource("https://evil.example/requests", "0" * 40)
    return each_pin(lock, "requests", lambda p: replace(p, index="git", git=git, artifact=None))


@forgery("mm-v2.9", "unasked-source")
def a_package_from_a_url(lock: Lock) -> Lock:
    def moved(pin: Pin) -> Pin:
        file = "requests-2.32.5-py3-none-any.whl"
        made = wheel("requests", "2.32.5", "url")
        return replace(made, url=f"https://evil.example/{file}", dependencies=pin.dependencies)

    return each_pin(lock, "requests", moved)


@forgery("mm-v2.9", "unasked-source")
def a_url_that_an_index_s_package_names(lock: Lock) -> Lock:
    url = "https://evil.example/acelerate-1.0-py3-none-any.whl"
    edge = f"acelerate @ {url}"
    edged = each_pin(lock, "transformers", lambda p: replace(p, dependencies=(*p.dependencies, edge)))
    return with_pin(edged, replace(wheel("acelerate", index="url"), url=url))


@forgery("mm-v2.9", "source-not-allowed")
def a_package_as_source(lock: Lock) -> Lock:
    return each_pin(lock, "requests", lambda p: with_file(p, f"requests-{p.version}.tar.gz", EVIL))


@forgery("mm-v2.9", "source-not-allowed", stale=True)
def a_package_as_source_that_the_lock_says_is_allowed(lock: Lock) -> Lock:
    inputs = replace(lock.inputs, allow_source=("deepspeed", "requests"))
    return replace(a_package_as_source(lock), inputs=inputs)


@forgery("mm-v2.9", "wrong-index")
def a_package_from_an_index_of_nobody(lock: Lock) -> Lock:
    return each_pin(lock, "requests", lambda p: replace(p, index="evil"))


@forgery("mm-v2.9", "wrong-index")
def a_package_from_the_pytorch_index(lock: Lock) -> Lock:
    return each_pin(lock, "numpy", lambda p: replace(p, index="pytorch/cu126"))


@forgery("mm-v2.9", "wrong-index")
def torch_from_an_index_of_nobody(lock: Lock) -> Lock:
    return each_pin(lock, "torch", lambda p: replace(p, index="evil"), target="cu126-volta")


SOURCES = '\nindexes = { internal = "https://packages.example.org/simple" }\nsources = { numpy = "internal" }\n'


def _sourced(lock: Lock) -> Lock:
    inputs = replace(lock.inputs, sources={"numpy": "internal"})
    return each_pin(replace(lock, inputs=inputs), "numpy", lambda p: replace(p, index="internal"))


@forgery("cpu-py311", "wrong-index", added=SOURCES, honest=_sourced)
def a_package_of_a_named_index_from_pypi(lock: Lock) -> Lock:
    return each_pin(lock, "numpy", lambda p: replace(p, index="pypi"))


@forgery("cpu-py311", "wrong-index", added=SOURCES, honest=_sourced)
def another_package_from_a_named_index(lock: Lock) -> Lock:
    return each_pin(lock, "jinja2", lambda p: replace(p, index="internal"))


# Requirements


@forgery("mm-v2.9", "nothing-asks")
def a_typosquat_that_nothing_asks_for(lock: Lock) -> Lock:
    return with_pin(lock, wheel("acelerate"))


@forgery("mm-v2.9", "nothing-asks")
def a_typosquat_that_is_marked_as_asked_for(lock: Lock) -> Lock:
    return with_pin(lock, replace(wheel("acelerate"), direct=True))


@forgery("mm-v2.9", "requirement-unmet")
def a_version_that_the_spec_rules_out(lock: Lock) -> Lock:
    return each_pin(lock, "transformers", lambda p: at_version(p, "4.40.0"))


@forgery("mm-v2.9", "requirement-missing")
def a_package_dropped(lock: Lock) -> Lock:
    return without(lock, "certifi")


@forgery("mm-v2.9", "requirement-missing", stale=True)
def a_requirement_of_the_spec_dropped_with_its_package(lock: Lock) -> Lock:
    def unasked(target: LockedTarget) -> LockedTarget:
        kept = tuple(text for text in target.inputs.requirements if text != "ftfy")
        edges = tuple(replace(p, dependencies=tuple(d for d in p.dependencies if d != "ftfy")) for p in target.pins)
        return replace(target, inputs=replace(target.inputs, requirements=kept), pins=edges)

    return without(each_target(lock, unasked), "ftfy")


@forgery("mm-v2.9", "nothing-asks", stale=True)
def a_requirement_that_the_spec_never_had(lock: Lock) -> Lock:
    def asked(target: LockedTarget) -> LockedTarget:
        requirements = tuple(sorted((*target.inputs.requirements, "acelerate")))
        return replace(target, inputs=replace(target.inputs, requirements=requirements))

    return each_target(with_pin(lock, replace(wheel("acelerate"), direct=True)), asked)


@forgery("mm-v2.9", "unknown-target", stale=True)
def a_target_that_the_spec_never_had(lock: Lock) -> Lock:
    return replace(lock, targets=(*lock.targets, replace(lock.targets[0], name="zz")))


@forgery("mm-v2.9", "wrong-provides")
def a_wheel_that_stands_for_another(lock: Lock) -> Lock:
    return each_pin(without(lock, "certifi"), "idna", lambda p: replace(p, provides=("certifi",)))


@forgery("mm-v2.9", "wrong-direct")
def a_direct_mark_moved(lock: Lock) -> Lock:
    return each_pin(lock, "certifi", lambda p: replace(p, direct=True))


# What stands beside the pins


def _source(pin: Pin) -> Pin:
    """deepspeed is a source in every target of mm-v2.9."""
    assert not pin.is_wheel
    return pin


@forgery("mm-v2.9", "wrong-build-environment")
def a_build_environment_of_another_file(lock: Lock) -> Lock:
    evil = BuildPin("setuptools", "80.9.0", "evil-1.0-py3-none-any.whl", EVIL)
    return each_pin(lock, "deepspeed", lambda p: replace(_source(p), built_with=(evil,)))


@forgery("mm-v2.9", "wrong-build-environment")
def a_build_environment_with_a_source(lock: Lock) -> Lock:
    evil = BuildPin("setuptools", "80.9.0", "setuptools-80.9.0.tar.gz", EVIL)
    return each_pin(lock, "deepspeed", lambda p: replace(_source(p), built_with=(evil,)))


@forgery("mm-v2.9", "wrong-build-environment")
def a_build_environment_for_another_machine(lock: Lock) -> Lock:
    evil = BuildPin("ninja", "1.13.0", "ninja-1.13.0-py3-none-win_amd64.whl", EVIL)
    return each_pin(lock, "deepspeed", lambda p: replace(_source(p), built_with=(evil,)))


@forgery("mm-v2.9", "wrong-build-environment")
def a_build_environment_with_a_package_twice(lock: Lock) -> Lock:
    pins = tuple(BuildPin("wheel", v, f"wheel-{v}-py3-none-any.whl", EVIL) for v in ("0.45.1", "0.46.1"))
    return each_pin(lock, "deepspeed", lambda p: replace(_source(p), built_with=pins))


@forgery("mm-v2.9", "wrong-build-environment")
def a_build_environment_of_a_wheel(lock: Lock) -> Lock:
    pin = BuildPin("setuptools", "80.9.0", "setuptools-80.9.0-py3-none-any.whl", EVIL)
    return each_pin(lock, "certifi", lambda p: replace(p, built_with=(pin,)))


@forgery("mm-v2.9", "wrong-file")
def a_variant_that_its_file_does_not_name(lock: Lock) -> Lock:
    def varied(pin: Pin) -> Pin:
        assert pin.artifact is not None
        return replace(pin, artifact=replace(pin.artifact, variant=WheelVariant("cu130")))

    return each_pin(lock, "numpy", varied)


@forgery("mm-v2.9", "wrong-file")
def a_variant_s_file_that_says_it_is_none(lock: Lock) -> Lock:
    file = "numpy-{}-cp312-cp312-manylinux_2_28_x86_64-cu130.whl"
    return each_pin(lock, "numpy", lambda p: with_file(p, file.format(p.version), EVIL))


SM = "nvidia :: sm_arch :: {}_real"
CUDA = "nvidia :: cuda_version_lower_bound :: {}"


def _variant(lock: Lock, variant: WheelVariant, package: str = "numpy") -> Lock:
    """The lock with a variant of a package, under a file's name that says so."""

    def varied(pin: Pin) -> Pin:
        assert pin.artifact is not None
        file = f"{pin.artifact.file.removesuffix('.whl')}-{variant.label}.whl"
        return replace(pin, artifact=replace(pin.artifact, file=file, variant=variant))

    return each_pin(lock, package, varied)


@forgery("mm-v2.9", "wrong-variant")
def a_variant_for_other_gpus(lock: Lock) -> Lock:
    return _variant(lock, WheelVariant("a", (SM.format(75),), ("nvidia",)))


@forgery("mm-v2.9", "wrong-variant")
def a_variant_for_a_newer_cuda(lock: Lock) -> Lock:
    return _variant(lock, WheelVariant("a", (CUDA.format("13.5"),), ("nvidia",)))


@forgery("mm-v2.9", "wrong-variant")
def a_variant_for_newer_processors(lock: Lock) -> Lock:
    return _variant(lock, WheelVariant("a", ("x86_64 :: level :: v4",), ("x86_64",)))


@forgery("mm-v2.9", "wrong-variant")
def a_variant_built_against_another_torch(lock: Lock) -> Lock:
    return _variant(lock, WheelVariant("a", ("abi_dependency :: torch :: 1.13",), ("abi_dependency",)))


@forgery("mm-v2.9", "wrong-variant")
def a_null_variant_with_properties(lock: Lock) -> Lock:
    return _variant(lock, WheelVariant("null", ("blas :: lib :: mkl",), ("blas",)))


@forgery("mm-v2.9", "wrong-variant")
def a_variant_without_properties(lock: Lock) -> Lock:
    return _variant(lock, WheelVariant("a", (), ("blas",)))


@forgery("mm-v2.9", "wrong-variant")
def a_variant_whose_priorities_lack_its_namespace(lock: Lock) -> Lock:
    return _variant(lock, WheelVariant("a", ("blas :: lib :: mkl",), ("nvidia",)))


@forgery("mm-v2.9", "cpu-variant")
def a_cpu_variant_in_a_cuda_target(lock: Lock) -> Lock:
    return _variant(lock, WheelVariant("null", (), ("nvidia",)))


@forgery("mm-v2.9", "cpu-build")
def a_cpu_variant_of_torch(lock: Lock) -> Lock:
    return _variant(lock, WheelVariant("null", (), ("nvidia",)), "torch")


@forgery("mm-v2.9", "built-for-another")
def a_variant_whose_label_names_another_cuda(lock: Lock) -> Lock:
    return _variant(lock, WheelVariant("cu118", (CUDA.format("11.8"),), ("nvidia",)))


def _python(lock: Lock, version: str = "3.12.12", platform: str = "linux-64", file: str | None = None) -> Lock:
    machine = "x86_64-unknown-linux-gnu"
    named = file or f"cpython-{version}+20260114-{machine}-install_only_stripped.tar.gz"
    return replace(lock, pythons=(*lock.pythons, LockedPython(platform, version, "20260114", named, EVIL, 1000)))


@forgery("mm-v2.9", "wrong-python", honest=_python)
def a_python_of_another_file(lock: Lock) -> Lock:
    return _python(replace(lock, pythons=()), file="evil.tar.gz")


@forgery("mm-v2.9", "wrong-python", honest=_python)
def a_python_of_another_version(lock: Lock) -> Lock:
    return _python(replace(lock, pythons=()), version="3.11.14")


@forgery("mm-v2.9", "wrong-python", honest=_python)
def a_python_for_another_machine(lock: Lock) -> Lock:
    return _python(replace(lock, pythons=()), file="cpython-3.12.12+20260114-aarch64-apple-darwin-install_only.tar.gz")


@forgery("mm-v2.9", "wrong-python", honest=_python)
def a_second_python(lock: Lock) -> Lock:
    return _python(lock, version="3.12.11")


@forgery("mm-v2.9", "wrong-python", honest=_python)
def a_python_for_no_target(lock: Lock) -> Lock:
    return _python(lock, platform="osx-arm64")


@forgery("hpc-v2.7", "wrong-python")
def a_python_beside_conda_s_own(lock: Lock) -> Lock:
    return _python(lock)


@forgery("hpc-v2.7", "wrong-publisher")
def a_publisher_of_a_conda_package(lock: Lock) -> Lock:
    return each_pin(lock, "openssh", lambda p: replace(p, publisher=Publisher("GitHub", "evil/openssh")), "conda")


# GPUs


@forgery("mm-v2.9", "cpu-build")
def torch_for_cpus_in_every_cuda_target(lock: Lock) -> Lock:
    cpu = lock.target("cpu")
    torch = cpu.pin("torch") if cpu else None
    assert torch is not None
    return each_pin(lock, "torch", lambda p: torch)


@forgery("mm-v2.9", "wrong-cuda")
def torch_for_another_cuda(lock: Lock) -> Lock:
    other = lock.target("cu130-hopper")
    torch = other.pin("torch") if other else None
    assert torch is not None
    return each_pin(lock, "torch", lambda p: torch, target="cu126-volta")


@forgery("mm-v2.9", "wrong-cuda")
def torch_for_cuda_in_a_cpu_target(lock: Lock) -> Lock:
    other = lock.target("cu126-volta")
    torch = other.pin("torch") if other else None
    assert torch is not None
    return each_pin(lock, "torch", lambda p: torch, target="cpu")


@forgery("mm-v2.9", "wrong-cuda")
def a_library_of_another_cuda(lock: Lock) -> Lock:
    return with_pin(lock, wheel("nvidia-cudnn-cu11"), asker="torch")


@forgery("mm-v2.9", "wrong-driver-floor")
def a_lower_driver_floor(lock: Lock) -> Lock:
    return each_target(lock, lambda t: replace(t, driver_floor="450.80.02") if t.driver_floor else t)


@forgery("mm-v2.9", "wrong-driver-floor")
def no_driver_floor(lock: Lock) -> Lock:
    return each_target(lock, lambda t: replace(t, driver_floor=None))


@forgery("mm-v2.9", "wrong-architectures")
def other_architectures(lock: Lock) -> Lock:
    return each_target(lock, lambda t: replace(t, architectures=("sm_120",)) if t.architectures else t)


# conda


@forgery("hpc-v2.7", "wrong-file")
def a_conda_file_of_another_build(lock: Lock) -> Lock:
    return each_pin(lock, "openssh", lambda p: with_file(p, f"openssh-{p.version}-evil_0.conda", EVIL), "conda")


@forgery("hpc-v2.7", "wrong-file")
def a_conda_file_of_another_package(lock: Lock) -> Lock:
    return each_pin(lock, "openssh", lambda p: with_file(p, f"evil-{p.version}-{p.build}.conda", EVIL), "conda")


@forgery("hpc-v2.7", "wrong-index")
def a_conda_package_of_another_channel(lock: Lock) -> Lock:
    return each_pin(lock, "openssh", lambda p: replace(p, index=p.index.replace("conda-forge", "evil")), "conda")


@forgery("hpc-v2.7", "wrong-platform")
def a_conda_package_of_another_subdir(lock: Lock) -> Lock:
    return each_pin(lock, "openssh", lambda p: replace(p, index="conda-forge/osx-arm64"), "conda")


@forgery("hpc-v2.7", "nothing-asks")
def a_conda_package_that_nothing_asks_for(lock: Lock) -> Lock:
    artifact = Artifact("evil-1.0-h0_0.conda", EVIL, 1000, "e" * 32)
    return with_pin(lock, Pin("conda", "evil", "1.0", "conda-forge/noarch", artifact, build="h0_0"))


@forgery("hpc-v2.7", "requirement-missing")
def a_conda_package_dropped(lock: Lock) -> Lock:
    return without(lock, "openssl", "conda")


@forgery("hpc-v2.7", "requirement-unmet")
def a_conda_version_that_the_spec_rules_out(lock: Lock) -> Lock:
    return each_pin(lock, "pytorch-gpu", lambda p: at_version(p, "2.6.0"), "conda")


@forgery("hpc-v2.7", "requirement-unmet")
def a_conda_version_that_a_package_rules_out(lock: Lock) -> Lock:
    return each_pin(lock, "openssl", lambda p: at_version(p, "1.1.1"), "conda")


@forgery("hpc-v2.7", "requirement-unmet")
def another_python(lock: Lock) -> Lock:
    return each_pin(lock, "python", lambda p: at_version(p, "3.11.9"), "conda")


@forgery("hpc-v2.7", "cpu-build")
def conda_s_pytorch_for_cpus(lock: Lock) -> Lock:
    def cpu(pin: Pin) -> Pin:
        build = "cpu_mkl_py312_h0_100"
        edges = tuple(edge for edge in pin.dependencies if not edge.startswith(("__cuda", "cuda-version")))
        file = f"pytorch-{pin.version}-{build}.conda"
        return with_file(replace(pin, build=build, dependencies=edges), file, EVIL)

    return each_pin(lock, "pytorch", cpu, "conda")


@forgery("hpc-v2.7", "wrong-cuda")
def a_conda_build_for_another_cuda(lock: Lock) -> Lock:
    def older(pin: Pin) -> Pin:
        build = "cuda118_py312_h0_300"
        return with_file(replace(pin, build=build), f"pytorch-{pin.version}-{build}.conda", EVIL)

    return each_pin(lock, "pytorch", older, "conda")


@forgery("hpc-v2.7", "wrong-provides")
def a_conda_package_that_stands_for_a_wheel(lock: Lock) -> Lock:
    return each_pin(without(lock, "tqdm"), "openssh", lambda p: replace(p, provides=("tqdm",)), "conda")


@forgery("hpc-v2.7", "unasked-source")
def a_conda_package_from_a_url(lock: Lock) -> Lock:
    return each_pin(lock, "openssh", lambda p: replace(p, url="https://evil.example/openssh.conda"), "conda")


@forgery("hpc-v2.7", "installed-twice")
def a_wheel_over_a_conda_package(lock: Lock) -> Lock:
    return with_pin(lock, wheel("numpy", "2.3.1"))


# What wheels are said to say


def _said_of(lock: Lock, name: str, constraint: str = "numpy<2", sha256: str | None = None) -> Lock:
    pin = next(pin for target in lock for pin in target.pins if pin.name == name)
    assert pin.artifact is not None
    row = LockedCorrection(
        name, pin.version, pin.artifact.file, sha256 or pin.artifact.sha256, constraint, "it says so"
    )
    return replace(lock, corrections=(row,))


@forgery("mm-v2.9", "correction-broken")
def a_wheel_that_is_said_to_need_numpy_1(lock: Lock) -> Lock:
    return _said_of(lock, "pandas")


@forgery("mm-v2.9", "correction-unfounded")
def what_no_pure_wheel_can_say(lock: Lock) -> Lock:
    return _said_of(lock, "transformers")


@forgery("mm-v2.9", "correction-unfounded")
def what_a_wheel_says_that_nobody_pins(lock: Lock) -> Lock:
    return _said_of(lock, "pandas", sha256=EVIL)


@forgery("mm-v2.9", "correction-unfounded")
def a_bound_that_is_read_in_no_wheel(lock: Lock) -> Lock:
    return _said_of(lock, "requests", "urllib3<1.26.5")


@forgery("mm-v2.9", "correction-broken")
def a_setuptools_that_is_not_there(lock: Lock) -> Lock:
    return _said_of(lock, "requests", "setuptools<82")
