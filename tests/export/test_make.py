"""The plan of a target: what it takes from spec and lock, and what it refuses."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from recipe_plans import ROOT, compiled, installed, parsed, plan_with, shipped, shipped_spec, with_compiled, with_image

from envspec.base.errors import InputError, Place
from envspec.export.carried import check_files
from envspec.export.environment import architecture_list, require_cuda
from envspec.export.folder import render
from envspec.export.images import CODE_SERVER, MICROMAMBA, UV, wanted_images
from envspec.export.make import make_plan
from envspec.export.plan import Plan
from envspec.facts.cuda_stack import stack_of
from envspec.facts.toolkits import cuda_releases
from envspec.lock.model import Artifact, Lock, LockedImage, Pin, SoundLock
from envspec.lock.slice import slice_digest, slice_of
from envspec.spec.model import Image, Located, Spec


@pytest.mark.parametrize(
    "base",
    [
        "alpine", "alpine:3.22", "python:3.12-alpine", "python:3.12-alpine3.22", "fedora:43", "rockylinux:9",
        "nvidia/cuda:12.8.1-base-ubi8", "registry.example.org/x/almalinux@sha256:" + "a" * 64, "busybox:glibc",
        "registry.example.org/distroless/python3",
    ],
)  # fmt: skip
def test_a_base_without_apt_is_refused(base: str) -> None:
    with pytest.raises(InputError) as caught:
        plan_with("cpu-py311", with_image(base=base))
    assert base in caught.value.message and "apt" in caught.value.message and caught.value.hint


@pytest.mark.parametrize(
    "base", ["debian:bookworm-slim", "ubuntu:24.04", "python:3.12-slim", "nvidia/cuda:12.8.1-base-ubuntu22.04"]
)
def test_a_base_that_may_have_apt_is_taken(base: str) -> None:
    assert plan_with("cpu-py311", with_image(base=base)).image.base.name == base


def test_a_service_whose_package_is_not_locked_is_refused() -> None:
    with pytest.raises(InputError, match='"jupyter" needs jupyterlab') as caught:
        plan_with("cpu-py311", with_image(services=("jupyter",)))
    assert caught.value.hint is not None and "add jupyterlab to [pip]" in caught.value.hint


def test_a_user_of_debian_is_refused() -> None:
    with pytest.raises(InputError, match="www-data"):
        plan_with("cpu-py311", with_image(user="www-data"))


def test_a_platform_without_images_is_refused() -> None:
    def on_a_mac(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
        target = lock.targets[0]
        return spec, replace(lock, targets=(replace(target, inputs=replace(target.inputs, platform="osx-arm64")),))

    with pytest.raises(InputError, match="osx-arm64"):
        plan_with("cpu-py311", on_a_mac)


def test_an_index_that_the_spec_lost_is_refused() -> None:
    def from_own(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
        target = lock.targets[0]
        pins = tuple(replace(pin, index="own") if pin.name == "numpy" else pin for pin in target.pins)
        return spec, replace(lock, targets=(replace(target, pins=pins),))

    with pytest.raises(InputError, match='index "own"'):
        plan_with("cpu-py311", from_own)


def test_the_carried_files_are_summed() -> None:
    files = dict(shipped("mm-v2.9", "cu126-volta").image.carried)
    del files["target.json"]
    lines = (line.split("  ") for line in files.pop("SHA256SUMS").splitlines())
    listed = {path: digest for digest, path in lines}
    assert listed == {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()}


def test_only_the_services_asked_for_are_carried() -> None:
    def scripts(plan: Plan) -> list[str]:
        return [path for path in plan.image.carried if path.startswith("services/")]

    assert scripts(shipped("cpu-py311", "cpu")) == []
    assert scripts(shipped("mm-v2.9", "cpu")) == ["services/common.sh", "services/jupyter.sh"]
    assert len(scripts(shipped("team-v2.9", "cpu"))) == 5


def test_the_whole_check_is_carried() -> None:
    for name, target in (("cpu-py311", "cpu"), ("mm-v2.9", "cu128-hopper")):
        assert set(check_files()) < set(shipped(name, target).image.carried)


def test_carried_code_is_the_packages_own() -> None:
    package = ROOT / "envspec" / "carried"
    for path, text in shipped("team-v2.9", "cpu").image.carried.items():
        if (package / path).is_file():
            assert text == (package / path).read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_pip_package_is_installed_once_from_its_own_index() -> None:
    for name in ("mm-v2.9", "hpc-v2.7", "deit-v2.6"):
        spec, lock = parsed(name)
        for target in lock:
            plan = make_plan(spec, SoundLock.of(lock), target)
            pins = {pin.name: pin for pin in target.pins if pin.kind == "pip"}
            assert sorted(package for step in plan.sources.pip for package in step.packages) == sorted(pins)
            for step in plan.sources.pip:
                text = installed(plan, step)
                for package in step.packages:
                    pin = pins[package]
                    assert f"{package}=={pin.version} " in text and pin.artifact and pin.artifact.sha256 in text
                    assert pin.index == (f"pytorch/{step.torch_backend}" if step.torch_backend else "pypi")
                    assert step.source is not pin.is_wheel
                    assert step.group == ((stack_of(package) or "rest") if pin.is_wheel else "source")


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("torch", "torch"), ("torchvision", "torch"), ("triton", "torch"), ("pytorch-triton", "torch"),
        ("nvidia-cublas-cu12", "nvidia"), ("nvidia-nccl-cu13", "nvidia"), ("cuda-bindings", "nvidia"),
        ("nvidia-ml-py", None), ("torchmetrics", None), ("torch-geometric", None), ("numpy", None),
    ],
)  # fmt: skip
def test_the_cuda_stack(name: str, layer: str | None) -> None:
    assert stack_of(name) == layer


def test_the_files_of_layers_say_nothing_of_the_whole_lock() -> None:
    """Or a layer would be new with every lock. A package's line ends with what the slice says of it alone."""
    plan, found = shipped("mm-v2.9", "cu126-volta"), []
    for step in plan.sources.pip:
        text = installed(plan, step)
        assert "mm-v2.9" not in text
        found += [json.loads(line.split("  # ")[1]) for line in text.splitlines() if "==" in line]
    assert sorted(found, key=lambda row: str(row["name"])) == json.loads(plan.image.document)["lock"]["pip"]


def test_the_specs_own_environment_wins() -> None:
    plan = plan_with("cpu-py311", with_image(env={"LANG": "de_DE.UTF-8", "B": "1", "A": "2"}))
    assert plan.runtime.env[-3:] == (("LANG", "de_DE.UTF-8"), ("B", "1"), ("A", "2"))
    assert [name for name, _ in plan.runtime.env].count("LANG") == 1


def test_architectures_of_two_digits() -> None:
    _, lock = parsed("mm-v2.9")
    target = lock.target("cu128-blackwell")
    assert target is not None and architecture_list(target) == "10.0;12.0"


def test_what_drivers_are_required_of_a_cuda_without_a_floor() -> None:
    _, lock = parsed("mm-v2.9")
    target = lock.target("cu128-hopper")
    assert target is not None
    assert require_cuda(replace(target, driver_floor=None)) == "cuda>=12.8 driver>=525.60.13"
    assert require_cuda(replace(target, inputs=replace(target.inputs, cuda=None))) is None


def test_target_json() -> None:
    made = json.loads(shipped("mm-v2.9", "cu128-blackwell").image.carried["target.json"])
    assert made["schema"] == 2 and made["architectures"] == ["sm_100", "sm_120"]
    assert made["cards"]["B200"]["capability"] == "10.0" and made["cards"]["B200"]["bandwidth_gb_s"] == 8000
    assert "10.0" in made["code"]["sm"] and made["driver_floor"] == "570"
    assert json.loads(shipped("cpu-py311", "cpu").image.carried["target.json"])["code"] is None


def test_an_image_carries_its_slice_of_the_lock_a_package_a_line() -> None:
    _, lock = parsed("mm-v2.9")
    for target in lock:
        plan = shipped("mm-v2.9", target.name)
        text = plan.image.carried["target.json"]
        made = json.loads(text)
        assert made["lock"] == slice_of(lock, target)
        assert made["lock_digest"] == plan.lock_digest == slice_digest(made["lock"])
        assert sum(line.startswith('      {"name": ') for line in text.splitlines()) == len(target.pins)


def test_what_moves_in_another_target_changes_none_of_an_images_files() -> None:
    spec, lock = parsed("mm-v2.9")
    first, second, *others = lock.targets
    pins = tuple(replace(pin, version="9.9") if pin.kind == "pip" else pin for pin in second.pins)
    moved = replace(lock, targets=(first, replace(second, pins=pins), *others))
    before, after = (make_plan(spec, SoundLock.of(one), first) for one in (lock, moved))
    assert after.image.carried == before.image.carried and after.image.document == before.image.document

    def lines(plan: Plan) -> list[list[str]]:
        return [sorted({*installed(plan, step).splitlines()}) for step in plan.sources.pip]

    # what both had in one file stands in two
    assert lines(after) == lines(before) and after.sources.parts != before.sources.parts
    assert make_plan(spec, SoundLock.of(moved), moved.targets[1]).image.document != before.image.document


def test_the_same_text_lies_at_the_same_place_for_every_target() -> None:
    for name in ("mm-v2.9", "hpc-v2.7"):
        places: dict[str, str] = {}
        for plan in shipped_spec(name).targets:
            for path, text in plan.sources.files.items():
                assert places.setdefault(path, text) == text
        assert len(set(places.values())) == len(places)


def test_make_plan_reads_nothing_but_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec, lock = parsed("cpu-py311")
    assert make_plan(spec, SoundLock.of(lock), lock.targets[0]) == make_plan(spec, SoundLock.of(lock), lock.targets[0])


def test_cuda_images_have_the_libraries_of_infiniband() -> None:
    libraries = {"ibverbs-providers", "libibverbs1", "libnuma1", "librdmacm1"}
    plan = shipped("mm-v2.9", "cu128-hopper")
    assert libraries <= {*plan.image.apt} and dict(plan.runtime.env)["MELLANOX_VISIBLE_DEVICES"] == "all"
    assert json.loads(plan.sources.files[plan.slice])["fabric"] == "infiniband"
    without = plan_with("mm-v2.1", with_image(fabric="none"))
    assert not libraries & {*without.image.debian} and "MELLANOX_VISIBLE_DEVICES" not in dict(without.runtime.env)
    assert json.loads(without.sources.files[without.slice])["fabric"] == "none"
    cpu = shipped("cpu-py311", "cpu")
    assert not libraries & {*cpu.image.debian} and "fabric" not in json.loads(cpu.sources.files[cpu.slice])


def test_nvcc_when_it_is_asked_for() -> None:
    """What the recipes say of it: neither the image nor a GPU can be had here."""
    plan = plan_with("mm-v2.1", with_image(nvcc=True, base="debian:bookworm-slim"))
    (nvcc,) = plan.image.borrowed
    assert nvcc.image.name == "nvidia/cuda:11.8.0-devel-ubuntu22.04"
    assert ("/usr/local/cuda-11.8/bin", "/usr/local/cuda/bin") in nvcc.copies
    assert dict(plan.runtime.env)["CUDA_HOME"] == "/usr/local/cuda"
    dockerfile = render(plan, "dockerfile")[f"{plan.target}/Dockerfile"]
    assert "COPY --from=nvcc /usr/local/cuda-11.8/nvvm /usr/local/cuda/nvvm\n" in dockerfile
    definitions = [text for path, text in render(plan, "apptainer").items() if path.endswith(".def")]
    assert "build.sh own dev --cuda targets/x86_64-linux" in dockerfile
    for text in definitions:
        assert "build.sh cuda targets/x86_64-linux\n" in text
    assert "CUDA_HOME" not in dict(shipped("mm-v2.1", "cu118").runtime.env)
    assert not plan_with("cpu-py311", with_image(nvcc=True)).image.borrowed
    with pytest.raises(InputError, match=r"the compiler of CUDA 11\.8 compiles nothing beside glibc 2\.41"):
        plan_with("mm-v2.1", with_image(nvcc=True))


def test_images_with_video_ask_the_driver_for_it() -> None:
    def with_package(name: str) -> Plan:
        def changed(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
            target = lock.targets[0]
            pin = Pin("pip", name, "1.0", "pypi", Artifact(f"{name.replace('-', '_')}-1.0-py3-none-any.whl", "a" * 64))
            return spec, replace(lock, targets=(replace(target, pins=(*target.pins, pin)),))

        return plan_with("mm-v2.1", changed)

    for name in ("torchcodec", "nvidia-dali-cuda120", "av"):
        assert dict(with_package(name).runtime.env)["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility,video"
    assert dict(with_package("avro").runtime.env)["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"


def test_images_are_those_that_are_used() -> None:
    assert wanted_images(*parsed("cpu-py311")) == (UV, "debian:trixie-slim")
    assert MICROMAMBA in wanted_images(*parsed("hpc-v2.7")) and CODE_SERVER in wanted_images(*parsed("team-v2.9"))
    # deepspeed is built with setuptools alone, and compiles nothing
    assert not [name for name in wanted_images(*parsed("mm-v2.1")) if "devel" in name]
    assert [name for name in wanted_images(*with_compiled(*parsed("mm-v2.1"))) if "devel" in name] == [
        "nvidia/cuda:11.8.0-devel-ubuntu22.04",
        "nvidia/cuda:12.1.1-devel-ubuntu22.04",
    ]


def test_images_get_their_digests_from_the_lock() -> None:
    digest = "sha256:" + "a" * 64
    plan = plan_with("cpu-py311", lambda spec, lock: (spec, replace(lock, images=(LockedImage(UV, digest),))))
    assert plan.image.uv.pinned == f"{UV}@{digest}" and plan.image.base.digest is None


def test_a_compiler_for_every_cuda() -> None:
    spec, lock = with_compiled(*parsed("mm-v2.1"))
    spec = replace(spec, image=Image(base="debian:trixie-slim"))
    target = lock.targets[0]
    for toolkit in cuda_releases():
        changed = replace(target, inputs=replace(target.inputs, cuda=toolkit.version))
        plan = make_plan(spec, SoundLock.of(lock), changed, "")
        assert plan.sources.compiling is not None
        assert plan.sources.compiling.image.name.startswith(f"nvidia/cuda:{toolkit.version}.")
        assert (
            plan.sources.compiling.env["CUDA_HOME"] == "/usr/local/cuda"
            and plan.sources.compiling.env["FORCE_CUDA"] == "1"
        )


@pytest.mark.parametrize(
    ("base", "cuda", "tag"),
    [
        ("debian:bookworm-slim", "12.1", "12.1.1-devel-ubuntu22.04"),
        ("debian:bookworm-slim", "11.6", "11.6.2-devel-ubuntu20.04"),
        ("python:3.10-slim-bullseye", "12.1", "12.1.1-devel-ubuntu20.04"),
        ("nvidia/cuda:12.9.1-base-ubuntu20.04", "12.9", "12.9.1-devel-ubuntu20.04"),
        ("debian:11-slim", "13.0", None),
        ("debian:bookworm-slim", "13.3", "13.3.1-devel-ubuntu22.04"),
        ("debian:trixie-slim", "13.4", "13.4.2-devel-ubuntu24.04"),
        ("debian:bookworm-slim", "13.4", None),
        ("nvidia/cuda:13.3.1-base-ubuntu22.04", "13.4", None),
        ("ubuntu:18.04", "11.4", None),
    ],
)
def test_what_is_compiled_runs_on_the_glibc_of_the_base(base: str, cuda: str, tag: str | None) -> None:
    def changed(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
        spec, lock = with_compiled(spec, lock)
        target = lock.targets[0]
        target = replace(target, inputs=replace(target.inputs, cuda=cuda))
        return replace(spec, image=Image(base=base)), replace(lock, targets=(target,))

    if tag is None:
        with pytest.raises(InputError, match=r"deepspeed would be compiled .* for a newer glibc"):
            plan_with("mm-v2.1", changed)
    else:
        plan = plan_with("mm-v2.1", changed)
        assert plan.sources.compiling is not None and plan.sources.compiling.image.name == f"nvidia/cuda:{tag}"


@pytest.mark.parametrize("target", ["cu118", "cu121"])
def test_what_compiles_nothing_is_built_beside_nothing(target: str) -> None:
    """A build that sees torch and no nvcc would fail: deepspeed's setup.py asks for CUDA_HOME then."""
    plan = shipped("mm-v2.1", target)
    assert plan.sources.compiling is not None and plan.sources.compiling.packages == ("clip", "deepspeed")
    assert (plan.sources.compiling.image, plan.sources.compiling.wheels, plan.sources.compiling.env) == (
        plan.image.base,
        (),
        {},
    )
    dockerfile, definition = (render(plan, name) for name in ("dockerfile", "apptainer"))
    text = dockerfile[f"{target}/Dockerfile"]
    assert "# Builds what the lock has as source only: clip, deepspeed.\nFROM python AS compile\n" in text
    built = definition[f"{target}/apptainer.def"].partition("Stage: final")[0]
    for one in (text.partition("# Builds")[2].partition("AS carried")[0], built):
        assert "PYTHONPATH=" not in one and "devel" not in one and "CUDA_HOME" not in one and "from=stack" not in one


@pytest.mark.parametrize("fields", [{"build_env": {"DS_BUILD_FUSED_ADAM": "1"}}, {"build_apt": ("libaio-dev",)}])
def test_who_prepares_builds_compiles(fields: dict[str, Any]) -> None:
    plan = plan_with("mm-v2.1", with_image(base="debian:bookworm-slim", **fields))
    assert (
        plan.sources.compiling is not None
        and "devel" in plan.sources.compiling.image.name
        and plan.sources.compiling.sees
    )


def test_conda_targets_get_cudas_compiler_too() -> None:
    def with_source(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
        source = Pin("pip", "flash", "1.0", "pypi", Artifact("flash-1.0.tar.gz", "a" * 64), ("numpy", "torch"))
        target = lock.target("cu126-ampere")
        assert target is not None
        return spec, replace(lock, targets=(replace(target, pins=(*target.pins, source)),))

    plan = plan_with("hpc-v2.7", with_source)
    assert plan.sources.compiling is not None and plan.sources.compiling.image.name.startswith(
        "nvidia/cuda:12.6.3-devel"
    )
    assert plan.image.micromamba is not None


def test_builds_see_what_torch_and_the_sources_depend_on_and_build_tools() -> None:
    plan = compiled("mm-v2.1", "cu118")
    assert plan.sources.compiling is not None
    (step,) = plan.sources.compiling.wheels
    seen = set(step.packages)
    assert {"sympy", "jinja2", "markupsafe", "numpy", "ninja", "packaging", "psutil"} <= seen
    assert "transformers" not in seen and "deepspeed" not in seen and "torch" not in seen
    (source,) = (step for step in plan.sources.pip if step.source and step.hashed)
    assert (
        source.built_with is not None and "setuptools==69.5.1 --hash=sha256:" in plan.sources.files[source.built_with]
    )
    text = installed(plan, step)
    assert all(f"{name}==" in text for name in seen) and text.count("--hash=sha256:") == len(seen)
    newer = compiled("mm-v2.9", "cpu").sources.compiling
    assert newer is not None and "setuptools" in newer.wheels[0].packages
    assert not any(path.startswith("requirements/build") for path in shipped("cpu-py311", "cpu").sources.files)


@pytest.mark.parametrize("whole", [False, True])
def test_what_the_spec_says_of_builds(whole: bool) -> None:
    """A build against the environment sees what its entry names, or all of it; and sees it without isolation."""

    def with_rules(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
        needs = {"deepspeed": (Located("tokenizers", Place("x")),)}
        builds = {"no_build_isolation": frozenset({"deepspeed"})} if whole else {"build_dependencies": needs}
        return replace(spec, pip=replace(spec.pip, terms=replace(spec.pip.terms, **builds))), lock

    plan = plan_with("mm-v2.1", with_rules)
    assert plan.sources.compiling is not None
    (step,) = plan.sources.compiling.wheels
    assert "tokenizers" in step.packages
    assert ("accelerate" in step.packages) == whole
    (source,) = (one for one in plan.sources.pip if one.source and one.hashed)
    assert source.unisolated == ("deepspeed",)
    dockerfile = render(plan, "dockerfile")[f"{plan.target}/Dockerfile"]
    apptainer = render(plan, "apptainer")[f"{plan.target}/apptainer.def"]
    assert "--no-build-isolation-package deepspeed" in apptainer and "sh /layers/build.sh compile - " in apptainer
    joined = re.sub(r" \\\n\s*", " ", dockerfile)
    assert "--no-build-isolation-package deepspeed" in joined and "sh /layers/build.sh compile " in joined
    plain = shipped("mm-v2.1", plan.target)
    assert "isolation" not in render(plain, "dockerfile")[f"{plan.target}/Dockerfile"]


def test_what_compiles_has_packages_and_variables_of_its_own() -> None:
    own = {"DS_BUILD_FUSED_ADAM": "1", "TORCH_CUDA_ARCH_LIST": "8.0"}
    plan = plan_with("mm-v2.1", with_image(apt=("libfoo1",), build_apt=("libaio-dev",), build_env=own))
    assert plan.sources.compiling is not None and plan.image.spec_apt == ("libfoo1",) and "libfoo1" in plan.image.debian
    assert "libaio-dev" in plan.sources.compiling.apt and "libaio-dev" not in plan.image.debian
    assert own.items() <= plan.sources.compiling.env.items() and not own.keys() & {*dict(plan.runtime.env)} - {
        "TORCH_CUDA_ARCH_LIST"
    }


def test_git_needs_git_where_it_is_built() -> None:
    def from_git(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
        from envspec.lock.model import GitSource

        source = GitSource("https://example.org/x.git", "a" * 40)
        pin = Pin("pip", "flash", "1.0", "git", None, git=source)
        target = lock.targets[0]
        return spec, replace(lock, targets=(replace(target, pins=(*target.pins, pin)),))

    plan = plan_with("cpu-py311", from_git)
    assert (
        plan.sources.compiling is not None
        and "git" in plan.sources.compiling.apt
        and plan.sources.compiling.packages == ("flash",)
    )
    (step,) = (step for step in plan.sources.pip if step.source)
    assert not step.hashed and f"\nflash @ git+https://example.org/x.git@{'a' * 40}  # {{" in installed(plan, step)
