"""The rows of `envspec builds`: wheels and conda builds of torch, completed from the other tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from envspec.facts import conda_builds, toolkits, torch_builds, wheels
from envspec.facts.gpus import Gpu
from envspec.rules.build import works
from envspec.rules.case import CandidateBuild, Case


@dataclass(frozen=True)
class BuildRow:
    """A build and the platforms, Pythons and GPUs that it supports. `driver` is the lowest driver for its CUDA. `pypi`
    says that PyPI's own wheel is this one. `ptx_only` says that one of the GPUs in question runs it only after its
    driver has compiled the PTX. `unheld` are the Pythons whose wheel is neither in the shipped facts nor on PyPI: only
    the PyTorch index has it.
    """

    build: CandidateBuild
    platform: str
    driver: str | None
    sources: tuple[str, ...]
    nccl: str | None = None
    triton: str | None = None
    pypi: bool = False
    ptx_only: bool = False
    torchvision: tuple[str, ...] = ()
    torchaudio: tuple[str, ...] = ()
    unheld: tuple[str, ...] = ()

    @property
    def notes(self) -> Iterator[str]:
        if self.pypi:
            yield "PyPI's own"
        if self.build.trust == "planned":
            yield "announced, not seen"
        elif self.unheld:
            whole = len(self.unheld) == len(self.build.pythons)
            yield "not in the facts" if whole else f"not in the facts for {' '.join(self.unheld)}"
        if self.build.trust == "low":
            yield "not verified"
        if self.ptx_only:
            yield "by PTX only"


def pip_rows(cuda: str | None) -> Iterator[BuildRow]:
    """List the wheels, oldest release first. `cuda` is a version, "cpu", or None for all."""
    variant = None if cuda is None else torch_builds.variant_of(None if cuda == "cpu" else cuda)
    for b in torch_builds.builds(variant=variant):
        companions = torch_builds.companions(b.version)
        from_pypi = torch_builds.pypi_variant(b.version, b.platform) == b.variant
        yield BuildRow(
            CandidateBuild(b.version, b.variant, b.cuda, b.sm, b.ptx, b.pythons, b.glibc, b.cudnn, b.trust, "pip"),
            b.platform,
            _driver(b.cuda, b.platform),
            b.sources,
            nccl=b.nccl,
            triton=b.triton,
            pypi=from_pypi,
            torchvision=companions["torchvision"],
            torchaudio=companions["torchaudio"],
            unheld=() if from_pypi else _unheld(b),
        )


def conda_rows(cuda: str | None) -> Iterator[BuildRow]:
    """List conda-forge's builds, oldest release first. With `cuda`, those that run with this `cuda-version`."""
    for b in conda_builds.builds(cuda=None if cuda == "cpu" else cuda):
        if cuda == "cpu" and b.cuda is not None:
            continue
        glibc = b.glibc if b.platform.startswith("linux") else None
        build = CandidateBuild(
            b.version, b.variant, b.cuda, b.sm, b.ptx, (), glibc, None, "high", "conda", b.arm_variant
        )
        yield BuildRow(build, b.platform, _driver(b.cuda, b.platform), b.sources)


def running(rows: Iterable[BuildRow], gpus: Sequence[Gpu]) -> Iterator[BuildRow]:
    """Keep the rows whose build runs on all these GPUs, by machine code or PTX; cuDNN's architectures count too."""
    for row in rows:
        build = row.build
        if build.cuda is None:
            continue
        python = build.pythons[-1] if build.pythons else ""
        if works(build, Case(row.platform, python, build.cuda, tuple(gpus), None, build.glibc or "")):
            yield replace(row, ptx_only=not all(build.runs_on(gpu.capability) for gpu in gpus))


def nearest_build(
    from_conda: bool, cuda: str | None, gpus: Iterable[str], version: str | None, platform: str, python: str | None
) -> str | None:
    """Give the nearest question that has an answer, in the rules' words."""
    from envspec.base.errors import Place
    from envspec.rules.judge import judge
    from envspec.spec.model import CondaTable, Located, PipTable, Spec, Target

    asked = "pytorch" if from_conda else "torch"
    depth = (version or "").count(".")
    suffix = "" if version is None else f"=={version}" if depth == 2 else f"=={version}.*"
    located = (Located(asked + suffix, Place("")),)
    spec = Spec(
        path="",
        name="",
        python=python or "3.12",
        targets=(),
        pip=PipTable() if from_conda else PipTable(located),
        conda=CondaTable(("conda-forge",), located) if from_conda else CondaTable(),
    )
    errors = judge(spec, Target("", platform, cuda=cuda, gpus=tuple(gpus))).errors
    if not errors:
        return None
    found = errors[0]
    return f"{found.message}. {found.remedy}" if found.remedy else found.message


def _unheld(build: torch_builds.TorchBuild) -> tuple[str, ...]:
    held = wheels.pythons(build.variant, "torch", build.version, build.platform)
    return tuple(python for python in build.pythons if python not in held)


def _driver(cuda: str | None, platform: str) -> str | None:
    return toolkits.driver_floor(cuda, platform) if cuda else None
