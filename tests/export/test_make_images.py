"""The images of a plan: which ones, from where their digests come, and what compiles in them."""

from dataclasses import replace
from typing import Any

import pytest
from recipe_plans import compiled, installed, parsed, plan_with, shipped, with_compiled, with_image

from envspec.base.errors import InputError, Place
from envspec.export.folder import render
from envspec.export.images import CODE_SERVER, MICROMAMBA, UV, wanted_images
from envspec.export.make import make_plan
from envspec.facts.toolkits import cuda_releases
from envspec.lock.judge import SoundLock
from envspec.lock.model import Artifact, Lock, LockedImage, Pin
from envspec.spec.model import Image, Located, Spec


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
    assert plan.uv.pinned == f"{UV}@{digest}" and plan.base.digest is None


def test_a_compiler_for_every_cuda() -> None:
    spec, lock = with_compiled(*parsed("mm-v2.1"))
    spec = replace(spec, image=Image(base="debian:trixie-slim"))
    target = lock.targets[0]
    for toolkit in cuda_releases():
        changed = replace(target, inputs=replace(target.inputs, cuda=toolkit.version))
        plan = make_plan(spec, SoundLock(lock), changed, "")
        assert plan.compiling is not None
        assert plan.compiling.image.name.startswith(f"nvidia/cuda:{toolkit.version}.")
        assert plan.compiling.env["CUDA_HOME"] == "/usr/local/cuda" and plan.compiling.env["FORCE_CUDA"] == "1"


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
        assert plan.compiling is not None and plan.compiling.image.name == f"nvidia/cuda:{tag}"


@pytest.mark.parametrize("target", ["cu118", "cu121"])
def test_what_compiles_nothing_is_built_beside_nothing(target: str) -> None:
    """A build that sees torch and no nvcc would fail: deepspeed's setup.py asks for CUDA_HOME then."""
    plan = shipped("mm-v2.1", target)
    assert plan.compiling is not None and plan.compiling.packages == ("deepspeed",)
    assert (plan.compiling.image, plan.compiling.wheels, plan.compiling.env) == (plan.base, (), {})
    dockerfile, definition = (render(plan, name) for name in ("dockerfile", "apptainer"))
    text = dockerfile[f"{target}/Dockerfile"]
    assert "# Builds what the lock has as source only: deepspeed.\nFROM python AS compile\n" in text
    built = definition[f"{target}/apptainer.def"].partition("Stage: final")[0]
    for one in (text.partition("# Builds")[2].partition("AS carried")[0], built):
        assert "PYTHONPATH=" not in one and "devel" not in one and "CUDA_HOME" not in one and "from=torch" not in one


@pytest.mark.parametrize("fields", [{"build_env": {"DS_BUILD_FUSED_ADAM": "1"}}, {"build_apt": ("libaio-dev",)}])
def test_who_prepares_builds_compiles(fields: dict[str, Any]) -> None:
    plan = plan_with("mm-v2.1", with_image(base="debian:bookworm-slim", **fields))
    assert plan.compiling is not None and "devel" in plan.compiling.image.name and plan.compiling.sees


def test_conda_targets_get_cudas_compiler_too() -> None:
    def with_source(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
        source = Pin("pip", "flash", "1.0", "pypi", Artifact("flash-1.0.tar.gz", "a" * 64), ("numpy", "torch"))
        target = lock.target("cu126-ampere")
        assert target is not None
        return spec, replace(lock, targets=(replace(target, pins=(*target.pins, source)),))

    plan = plan_with("hpc-v2.7", with_source)
    assert plan.compiling is not None and plan.compiling.image.name.startswith("nvidia/cuda:12.6.3-devel")
    assert plan.micromamba is not None


def test_builds_see_what_torch_and_the_sources_depend_on_and_build_tools() -> None:
    plan = compiled("mm-v2.1", "cu118")
    assert plan.compiling is not None
    (step,) = plan.compiling.wheels
    seen = set(step.packages)
    assert {"sympy", "jinja2", "markupsafe", "numpy", "ninja", "packaging", "psutil"} <= seen
    assert "transformers" not in seen and "deepspeed" not in seen and "torch" not in seen
    (source,) = (step for step in plan.pip if step.source)
    assert source.built_with is not None and "setuptools==69.5.1 --hash=sha256:" in plan.files[source.built_with]
    text = installed(plan, step)
    assert all(f"{name}==" in text for name in seen) and text.count("--hash=sha256:") == len(seen)
    newer = compiled("mm-v2.9", "cpu").compiling
    assert newer is not None and "setuptools" in newer.wheels[0].packages
    assert not any(path.startswith("requirements/build") for path in shipped("cpu-py311", "cpu").files)


@pytest.mark.parametrize("whole", [False, True])
def test_what_the_spec_says_of_builds(whole: bool) -> None:
    """A build against the environment sees what its entry names, or all of it; and sees it without isolation."""

    def with_rules(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
        needs = {"deepspeed": (Located("tokenizers", Place("x")),)}
        builds = {"no_build_isolation": frozenset({"deepspeed"})} if whole else {"build_dependencies": needs}
        return replace(spec, pip=replace(spec.pip, terms=replace(spec.pip.terms, **builds))), lock

    plan = plan_with("mm-v2.1", with_rules)
    assert plan.compiling is not None
    (step,) = plan.compiling.wheels
    assert "tokenizers" in step.packages
    assert ("accelerate" in step.packages) == whole
    (source,) = (one for one in plan.pip if one.source)
    assert source.unisolated == ("deepspeed",)
    dockerfile = render(plan, "dockerfile")[f"{plan.target}/Dockerfile"]
    apptainer = render(plan, "apptainer")[f"{plan.target}/apptainer.def"]
    for text in (dockerfile, apptainer):
        assert "--no-build-isolation-package deepspeed" in text and "export MAX_JOBS=" in text
    plain = shipped("mm-v2.1", plan.target)
    assert "isolation" not in render(plain, "dockerfile")[f"{plan.target}/Dockerfile"]


def test_what_compiles_has_packages_and_variables_of_its_own() -> None:
    own = {"DS_BUILD_FUSED_ADAM": "1", "TORCH_CUDA_ARCH_LIST": "8.0"}
    plan = plan_with("mm-v2.1", with_image(apt=("libfoo1",), build_apt=("libaio-dev",), build_env=own))
    assert plan.compiling is not None and plan.spec_apt == ("libfoo1",) and "libfoo1" in plan.debian
    assert "libaio-dev" in plan.compiling.apt and "libaio-dev" not in plan.debian
    assert own.items() <= plan.compiling.env.items() and not own.keys() & {*dict(plan.env)} - {"TORCH_CUDA_ARCH_LIST"}


def test_git_needs_git_where_it_is_built() -> None:
    def from_git(spec: Spec, lock: Lock) -> tuple[Spec, Lock]:
        from envspec.lock.model import GitSource

        source = GitSource("https://example.org/x.git", "a" * 40)
        pin = Pin("pip", "flash", "1.0", "git", None, git=source)
        target = lock.targets[0]
        return spec, replace(lock, targets=(replace(target, pins=(*target.pins, pin)),))

    plan = plan_with("cpu-py311", from_git)
    assert plan.compiling is not None and "git" in plan.compiling.apt and plan.compiling.packages == ("flash",)
    (step,) = (step for step in plan.pip if step.source)
    assert not step.hashed and f"\nflash @ git+https://example.org/x.git@{'a' * 40}  # {{" in installed(plan, step)
