"""`envspec builds`: wheels and conda builds of torch, completed from the other tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from envspec.app.gpu_names import known_gpus
from envspec.base.errors import AnswerNo, InputError, Place
from envspec.base.texts import nearest, printable
from envspec.facts import conda_builds, toolkits, torch_builds
from envspec.facts.gpus import Gpu
from envspec.packages.version_numbers import numbers
from envspec.rules.build import works
from envspec.rules.case import CandidateBuild, Case
from envspec.rules.judge import judge
from envspec.spec.model import CondaTable, Located, PipTable, Spec, Target

PLATFORMS = ("linux-64", "linux-aarch64", "osx-arm64", "win-64")


class WantedBuilds(Struct, frozen=True):
    """The builds that are listed: of a release ("2.9": each 2.9 release), for a CUDA ("cpu" for none), on all of these
    GPUs, for a platform and a Python. None and empty values keep all."""

    cuda: str | None
    gpus: tuple[str, ...]
    version: str | None
    platform: str | None
    python: str | None

    def look_up_gpus(self) -> tuple[Gpu, ...]:
        """Look up the GPUs. Raises InputError for their names, and for versions that aren't any."""
        for option, value, pattern, example in (
            ("--cuda", self.cuda, r"\d{1,2}\.\d{1,2}(\.\d+)?|cpu", "12.6"),
            ("--torch", self.version, r"\d{1,2}(\.\d{1,3}){0,2}", "2.9.1"),
            ("--python", self.python, r"3\.\d{1,2}", "3.12"),
        ):
            if value is not None and not re.fullmatch(pattern, value, re.ASCII):
                raise InputError(f'{option}: "{printable(value)}" is not a version', hint=f"for example {example}")
        if self.cuda not in (None, "cpu") and toolkits.toolkit(str(self.cuda)) is None:
            known = (
                release.version
                for release in toolkits.cuda_releases()
                if numbers(release.version) > numbers(str(self.cuda))
            )
            if newer := next(known, None):
                hint = f"the next newer CUDA that envspec knows is {newer}"
                raise InputError(f"--cuda: {toolkits.why_unknown(str(self.cuda))}", hint=hint)
        return known_gpus(self.gpus)


class BuildRow(CandidateBuild, frozen=True):
    """A build and the platforms, Pythons and GPUs that it supports. `driver_floor` is the lowest driver for its CUDA.
    `pypi` says that PyPI's own wheel is this one. `ptx_only` says that one of the GPUs in question runs it only after
    its driver has compiled the PTX. `not_in_facts` are the Pythons whose wheel is neither in the shipped facts nor on
    PyPI: only the PyTorch index has it, and nothing offers that.
    """

    platform: str = ""
    driver_floor: str | None = None
    sources: tuple[str, ...] = ()
    nccl: str | None = None
    pypi: bool = False
    ptx_only: bool = False
    torchvision: tuple[str, ...] = ()
    torchaudio: tuple[str, ...] = ()
    not_in_facts: tuple[str, ...] = ()

    @property
    def notes(self) -> Iterator[str]:
        if self.pypi:
            yield "PyPI's own"
        if self.trust == "planned":
            yield "announced, not seen"
        elif self.not_in_facts:
            whole = len(self.not_in_facts) == len(self.pythons)
            yield "not in the facts" if whole else f"not in the facts for {' '.join(self.not_in_facts)}"
        if self.trust == "low":
            yield "not verified"
        if self.ptx_only:
            yield "by PTX only"


def find_builds(package: str, query: WantedBuilds, *, conda: bool) -> list[BuildRow]:
    """List the builds of torch, wheels or conda-forge's, oldest release first. Raises InputError, and AnswerNo where
    there is none."""
    if package not in ("torch", "pytorch"):
        raise InputError(
            f'envspec has no table of builds for "{printable(package)}"',
            hint="the tables hold torch (wheels) and pytorch (conda-forge); `envspec inspect` reads any wheel, "
            "and --variants asks an index for variant wheels",
        )
    gpus = query.look_up_gpus()
    version = query.version
    if version is not None:
        _refuse_unknown(version, conda)
    rows = [
        replace(row, ptx_only=not all(row.runs_on(gpu.capability) for gpu in gpus))
        for row in (_conda_rows(query.cuda) if conda else _pip_rows(query.cuda))
        if (version is None or _is_of(row.version, version))
        and query.platform in (None, row.platform)
        and (query.python is None or not row.pythons or query.python in row.pythons)
        and (not gpus or _runs(row, gpus))
    ]
    if not rows:
        conditions = {"with CUDA": query.cuda, "on": ", ".join(query.gpus), "for": query.platform}
        words = [f"{word} {value}" for word, value in (conditions | {"with Python": query.python}).items() if value]
        message = " ".join(["no build of", package, *([version] if version else []), *words])
        raise AnswerNo(message, hint=_nearest(query, conda) or "leave out an option")
    return rows


def _runs(row: BuildRow, gpus: tuple[Gpu, ...]) -> bool:
    """Return whether a build runs on all these GPUs, by machine code or PTX; cuDNN's architectures count too."""
    python = row.pythons[-1] if row.pythons else ""
    return row.cuda is not None and works(row, Case(row.platform, python, row.cuda, gpus, None, row.glibc or ""))


def _pip_rows(cuda: str | None) -> Iterator[BuildRow]:
    variant = None if cuda is None else torch_builds.variant_of(None if cuda == "cpu" else cuda)
    for b in torch_builds.builds(variant=variant):
        held, made_for = torch_builds.lockable_pythons(b), torch_builds.companions(b.version)
        yield BuildRow(
            *(b.version, b.variant, b.cuda, b.sm, b.ptx, b.pythons, b.glibc, b.cudnn, b.trust, "pip", None, b.triton),
            *(held, b.platform, _driver(b.cuda, b.platform), b.sources, b.nccl),
            pypi=torch_builds.pypi_variant(b.version, b.platform) == b.variant,
            torchvision=made_for["torchvision"],
            torchaudio=made_for["torchaudio"],
            not_in_facts=tuple(python for python in b.pythons if python not in held),
        )


def _conda_rows(cuda: str | None) -> Iterator[BuildRow]:
    """List conda-forge's builds that run with this `cuda-version`."""
    for b in conda_builds.builds(cuda=None if cuda == "cpu" else cuda):
        glibc = b.glibc if b.platform.startswith("linux") else None
        if cuda != "cpu" or b.cuda is None:
            yield BuildRow(
                *(b.version, b.variant, b.cuda, b.sm, b.ptx, (), glibc, None, "high", "conda", b.arm_variant, None),
                *((), b.platform, _driver(b.cuda, b.platform), b.sources),
            )


def _driver(cuda: str | None, platform: str) -> str | None:
    return toolkits.driver_floor(cuda, platform) if cuda else None


def _is_of(version: str, release: str) -> bool:
    return f"{version}.".startswith(f"{release}.")


def _refuse_unknown(version: str, conda: bool) -> None:
    releases = [release.version for release in torch_builds.releases()]
    known = list(conda_builds.versions()) if conda else releases
    if any(_is_of(known_version, version) for known_version in known):
        return
    if torch_builds.order(version) > torch_builds.order(known[-1]):
        hint = "read its wheel: envspec inspect WHEEL"
        raise InputError(f"torch {version} is newer than envspec's tables (up to {known[-1]})", hint=hint)
    near = nearest(version, known)
    raise InputError(f"envspec's tables have no torch {version}", hint=f"did you mean {near}?" if near else None)


def _nearest(query: WantedBuilds, conda: bool) -> str | None:
    """Give the nearest question that has an answer, in the rules' words."""
    version, cuda = query.version, None if query.cuda == "cpu" else query.cuda
    suffix = "" if version is None else f"=={version}" if version.count(".") == 2 else f"=={version}.*"
    located = (Located(("pytorch" if conda else "torch") + suffix, Place("")),)
    spec = Spec(
        path="",
        name="",
        python=query.python or "3.12",
        targets=(),
        pip=PipTable() if conda else PipTable(located),
        conda=CondaTable(("conda-forge",), located) if conda else CondaTable(),
    )
    errors = judge(spec, Target("", query.platform or "linux-64", cuda=cuda, gpus=query.gpus)).errors
    return next((f"{error.message}. {error.remedy}" if error.remedy else error.message for error in errors), None)
