"""Rules for frameworks beside torch: in a CUDA target, one without its CUDA backend computes on the CPU, in silence."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from envspec.base.errors import Way
from envspec.base.finding import Finding, Severity
from envspec.facts.cuda_stack import TORCH
from envspec.facts.frameworks import Framework, frameworks
from envspec.packages.names import requirement_name
from envspec.packages.requirement import canonical_name, parse_requirement
from envspec.rules.case import Case
from envspec.spec.model import Located

_OF_ANOTHER_VENDOR = {
    "AMD": re.compile(r"(?:[\w-]+-)?rocm\d*(?:-[\w-]+)?"),
    "Intel": re.compile(r"[\w-]+-xpu"),
}
"""jax-rocm7-plugin, tensorflow-rocm, pytorch-triton-xpu."""

_OF_A_VENDOR = re.compile(r"(?:cuda|rocm)\d*(?:[-_]\w+)*")
"""Extras that bring a backend, in place of which the target's stands: cuda13, cuda12-local, rocm7_local."""


def problems(
    case: Case, pins: Mapping[str, str], asked: Iterable[Located], own: Collection[str] = ()
) -> Iterator[Finding]:
    """Find the frameworks of a CUDA target that would compute on the CPU, and the pins made for another vendor's GPUs.

    One that the spec asks for (`asked` are the requirements) is an error where nothing else of the target has CUDA
    either, and a warning beside torch or another framework, where it often serves another purpose: kohya-ss has
    tensorflow for tensorboard alone. One that another package brings is a note, and so is one that the spec asks for
    as a CPU build (`jax[cpu]`). `own` names the builds that aren't PyPI's: their wheels say what they are.
    """
    if case.cuda is None:
        return
    major = case.cuda.partition(".")[0]
    direct = {requirement_name(one.text): one for one in asked}
    here = [row for row in frameworks() if row.package in pins and row.package not in own]
    without = [row for row in here if not row.backends_for(major) & pins.keys()]
    partly = len(without) < len(here) or not pins.keys().isdisjoint(TORCH)
    for row in without:
        line = direct.get(row.package)
        severity: Severity = "info" if line is None or _is_for_cpus(line.text) else "warning" if partly else "error"
        yield _without_backend(row, pins[row.package], major, severity, line)
    for name, version in sorted(pins.items()):
        vendor = next((vendor for vendor, names in _OF_ANOTHER_VENDOR.items() if names.fullmatch(name)), None)
        if vendor:
            message = f"{name} {version} is made for {vendor}'s GPUs, and the target is for CUDA {case.cuda}"
            remedy = f"leave out what asks for it; `envspec why {name}` shows that"
            yield Finding("error", "other-vendor", message, remedy=remedy, package=name)


def _is_for_cpus(line: str) -> bool:
    return "cpu" in parse_requirement(line).extras


def _without_backend(row: Framework, version: str, major: str, severity: Severity, line: Located | None) -> Finding:
    needed = " or ".join(sorted(row.backends_for(major)))
    message = f"{row.package} {version} computes on the CPU: {needed}, which brings CUDA {major}, isn't there"
    found = Finding(severity, "no-cuda-backend", message, line.place if line else None, package=row.package)
    if line is None or severity == "info":
        return found
    if row.ask is None:
        return replace(found, remedy=row.otherwise)
    way, remedy = _change_of(row.ask.replace("##", major), line.text)
    return replace(found, remedy=remedy, ways=(way,) if way else ())


def _change_of(ask: str, line: str) -> tuple[Way | None, str | None]:
    """Write what brings the backend: with the bounds and the marker of the spec's own requirement where it is of the
    same package; else as advice, for another package has other releases."""
    wanted, own = parse_requirement(ask), parse_requirement(line)
    if canonical_name(wanted.name) != canonical_name(own.name):
        return None, f'write "{ask}" in place of {own.name}'
    wanted.extras |= {one for one in own.extras if not _OF_A_VENDOR.fullmatch(one)}
    wanted.specifier, wanted.marker = own.specifier, own.marker
    return Way(f'write "{wanted}"', line=str(wanted)), None
