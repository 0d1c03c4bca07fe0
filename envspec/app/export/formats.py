"""The formats of a lock, and projects of other tools, that `envspec export` writes; `envspec.export.folder` has the
recipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from envspec.base.errors import InputError
from envspec.lock.formats import conda_environment, conda_explicit, conda_lock
from envspec.lock.formats.intent import Addresses, ProjectFile
from envspec.lock.formats.pixi_toml import pixi_toml
from envspec.lock.formats.pylock import pylock_toml
from envspec.lock.formats.requirements import requirements_txt
from envspec.lock.formats.sbom import sbom
from envspec.lock.formats.uv_project import uv_project
from envspec.lock.model import Lock, LockedTarget, Pin
from envspec.spec.model import Spec

SBOM = "sbom.cdx.json"
"""The file of a bill of materials."""

Urls = Mapping[tuple[str, str], str]
"""(index name, file name) → URL."""


@dataclass(frozen=True)
class Format:
    """A format that a locked target can be written in.

    file        the name of its file
    render      its text, made from the lock and the URLs of the files that it needs
    wants_url   whether the format needs the file's URL of a package from an index
    needs_conda the format exists only for targets with conda packages
    """

    file: Callable[[LockedTarget], str]
    render: Callable[[Lock, LockedTarget, Urls], str]
    wants_url: Callable[[Pin], bool] = lambda pin: False
    needs_conda: bool = False


def _requirements(lock: Lock, target: LockedTarget, urls: Urls) -> str:
    return requirements_txt(lock, target)


def _pylock(lock: Lock, target: LockedTarget, urls: Urls) -> str:
    return pylock_toml(lock, target, urls)


def _conda_lock(lock: Lock, target: LockedTarget, urls: Urls) -> str:
    lacking = conda_lock.without_md5(target)
    if lacking:
        raise InputError(
            f"conda-lock.yml needs MD5 digests, and the channel has none for {', '.join(pin.name for pin in lacking)}",
            hint="use --format conda-explicit: it works with SHA-256",
        )
    return conda_lock.conda_lock(lock, target, urls)


def _sbom(lock: Lock, target: LockedTarget, urls: Urls) -> str:
    return sbom(lock, target)


FORMATS = {
    "requirements": Format(lambda target: "requirements.txt", _requirements),
    "pylock": Format(lambda target: "pylock.toml", _pylock, lambda pin: pin.kind == "pip"),
    "conda-lock": Format(lambda target: conda_lock.FILE_NAME, _conda_lock, lambda pin: True, needs_conda=True),
    "conda-explicit": Format(
        lambda target: conda_explicit.file_name(target.inputs.platform),
        conda_explicit.explicit,
        lambda pin: True,
        needs_conda=True,
    ),
    "conda-env": Format(
        lambda target: conda_environment.FILE_NAME,
        conda_environment.conda_environment,
        conda_environment.wants_url,
        needs_conda=True,
    ),
    "sbom": Format(lambda target: SBOM, _sbom),
}


@dataclass(frozen=True)
class ProjectFormat:
    """A project of another tool, for all targets of a spec.

    file    its name
    render  the project, made from spec, lock, targets and the addresses of the indexes besides PyPI
    """

    file: str
    render: Callable[[Spec, Lock, Sequence[LockedTarget], Addresses], ProjectFile]


def _uv_project(spec: Spec, lock: Lock, targets: Sequence[LockedTarget], addresses: Addresses) -> ProjectFile:
    return uv_project(spec, lock, targets, addresses)


def _pixi(spec: Spec, lock: Lock, targets: Sequence[LockedTarget], addresses: Addresses) -> ProjectFile:
    return pixi_toml(spec, lock, targets, addresses)


PROJECTS = {"uv-project": ProjectFormat("pyproject.toml", _uv_project), "pixi": ProjectFormat("pixi.toml", _pixi)}
