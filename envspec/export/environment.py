"""The environment variables of an image."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping

from envspec.base.errors import InputError, Place
from envspec.export import compat, nvcc
from envspec.export.plan import OwnProject, PipStep
from envspec.facts.compute_capability import capability_of
from envspec.facts.gpu_only import use_video
from envspec.facts.toolkits import toolkit
from envspec.lock.model import LockedTarget
from envspec.packages.names import requirement_name
from envspec.spec.model import Image, Project, Spec


def environment(spec: Spec, target: LockedTarget) -> tuple[tuple[str, str], ...]:
    """List the variables of every process in an image, in order; the spec's own come last and win."""
    port = spec.image.ssh_port
    own = {
        "ENVSPEC_SPEC": spec.name,
        "ENVSPEC_TARGET": target.name,
        "LANG": "C.UTF-8",
        # A cluster's ~/.local must not leak in.
        "PYTHONNOUSERSITE": "1",
        **_pytorch_version(target),
        **_cuda(target, compat.branches(spec, target)),
        **({"SSH_PORT": str(port)} if "ssh" in spec.image.services and port != Image().ssh_port else {}),
        **(_fabric(spec) | nvcc.variables(spec) if target.inputs.cuda else {}),
    }
    env = {name: value for name, value in own.items() if name not in spec.image.env} | dict(spec.image.env)
    return tuple(env.items())


def environment_on_base(spec: Spec, target: LockedTarget) -> tuple[tuple[str, str], ...]:
    """List the variables that an image on a base gets: what a vendor says of its CUDA and its GPUs stays."""
    own = ("ENVSPEC_SPEC", "ENVSPEC_TARGET", "PYTHONNOUSERSITE", *spec.image.env)
    return tuple((name, value) for name, value in environment(spec, target) if name in own)


def _compile_environment(target: LockedTarget) -> Mapping[str, str]:
    """Make the variables with which extensions compile for the target's GPUs; none for a CPU target."""
    if target.inputs.cuda is None:
        return {}
    return {
        "CUDA_HOME": "/usr/local/cuda",
        # a builder has no GPU, and many packages leave their kernels out where they see none
        "FORCE_CUDA": "1",
        "TORCH_CUDA_ARCH_LIST": architecture_list(target),
    }


_OWN_WHEELS = {
    "causal-conv1d": "CAUSAL_CONV1D_FORCE_BUILD",
    "flash-attn": "FLASH_ATTENTION_FORCE_BUILD",
    "mamba-ssm": "MAMBA_FORCE_BUILD",
}
"""Packages whose setup.py fetches a wheel that no lock names, unless this variable is TRUE.

Source: their sources' setup.py (flash_attn 2.8.3, mamba_ssm 2.2.4, causal_conv1d 1.5.2), the class CachedWheelsCommand.
"""


def build_variables(target: LockedTarget) -> Mapping[str, str]:
    """List the variables of builds: for the target's GPUs, from the locked source itself."""
    names = {pin.name for pin in target.pins if pin.kind == "pip" and not pin.is_wheel}
    forced = {variable: "TRUE" for name, variable in _OWN_WHEELS.items() if name in names}
    return {**_compile_environment(target), **forced}


def refuse_unknown_gpus(name: str, target: LockedTarget) -> None:
    """Raise InputError where a package would be compiled for GPUs that a target doesn't name: whose they'd be is up to
    the machine that builds."""
    if target.inputs.cuda and not target.architectures:
        hint = f'add for example to [targets.{target.name}]: gpus = ["H100"]'
        raise InputError(f"{name} is compiled for GPUs, and the target {target.name} names none", hint=hint)


def architecture_list(target: LockedTarget) -> str:
    """Write the target's compute capabilities as `TORCH_CUDA_ARCH_LIST` does: "7.0;8.0"."""
    return ";".join(map(capability_of, target.architectures))


def require_cuda(target: LockedTarget, forward: Iterable[int] = ()) -> str | None:
    """Make `NVIDIA_REQUIRE_CUDA`: a driver of the target's CUDA, or any from the lock's floor on, as minor-version
    compatibility allows, or one of the older branches that the image's cuda-compat serves. For
    nvidia-container-toolkit a space is OR and a comma AND. None without CUDA."""
    cuda, floor = target.inputs.cuda, target.driver_floor
    if cuda is None:
        return None
    if floor:
        older = "".join(f" driver>={branch},driver<{branch + 1}" for branch in forward)
        return f"cuda>={cuda} driver>={floor}{older}"
    known = toolkit(cuda)
    return known.require_cuda if known else f"cuda>={cuda}"


def torch_version(target: LockedTarget) -> str | None:
    """Give the version of torch without its local part; None where the lock has no torch."""
    pin = target.pin("torch", "pip") or target.pin("pytorch", "conda") or target.pin("libtorch", "conda")
    return pin.version.partition("+")[0] if pin else None


def _pytorch_version(target: LockedTarget) -> dict[str, str]:
    # enroot and pyxis take an image that has it for a PyTorch one and set MASTER_ADDR and the rest for torchrun.
    version = torch_version(target)
    return {"PYTORCH_VERSION": version} if version else {}


def _cuda(target: LockedTarget, forward: Iterable[int] | None) -> dict[str, str]:
    require = require_cuda(target, forward or ())
    if require is None:
        return {}
    video = use_video(pin.name for pin in target.pins)
    return {
        "NVIDIA_VISIBLE_DEVICES": "all",
        "NVIDIA_DRIVER_CAPABILITIES": f"compute,utility{',video' if video else ''}",
        # where the tables don't know which drivers the image's cuda-compat serves, they keep none out
        **({"NVIDIA_REQUIRE_CUDA": require} if forward is not None else {}),
        **({"TORCH_CUDA_ARCH_LIST": architecture_list(target)} if target.architectures else {}),
    }


def _fabric(spec: Spec) -> dict[str, str]:
    # enroot's hook for NVIDIA's network cards does nothing without it. Source: enroot's conf/hooks/99-mellanox.sh
    return {"MELLANOX_VISIBLE_DEVICES": "all"} if spec.image.fabric == "infiniband" else {}


# A spec's own project in recipes: what its build needs, and where its folder is.
#
# Its files are no part of the build context, which is the folder of the recipes: builders get them as a context of
# their
# own. It's built by the lock's packages alone, and installed last, without dependencies.


COMPILING = frozenset(
    {
        "cffi", "cmake", "cython", "maturin", "meson", "meson-python", "nanobind", "ninja", "numpy", "pybind11",
        "scikit-build", "scikit-build-core", "setuptools-rust", "torch",
    }
)  # fmt: skip
"""Build requirements of projects and sources that have code to compile."""
VERSIONED = frozenset({"hatch-vcs", "setuptools-scm", "vcs-versioning"})
"""Build requirements that take the version from git, which images haven't, or from SETUPTOOLS_SCM_PRETEND_VERSION.
Source: setuptools_scm's documentation, "Overrides"; hatch-vcs calls it."""


def project_of(spec: Spec, target: LockedTarget) -> Project | None:
    """Give the project to install; None where a spec has none, or one that is nothing to build. Raises InputError where
    the lock has a package of its name."""
    project = spec.project
    if project is None or project.build_requires is None:
        return None
    if target.pin(project.name, "pip") is not None:
        message = f"{project.name} is the spec's project, and the lock has a package of that name from an index"
        hint = "give the project another name, or leave `project` out and list its dependencies"
        raise InputError(message, hint=hint, place=spec.places.get("env.project", Place(spec.path)))
    return project


def build_names(project: Project | None) -> frozenset[str]:
    """Name what a project's build requires."""
    return frozenset(requirement_name(requirement.text) for requirement in (project and project.build_requires) or ())


def is_compiled(project: Project | None) -> bool:
    """Return whether a project's build needs a compiler."""
    return bool(build_names(project) & COMPILING)


def refuse_unknown_builds(project: Project, target: LockedTarget) -> None:
    """Raise InputError for a project that is compiled against torch for GPUs that a target doesn't name."""
    if "torch" in build_names(project):
        refuse_unknown_gpus(project.name, target)


def own_project(spec: Spec, target: LockedTarget, place: str, wheels: tuple[PipStep, ...]) -> OwnProject | None:
    """Plan the project of a target's recipes. `place` as in `Plan`, `wheels` as in `OwnProject`. Raises InputError as
    `project_of`, and for one that is compiled for unknown GPUs."""
    project = project_of(spec, target)
    if project is None:
        return None
    compiled = is_compiled(project)
    refuse_unknown_builds(project, target)
    folder = None if place == "." else posixpath.relpath(project.path, posixpath.dirname(place))
    versioned = bool(build_names(project) & VERSIONED)
    return OwnProject(project.name, project.path, folder, compiled, versioned, wheels)
