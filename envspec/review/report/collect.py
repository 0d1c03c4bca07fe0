"""The page's values from a lock and its spec. No network, no clock."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence

from msgspec import Struct

from envspec.facts import conda_builds, gpus, libraries, torch_builds, wheels
from envspec.facts.compute_capability import can_translate, capability_of, covers, order
from envspec.lock.graph import Graph, Node
from envspec.lock.model import LockedPython, LockedTarget, Pin
from envspec.packages.licences import in_spdx, is_acceptable
from envspec.prove.proof.records import Standing
from envspec.prove.rungs import RUNGS, phrase
from envspec.review.diff.gpu_meaning import cuda_of_torch
from envspec.review.diff.rows import Review
from envspec.review.report.model import (
    AuditSummary,
    CapabilityProducts,
    Cell,
    Coverage,
    CoverageRow,
    Licence,
    Link,
    PackageRow,
    Page,
    PythonRow,
    TargetRow,
    Variant,
)
from envspec.spec.model import Audit as Rules, Spec

_LIBRARY = re.compile(r"nvidia-(cudnn|nccl)-cu\d\d")
_TITLES = {"cudnn": "cuDNN", "nccl": "NCCL"}
_PRODUCTS = 2


class _Compiled(Struct, frozen=True):
    """The code in a target's torch: `build` names it, or `why` says why nothing is known."""

    build: str | None = None
    why: str = ""
    sm: tuple[str, ...] = ()
    ptx: tuple[str, ...] = ()
    libraries: tuple[libraries.LibraryWheel, ...] = ()
    cuda: str | None = None


def coverage(targets: Sequence[LockedTarget]) -> Coverage:
    """Compare every target with every architecture that any target runs on or asks for."""
    compiled = [_torch_build(target) for target in targets]
    requested = [{capability_of(sm) for sm in target.architectures} for target in targets]
    sold = {gpu.capability for gpu in gpus.products() if gpu.kind != "embedded"}
    run = {c for torch in compiled for c in sold if covers(torch.sm, c, torch.cuda) or can_translate(torch.ptx, c)}
    shown = sorted(run.union(*requested), key=order)
    known = any(torch.sm for torch in compiled)
    meant = {gpu.name: None for target in targets for name in target.inputs.gpus for gpu in gpus.find(name)}
    return Coverage(
        architectures=tuple(_architecture(c, meant) for c in shown),
        rows=tuple(
            CoverageRow(place, torch.build, torch.why, tuple(_cell(torch, c, c in requested[place]) for c in shown))
            for place, torch in enumerate(compiled)
        ),
        nowhere=tuple(_architecture(c, meant) for c in sorted(sold.difference(shown), key=order)) if known else (),
    )


def _torch_build(target: LockedTarget) -> _Compiled:
    torch = target.pin("torch", "pip") or target.pin("pytorch", "conda")
    if torch is None:
        return _Compiled(why="no torch")
    platform = target.inputs.platform
    cuda, label = cuda_of_torch(torch, platform), f"{torch.name} {torch.version.partition('+')[0]}"
    if cuda is None:
        return _Compiled(label, "a build that the facts don't hold")
    if cuda == "cpu":
        return _Compiled(label, "a CPU build")
    builds = _builds(torch, cuda, platform)
    if not builds or not builds[0][0]:
        return _Compiled(f"{label}, CUDA {cuda}", "a build that the facts don't hold")
    (sm, ptx), beside = builds[0], []
    for pin in target.pins:
        library = libraries.library(pin.name, pin.version, platform) if _LIBRARY.fullmatch(pin.name) else None
        if library:
            beside.append(library)
    return _Compiled(f"{label}, CUDA {cuda}", "", sm, ptx, tuple(beside), cuda)


def _builds(torch: Pin, cuda: str, platform: str) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    if torch.kind == "pip":
        return [(build.sm, build.ptx) for build in torch_builds.builds(torch.version, cuda, platform)]
    known = [build for build in conda_builds.builds(torch.version, platform=platform) if build.cuda == cuda]
    # a Jetson's own build is told by nothing in a lock, so it's the last that is meant
    return [(build.sm, build.ptx) for build in sorted(known, key=lambda build: build.arm_variant is not None)]


def _cell(compiled: _Compiled, capability: str, requested: bool) -> Cell:
    if compiled.why:
        return Cell("no" if compiled.why == "a CPU build" else "unknown", requested)
    without = [
        f"{_title(library.package)} has no code for it"
        for library in compiled.libraries
        if not covers(library.sm, capability, compiled.cuda) and not can_translate(library.ptx, capability)
    ]
    if covers(compiled.sm, capability, compiled.cuda):
        return Cell("library", requested, "; ".join(without)) if without else Cell("code", requested)
    return Cell("ptx" if can_translate(compiled.ptx, capability) else "no", requested)


def _title(package: str) -> str:
    match = _LIBRARY.fullmatch(package)
    return _TITLES[match[1]] if match else package


def _architecture(capability: str, meant: Container[str]) -> CapabilityProducts:
    """Return a capability's products, those of the targets first."""
    kinds = ("datacentre", "workstation", "consumer", "embedded")
    sold = [gpu for gpu in gpus.products() if gpu.capability == capability and gpu.kind in kinds]
    sold.sort(key=lambda gpu: (gpu.name not in meant, kinds.index(gpu.kind)))
    known = gpus.capabilities().get(capability)
    # "A100 40GB" and "A100 80GB" are one name here
    names = dict.fromkeys(re.sub(r"^GeForce | (\d+GB|Blackwell)$", "", gpu.name) for gpu in sold)
    return CapabilityProducts(capability, known.architecture if known else "", tuple(names)[:_PRODUCTS])


_LONGEST = 120
"""The longest licence shown, in characters. Some packages put the whole text there."""


def page_of(
    spec: Spec,
    targets: Sequence[LockedTarget],
    *,
    lock: str,
    digest: str,
    audit: AuditSummary | None,
    review: Review | str,
    standings: Iterable[Standing] = (),
    pythons: Iterable[LockedPython] = (),
) -> Page:
    """Make the page of these targets of a lock. `lock` is its path for people, `digest` the digest that it records,
    `review` is its comparison, or the reason why there is none, `standings` has the proved rung of each target, and
    `pythons` the builds of Python that it names."""
    proved = {standing.target: standing.line for standing in standings}
    numbers = numbers_of(targets)
    names = _licence_names(targets, spec.audit)
    packages = tuple(_packages(targets, numbers, names, spec.audit))
    return Page(
        name=spec.name,
        description=spec.description,
        spec=spec.path,
        lock=lock,
        digest=digest,
        exclude_newer=spec.exclude_newer,
        targets=tuple(_target(target, numbers, proved.get(target.name, phrase(RUNGS[0]))) for target in targets),
        pythons=tuple(_pythons(pythons, targets)),
        base_python=spec.image.python == "base",
        on_base=f"the {spec.base.kind} {spec.base.place}" if spec.base else "",
        packages=packages,
        links=tuple(_links(targets, numbers)),
        licences=tuple(_licences(packages, names, spec.audit)),
        coverage=coverage(targets),
        audit=audit,
        review=None if isinstance(review, str) else review,
        uncompared=review if isinstance(review, str) else "",
    )


def numbers_of(targets: Iterable[LockedTarget]) -> dict[Node, int]:
    """Return the place of each package in `Page.packages`: by name, pip before conda where both have one."""
    nodes = {Node(pin.kind, pin.name) for target in targets for pin in target.pins}
    ordered = sorted(nodes, key=lambda node: (node.name, node.kind == "conda"))
    return {node: number for number, node in enumerate(ordered)}


def _target(target: LockedTarget, numbers: Mapping[Node, int], proved: str) -> TargetRow:
    sizes = {numbers[Node(pin.kind, pin.name)]: _size(pin) for pin in target.pins}
    inputs = target.inputs
    return TargetRow(
        name=target.name,
        platform=inputs.platform,
        python=inputs.python,
        glibc=inputs.glibc,
        cuda=inputs.cuda,
        gpus=inputs.gpus,
        driver_floor=target.driver_floor,
        packages=len(sizes),
        download=sum(size for size in sizes.values() if size is not None),
        unsized=tuple(sorted(number for number, size in sizes.items() if size is None)),
        proved=proved,
    )


def _pythons(builds: Iterable[LockedPython], targets: Sequence[LockedTarget]) -> Iterable[PythonRow]:
    for build in builds:
        places = tuple(
            place
            for place, target in enumerate(targets)
            if target.inputs.platform == build.platform and not target.pin("python", "conda")
        )
        if places:
            yield PythonRow(build.platform, build.version, build.build, build.file, build.sha256, places)


def _packages(
    targets: Sequence[LockedTarget],
    numbers: Mapping[Node, int],
    names: Iterable[str | None],
    rules: Rules,
) -> Iterable[PackageRow]:
    pins: dict[Node, dict[int, Pin]] = {node: {} for node in numbers}
    for place, target in enumerate(targets):
        for pin in target.pins:
            pins[Node(pin.kind, pin.name)][place] = pin
    licences = {name: number for number, name in enumerate(names)}
    for node, pins_by_place in pins.items():
        groups: dict[tuple[object, ...], list[int]] = {}
        for place, pin in pins_by_place.items():
            groups.setdefault(_alike(pin), []).append(place)
        variants = []
        for places in groups.values():
            pin = pins_by_place[places[0]]
            artifact, licence = pin.artifact, licences[_name(_licence(pin, rules))]
            file, size = artifact.file if artifact else None, _size(pin)
            source, origin = _source(pin), pin.git.url if pin.git else pin.url
            variants.append(
                Variant(pin.version, pin.build, pin.index, source, licence, file, size, origin, tuple(places))
            )
        direct = tuple(place for place, pin in pins_by_place.items() if pin.direct)
        yield PackageRow(node.kind, node.name, direct, tuple(variants))


def _size(pin: Pin) -> int | None:
    """Return the bytes of a pin's file. A lock has none of what a PyTorch index serves, unless the tables had them."""
    if pin.artifact is None or pin.artifact.size is not None:
        return pin.artifact.size if pin.artifact else None
    return wheels.size_of(pin.index, pin.artifact.file, pin.artifact.sha256)


def _alike(pin: Pin) -> tuple[object, ...]:
    """Return the values that are equal where two targets install the same."""
    return (pin.version, pin.build, pin.index, pin.artifact, pin.git, pin.url, pin.licence)


def _source(pin: Pin) -> str:
    if pin.kind == "conda" or pin.git:
        return "git" if pin.git else "conda"
    if pin.is_wheel:
        return "wheel"
    return "url" if pin.url else "sdist"


def _links(targets: Sequence[LockedTarget], numbers: Mapping[Node, int]) -> Iterable[Link]:
    links: dict[tuple[int, int, str], list[int]] = {}
    for place, target in enumerate(targets):
        graph = Graph.of(target)
        for edge in (*graph.roots, *(edge for edges in graph.outgoing.values() for edge in edges)):
            if edge.target.kind == "base":
                continue
            source = -1 if edge.source is None else numbers[edge.source]
            places = links.setdefault((source, numbers[edge.target], edge.text), [])
            if place not in places:
                places.append(place)
    for (source, target_number, requirement), places in sorted(links.items()):
        yield Link(None if source < 0 else source, target_number, requirement, tuple(places))


def _licence(pin: Pin, rules: Rules) -> str | None:
    """Return the licence by the spec, else by the metadata, cut where that is a whole text."""
    licence = rules.licence_of(pin.name, pin.licence)
    text = " ".join(licence.split()) if licence else ""
    return (text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…") or None


def _name(licence: str | None) -> str | None:
    return in_spdx(licence) if licence else None


def _licence_names(targets: Iterable[LockedTarget], rules: Rules) -> Mapping[str | None, frozenset[str | None]]:
    """Map each licence, by its SPDX name where it has one, to the words that packages have for it. None comes last."""
    spellings: dict[str | None, set[str | None]] = {None: {None}}
    for text in {_licence(pin, rules) for target in targets for pin in target.pins}:
        spellings.setdefault(_name(text), set()).add(text)
    return {
        name: frozenset(spellings[name])
        for name in sorted(spellings, key=lambda name: (not name, (name or "").lower()))
    }


def _licences(
    packages: Sequence[PackageRow], names: Mapping[str | None, Iterable[str | None]], rules: Rules
) -> Iterable[Licence]:
    holders: dict[int, list[int]] = {}
    for number, package in enumerate(packages):
        for licence in dict.fromkeys(variant.licence for variant in package.variants):
            holders.setdefault(licence, []).append(number)
    for licence, (name, texts) in enumerate(names.items()):
        worst = max((verdict(text, rules) for text in texts), key=_VERDICTS.index)
        yield Licence(name, worst, tuple(holders.get(licence, ())))


_VERDICTS = ("none", "accepted", "unlisted", "denied")
"""The verdicts on a licence, the worst last: a list of the spec may have one of its wordings alone."""


def verdict(licence: str | None, rules: Rules) -> str:
    """Return the verdict of the spec's `[audit]` on a licence, as `Licence.verdict`. An unknown licence is on no
    list."""
    allow, deny = rules.allow_licences, rules.deny_licences
    if not allow and (not deny or licence is None):
        return "none"
    if licence is None:
        return "unlisted"
    if is_acceptable(licence, allow, deny):
        return "accepted"
    return "unlisted" if is_acceptable(licence, (), deny) else "denied"
