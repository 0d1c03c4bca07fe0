"""Findings that a spec takes knowingly: `[pip] accept = { code = "reason" }`, or `{ code = { package = "reason" } }`.

Only what a rule *expects to be wrong* for most, and a person may know to be safe in their case, can be accepted. What
says that the target can't work at all, that the CPU build would run where CUDA was asked for, or that the lock isn't
what its indexes serve, can't: no reason changes that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from envspec.base.errors import Place, SpecError
from envspec.base.finding import Finding
from envspec.base.texts import nearest
from envspec.spec.model import of_one

ACCEPTABLE: Mapping[str, str] = {
    "cuda-major-mixed": "packages of another CUDA major stay beside those of the target's",
    "companion-mismatch": "torchvision or torchaudio stay beside a torch that they weren't made for",
    "library-architecture": "cuDNN or NCCL stay without code for a GPU of the target",
    "wheel-architecture": "a package stays whose wheel has no code for a GPU of the target",
    "cudnn-architecture": "a torch whose cuDNN has no code for a GPU of the target stays",
    "driver-too-old": "the driver stays below the floor of the target's CUDA",
    "driver-forward-compatibility": "the machines have cuda-compat",
    "built-for-another": "a package stays beside a torch, a CUDA or an ABI that its build wasn't made for",
    "cpu-variant": "a package of which other variants are for CUDA stays as the one for CPUs",
    "gpu-only": "a package made for CUDA stays in a CPU target",
    "ptx-only": "the driver compiles every kernel at its first use",
    "requires-python": "a release stays whose Requires-Python refuses the target's",
    "retreat": "an older release stays that names neither the target's torch nor its CUDA",
    "same-modules": "packages that overwrite each other's files stay side by side",
    "triton-architecture": "torch.compile isn't used, or has another compiler",
    "build-not-seen": "an announced build counts as published",
    "unknown-extra": "an extra that adds nothing stays",
    "conda-extras": "an extra of a conda package, which adds nothing, stays",
}
"""The codes that can be accepted, and what accepting one means."""

INTEGRITY = frozenset(
    {
        *("wrong-file", "wrong-hash", "no-file", "wrong-index", "wrong-platform", "wrong-build", "wrong-provides"),
        *("unasked-source", "source-not-allowed", "nothing-asks", "installed-twice", "unknown-target", "wrong-direct"),
        *("requirement-missing", "requirement-unmet", "constraint-unmet", "wrong-architectures", "wrong-driver-floor"),
        *(
            "wrong-cuda",
            "wrong-dependencies",
            "correction-broken",
            "wrong-publisher",
            "wrong-variant",
            "wrong-build-environment",
            "no-build-environment",
            "wrong-python",
        ),
    }
)
"""The codes of a lock that can't be right (`envspec.lock.judge`)."""

IMPOSSIBLE = frozenset(
    {
        *("cpu-build", "cuda-mismatch", "no-build", "no-cuda-platform", "no-such-cuda", "no-such-torch"),
        *("no-such-companion", "unknown-gpu", "architecture-missing", "cuda-too-old-for-gpu", "cuda-dropped-gpu"),
        *("cuda-compat-impossible", "unsupported-build", "jetson", "ptx-newer-than-driver"),
        *("driver-too-old-for-gpu", "driver-dropped-gpu", "python-too-new", "python-too-old", "glibc-too-old"),
    }
)
"""The codes of what can't work, or would run without the CUDA that the target asks for."""


def accepted(findings: Iterable[Finding], accept: Mapping[str, str]) -> tuple[Finding, ...]:
    """Turn the findings that the spec accepts into notes with its reason; the others stay as they are."""
    return tuple(
        replace(one, severity="info", message=f"{one.message}; accepted [{one.code}]: {reason}", remedy=None)
        if one.severity != "info" and (reason := reason_for(one.code, one.package, accept)) is not None
        else one
        for one in findings
    )


def reason_for(code: str, package: str | None, accept: Mapping[str, str]) -> str | None:
    """Give the reason for which a finding is accepted: of this package, or whatever it is about. None if it isn't."""
    own = accept.get(of_one(code, package)) if package else None
    return accept.get(code) if own is None else own


def hint_to_accept(finding: Finding) -> str | None:
    """Give a finding's remedy, and for one that can be accepted, how."""
    how = hint_to_keep(finding)
    if finding.severity != "error" or how is None:
        return finding.remedy
    return f"{finding.remedy}; {how}" if finding.remedy else how


def hint_to_keep(finding: Finding) -> str | None:
    """Say how to accept a finding; None for one that can't be."""
    if finding.code not in ACCEPTABLE:
        return None
    what = f'{{ {finding.package} = "why" }}' if finding.package else '"why"'
    return f"if you know that it is safe here, add to [pip]: accept = {{ {finding.code} = {what} }}"


def refuse_unacceptable(code: str, place: Place | None) -> None:
    """Raise SpecError for a code that can't be accepted, or that doesn't exist."""
    code = code.partition(":")[0]
    if code in ACCEPTABLE:
        return
    if code in INTEGRITY:
        raise SpecError(
            f"accept: \"{code}\" can't be accepted: it says that a lock isn't what its spec and its indexes give",
            hint="lock again; `envspec verify` compares the lock with the indexes",
            place=place,
        )
    if code in IMPOSSIBLE:
        raise SpecError(
            f"accept: \"{code}\" can't be accepted: what it finds can't work, whatever the reason",
            hint="change the target, or leave out the package",
            place=place,
        )
    meant = nearest(code, sorted(ACCEPTABLE))
    raise SpecError(
        f'accept: there is no finding "{code}"',
        hint=f'did you mean "{meant}"?' if meant else f"these can be accepted: {', '.join(sorted(ACCEPTABLE))}",
        place=place,
    )
