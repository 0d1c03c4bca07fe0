"""What the recipes of one target print, as frozen values: `envspec.recipes.make` computes it, renderers print it."""

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
"""The folder of a recipe that holds the carried files."""
SUMS = "SHA256SUMS"
"""The carried file that has the digests of all the others, as `sha256sum -c` reads it."""
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


@dataclass(frozen=True)
class PipStep:
    """One run of uv: packages of one index, installed from one carried requirements file.

    file           of the carried files
    torch_backend  what uv calls the PyTorch index that they are from (`cu126`), or None
    index, url     another index than PyPI: the lock's name for it, and where the spec says that it is; else None
    hashed         every file is checked (`--require-hashes`); only what is from git can't be
    source         they are compiled here, in the stage that `Compiling` says
    gpu            the CUDA stack: a layer of its own, because it is large and rarely moves
    """

    file: str
    packages: tuple[str, ...]
    torch_backend: str | None = None
    index: str | None = None
    url: str | None = None
    hashed: bool = True
    source: bool = False
    gpu: bool = False


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
    files           the carried files: path below `CARRIED_FOLDER` -> text
    gpu_packages    names of the CUDA stack (torch, nvidia-*, triton): an own layer, for it is large and rarely moves
    torch_backend   what uv calls the PyTorch index that the lock takes packages from (`cu126`), or None
    indexes         other indexes than PyPI that pip packages come from, by the names that the lock has
    pip       the runs of uv that install the pip half, in order: the CUDA stack, what is compiled, the rest
    explicit        the carried explicit file of the conda half, or None
    glibc           the floor that the lock was solved for
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
    has_pip: bool
    gpu_packages: tuple[str, ...]
    torch_backend: str | None
    indexes: tuple[str, ...]
    pip: tuple[PipStep, ...]
    explicit: str | None
    workload: str
    steps: int
    files: Mapping[str, str]
    epoch: int = 315532800

    @property
    def is_cuda(self) -> bool:
        return self.cuda is not None

    @property
    def machine(self) -> str:
        """The platform's machine, as `uname -m` says it."""
        return {"linux-64": "x86_64", "linux-aarch64": "aarch64"}[self.platform]

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
