"""A spec's own project in recipes: what its build needs, and where its folder is.

Its files are no part of the build context, which is the folder of the recipes: builders get them as a context of their
own. It's built by the lock's packages alone, and installed last, without dependencies.
"""

from __future__ import annotations

import posixpath

from envspec.base.errors import InputError, Place
from envspec.export.environment import refuse_unknown_gpus
from envspec.export.plan import OwnProject, PipStep
from envspec.lock.model import LockedTarget
from envspec.packages.names import requirement_name
from envspec.spec.model import Project, Spec

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
        raise InputError(
            f"{project.name} is the spec's project, and the lock has a package of that name from an index",
            hint="give the project another name, or leave `project` out and list its dependencies",
            place=spec.places.get("env.project", Place(spec.path)),
        )
    return project


def build_names(project: Project | None) -> frozenset[str]:
    """Name what a project's build requires."""
    return frozenset(requirement_name(one.text) for one in (project and project.build_requires) or ())


def is_compiled(project: Project | None) -> bool:
    """Say whether a project's build needs a compiler."""
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
