"""The rules' input, a machine to run on with builds of torch to choose from; and the findings that a spec accepts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.codes import meanings
from envspec.base.errors import Place, SpecError
from envspec.base.finding import Finding
from envspec.base.texts import nearest
from envspec.facts import conda_builds, gpus, torch_builds
from envspec.facts.compute_capability import covers, order
from envspec.facts.gpus import Gpu
from envspec.spec.model import acceptance_key
from envspec.spec.way import Way


class Case(Struct, frozen=True):
    """A target as the rules see it: GPU names looked up, everything else as in the spec. `cudnn` is the newest that the
    spec admits of conda's; None without a bound."""

    platform: str
    python: str
    cuda: str | None
    gpus: tuple[Gpu, ...]
    driver: str | None
    glibc: str
    cuda_compat: bool = False
    cudnn: str | None = None

    @property
    def integrated(self) -> bool:
        """Return whether all of its GPUs share a chip with the CPU: then its driver is a JetPack's."""
        return bool(self.gpus) and all(gpu.integrated for gpu in self.gpus)

    @property
    def capabilities(self) -> tuple[str, ...]:
        """The compute capabilities of its GPUs, each once, lowest first."""
        return tuple(sorted({gpu.capability for gpu in self.gpus}, key=order))

    def names(self, capability: str) -> str:
        """Name the target's GPUs of one capability in a message: "A100" or "H100, H200 and 4 more"."""
        names = list(dict.fromkeys(gpu.name for gpu in self.gpus if gpu.capability == capability))
        return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]} and {len(names) - 2} more"


class CandidateBuild(Struct, frozen=True):
    """A build of torch, a wheel or a conda package. If unknown, `pythons` is empty, `cudnn` and `triton` None.

    `triton` is the release of its compiler, or a range of them ("~=3.8.0").
    """

    version: str
    variant: str
    cuda: str | None
    sm: tuple[str, ...]
    ptx: tuple[str, ...]
    pythons: tuple[str, ...]
    glibc: str | None
    cudnn: str | None
    trust: str
    channel: Literal["pip", "conda"]
    arm_variant: str | None = None
    triton: str | None = None
    files_for: tuple[str, ...] = ()

    def runs_on(self, capability: str) -> bool:
        """Return whether the build's machine code runs on a GPU of this capability."""
        return covers(self.sm, capability, self.cuda)

    def is_lockable(self, python: str) -> bool:
        """Return whether there is a file to lock for a Python, and not only a row to judge by."""
        return self.channel == "conda" or python in self.files_for


def pip_builds(versions: Iterable[str], cuda: str | None, platform: str) -> list[CandidateBuild]:
    """List the wheels of these torch releases for a CUDA (None: the CPU) on a platform, oldest first."""
    releases = set(versions)
    return [
        CandidateBuild(
            *(b.version, b.variant, b.cuda, b.sm, b.ptx, b.pythons, b.glibc, b.cudnn, b.trust, "pip"),
            triton=b.triton,
            files_for=torch_builds.lockable_pythons(b),
        )
        for b in torch_builds.builds(variant=torch_builds.variant_of(cuda), platform=platform)
        if b.version in releases
    ]


def conda_builds_of(versions: Iterable[str], cuda: str | None, platform: str) -> list[CandidateBuild]:
    """List the conda builds of these releases that run with a `cuda-version` (None: the CPU build), oldest first."""
    releases = set(versions)
    return [
        CandidateBuild(b.version, b.variant, b.cuda, b.sm, b.ptx, (), b.glibc, None, "high", "conda", b.arm_variant)
        for b in conda_builds.builds(cuda=cuda, platform=platform)
        if b.version in releases and (cuda is not None or b.cuda is None)
    ]


def of_target(
    platform: str,
    python: str,
    cuda: str | None,
    names: Iterable[str],
    driver: str | None,
    glibc: str,
    *,
    cuda_compat: bool = False,
) -> Case:
    """Make a case from a target's values. Leaves out unknown GPU names, which the reader of specs refuses, and of a
    name the products that don't exist on the platform, unless none does."""
    products = [gpu for name in names for gpu in gpus.on_platform(name, platform) or gpus.find(name)]
    return Case(platform, python, cuda, tuple(dict.fromkeys(products)), driver, glibc, cuda_compat)


# Findings that a spec takes knowingly: `[pip] accept = { code = "reason" }`, or `{ code = { package = "reason" } }`.
#
# Only what a rule *expects to be wrong* for most, and a person may know to be safe in their case, can be accepted.
# What says that the target can't work at all, that the CPU build would run where CUDA was asked for, or that the lock
# isn't what its indexes serve, can't: no reason changes that.


def apply_acceptances(findings: Iterable[Finding], accept: Mapping[str, str]) -> tuple[Finding, ...]:
    """Turn the findings that the spec accepts into notes with its reason; the others stay as they are."""
    return tuple(
        replace(
            finding, severity="info", message=f"{finding.message}; accepted [{finding.code}]: {reason}", remedy=None
        )
        if finding.severity != "info" and (reason := reason_for(finding.code, finding.package, accept)) is not None
        else finding
        for finding in findings
    )


def reason_for(code: str, package: str | None, accept: Mapping[str, str]) -> str | None:
    """Give the reason for which the spec accepts a finding, of this package or of any. None if it doesn't."""
    own = accept.get(acceptance_key(code, package)) if package else None
    return accept.get(code) if own is None else own


def is_acceptable(code: str) -> bool:
    """Return whether a spec may take the findings of a code knowingly."""
    meaning = meanings().get(code)
    return meaning is not None and not meaning.refused


def hint_to_keep(finding: Finding) -> str | None:
    """Write the change that accepts a finding; None for a finding that can't be accepted."""
    return Way(accept=((finding.code, finding.package),)).text if is_acceptable(finding.code) else None


def refuse_unacceptable(code: str, place: Place | None) -> None:
    """Raise SpecError for a code that can't be accepted, or that doesn't exist."""
    code = code.partition(":")[0]
    known = meanings()
    meaning = known.get(code)
    if meaning is None:
        names = [name for name, other in known.items() if not other.refused]
        meant = nearest(code, names)
        hint = f'did you mean "{meant}"?' if meant else f"these can be accepted: {', '.join(sorted(names))}"
        raise SpecError(f'accept: there is no finding "{code}"', hint=hint, place=place)
    if meaning.refused:
        raise SpecError(f'accept: "{code}" can\'t be accepted: {meaning.refused}', hint=meaning.do, place=place)
