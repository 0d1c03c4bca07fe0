"""What the recipes of a spec and of its targets print, as frozen values: `envspec.recipes.make` computes it, renderers
print it.

All recipes of a spec lie in one folder, which is the build context of each: paths are below that folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

ENVIRONMENT = "/opt/env"
"""The environment in an image: a virtual environment or a conda prefix."""
PYTHON = "/opt/python"
"""uv's managed Python, for bases that have none of the version asked for."""
CARRIED = "/opt/envspec"
"""Where an image keeps the carried files."""
CARRIED_FOLDER = "envspec"
"""The folder of the carried files: the same for every target of the spec."""
SUMS = "SHA256SUMS"
"""The carried file that has the digests of all the others, as `sha256sum -c` reads it."""
REQUIREMENTS = "requirements"
"""The folder of what is installed from: each text once, under its group and the first digits of its SHA-256."""
SLICE = "target.json"
"""The file of a target's own: its slice of the lock, and what the preflight and the smoke check need besides."""
LOCK = "envspec.lock"
"""The whole lock, which stays in the repository: Nix reads it."""
WORKSPACE = "/workspace"
UID = 1000


@dataclass(frozen=True)
class ImageReference:
    """An image by name, and by digest where a registry answered when the lock was made."""

    name: str
    digest: str | None = None

    @property
    def pinned(self) -> str:
        """`name@sha256:…`, or the name alone."""
        return f"{self.name}@{self.digest}" if self.digest and "@" not in self.name else self.name


@dataclass(frozen=True)
class Service:
    """A server that an image can start.

    script  of the carried files: starts it in the foreground
    apt     Debian packages that it needs
    image   where its program is copied from, and `copies`: path there -> path here
    """

    name: str
    port: int
    script: str
    apt: tuple[str, ...] = ()
    image: ImageReference | None = None
    copies: tuple[tuple[str, str], ...] = ()


GROUPS = ("nvidia", "torch", "source", "rest", "build")
"""In the order of installing: CUDA's libraries, which are large and rarely move; torch and what moves with it; what is
compiled; everything else. `build` is what builds see of everything else."""


@dataclass(frozen=True)
class PipStep:
    """One run of uv: packages of one index, installed from one requirements file.

    file           below the spec's folder
    group          the layer that it belongs to, of `GROUPS`
    torch_backend  what uv calls the PyTorch index that they are from (`cu126`), or None
    index, url     another index than PyPI: the lock's name for it, and where the spec says that it is; else None
    hashed         every file is checked (`--require-hashes`); only what is from git can't be
    """

    file: str
    packages: tuple[str, ...]
    group: str = "rest"
    torch_backend: str | None = None
    index: str | None = None
    url: str | None = None
    hashed: bool = True

    @property
    def source(self) -> bool:
        """They are compiled here, in the stage that `Compiling` says."""
        return self.group == "source"


@dataclass(frozen=True)
class Compiling:
    """What a lock has to compile: the packages, and the image of the stage that does it.

    apt          Debian packages that the stage must have
    spec_apt     those of the spec, which it gets as far as its distribution has them
    env          what builds see besides
    wheels       runs of uv, beside those of the CUDA stack, for what builds see of the lock
    constraints  on what builds get that the lock doesn't pin
    """

    packages: tuple[str, ...]
    image: ImageReference
    apt: tuple[str, ...]
    spec_apt: tuple[str, ...]
    env: Mapping[str, str]
    wheels: tuple[PipStep, ...]
    constraints: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """One target, ready to print.

    env             what the environment's processes see, in order, without PATH; the spec's own come last
    apt             Debian packages of the final image: the spec's, the services' and the init's, sorted
    lock_digest     of the target's slice of the lock
    files           what the images of the target are made from: path -> text. Below `CARRIED_FOLDER` and
                    `REQUIREMENTS` other targets have the same files
    torch_backend   what uv calls the PyTorch index that the lock takes packages from (`cu126`), or None
    indexes         other indexes than PyPI that pip packages come from, by the names that the lock has
    pip             the runs of uv that install the pip half, in the order of `GROUPS`
    explicit        the explicit file of the conda half, or None
    glibc           the floor that the lock was solved for
    place           the spec's folder, seen from the folder that editors open
    epoch           SOURCE_DATE_EPOCH, in seconds
    """

    spec: str
    target: str
    description: str
    platform: str
    python: str
    cuda: str | None
    gpus: tuple[str, ...]
    architectures: tuple[str, ...]
    driver_floor: str | None
    glibc: str | None
    lock_digest: str
    fingerprint: str
    torch: str | None
    base: ImageReference
    uv: ImageReference
    micromamba: ImageReference | None
    user: str
    env: tuple[tuple[str, str], ...]
    apt: tuple[str, ...]
    services: tuple[Service, ...]
    compiling: Compiling | None
    torch_backend: str | None
    indexes: tuple[str, ...]
    pip: tuple[PipStep, ...]
    explicit: str | None
    workload: str
    steps: int
    files: Mapping[str, str]
    place: str = "."
    epoch: int = 315532800

    @property
    def is_cuda(self) -> bool:
        return self.cuda is not None

    @property
    def system(self) -> str:
        """The platform as Nix names it."""
        return {"linux-64": "x86_64-linux", "linux-aarch64": "aarch64-linux"}[self.platform]

    @property
    def slice(self) -> str:
        """The path of the target's own `target.json`."""
        return f"{self.target}/{SLICE}"

    @property
    def carried(self) -> Mapping[str, str]:
        """What an image keeps in `CARRIED`, by path below it."""
        folder = f"{CARRIED_FOLDER}/"
        shared = {path.removeprefix(folder): text for path, text in self.files.items() if path.startswith(folder)}
        return {**shared, SLICE: self.files[self.slice]}

    @property
    def oci_platform(self) -> str:
        """The platform as container tools name it."""
        return {"linux-64": "linux/amd64", "linux-aarch64": "linux/arm64"}[self.platform]

    @property
    def title(self) -> str:
        """The spec and the target in one word, for names of images and jobs."""
        return f"{self.spec}-{self.target}"

    @property
    def image(self) -> str:
        """The OCI image's name: the title, in the characters that names of images have."""
        return re.sub(r"[^a-z0-9]+", lambda run: "." if run[0] == "." else "-", self.title).strip("-.") or "envspec"


@dataclass(frozen=True)
class SpecPlan:
    """All targets of a spec that recipes can be made for, in the lock's order.

    lock_text  the text of the lock's own file
    """

    spec: str
    description: str
    targets: tuple[Plan, ...]
    lock_text: str

    @property
    def is_cuda(self) -> bool:
        """Whether any of them has CUDA."""
        return any(plan.is_cuda for plan in self.targets)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(plan.target for plan in self.targets)
