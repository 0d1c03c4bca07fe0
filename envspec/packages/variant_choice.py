"""The choice of a release's variant for a machine (PEP 825's ordering, with the providers that uv 0.13.8 has built in).

Pure, and about any machine: a provider detects what it stands on, here it is said. No plugin runs: one is code from an
index. A namespace whose provider is none of those below, and that doesn't list its values itself, fits no machine.

Why it is so: docs/design/19-wheel-variants.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from envspec.packages.variants import AARCH64, ABI, NVIDIA, X86_64, Property, Provider, Variants
from envspec.packages.version_numbers import numbers

_BUILT_IN: Mapping[str, tuple[str, tuple[str | None, ...]]] = {
    NVIDIA: ("nvidia-variant-provider", ("nvidia_variant_provider.plugin:NvidiaVariantPlugin",)),
    X86_64: ("x86-64-variant-provider", (None, "x86_64_variant_provider")),
    AARCH64: ("aarch64-variant-provider", (None, "aarch64_variant_provider")),
}
"""The namespaces whose rules are known: what their provider requires and its plugin-api, letter by letter, as uv
compares them."""

CUDA_LOWER, CUDA_UPPER, SM_ARCH = "cuda_version_lower_bound", "cuda_version_upper_bound", "sm_arch"
_OLDEST_CUDA, _NEWEST_CUDA, _MINORS = 11, 15, 20
_OLDEST_CAPABILITY = (5, 0)

Values = tuple[tuple[str, tuple[str, ...]], ...]
"""A namespace's features and values that a machine supports, the preferred ones first."""


class TargetMachine(Struct, frozen=True):
    """The machines of a target, by its own words.

    platform      as conda names it: "linux-64"
    python        "3.12"
    glibc         "2.28", None elsewhere than on Linux
    cuda          the CUDA that the target asks for ("12.8"); None on a machine without
    driver_cuda   the newest CUDA that the machines' driver was made for, None where the target names no driver
    capabilities  of its GPUs ("9.0"), oldest first; none where the target names no GPUs, and any will do
    cpu           "x86-64-v3", "armv8.2-a"; None for what every machine of the platform has
    versions      of the environment's packages, by normalised name, as far as they matter
    locked        name, version and label of variants that stay where they still fit
    """

    platform: str
    python: str
    glibc: str | None
    cuda: str | None = None
    driver_cuda: str | None = None
    capabilities: tuple[str, ...] = ()
    cpu: str | None = None
    versions: tuple[tuple[str, str], ...] = ()
    locked: tuple[tuple[str, str, str], ...] = ()

    @property
    def each(self) -> tuple[TargetMachine, ...]:
        """The machines with one kind of GPU each."""
        machines = (replace(self, capabilities=(capability,)) for capability in self.capabilities)
        return tuple(machines) if len(self.capabilities) > 1 else (self,)

    @property
    def description(self) -> str:
        """The machine, in words for people."""
        gpus = " and ".join(f"sm_{capability.replace('.', '')}" for capability in self.capabilities)
        cuda = f"CUDA {self.cuda}" if self.cuda else "no CUDA"
        return ", ".join(filter(None, (self.platform, cuda, gpus, self.cpu)))


def is_known(namespace: str, provider: Provider | None) -> bool:
    """Return whether a namespace's rules are known here."""
    if namespace == ABI:
        return True
    if provider is None:
        return False
    if provider.lists is not None:
        return True
    requires, apis = _BUILT_IN.get(namespace, ("", ()))
    return provider.requires == (requires,) and provider.plugin_api in apis


def supported_values(
    namespace: str, provider: Provider | None, machine: TargetMachine, features: Iterable[str] = ()
) -> Values:
    """List a namespace's features that a machine with at most one kind of GPU supports. `features` are those that
    variants have, for the namespace of other packages' versions."""
    if not is_known(namespace, provider):
        return ()
    if provider is not None and provider.lists is not None:
        return provider.lists
    return of_namespace(namespace, machine, features)


def of_namespace(namespace: str, machine: TargetMachine, features: Iterable[str] = ()) -> Values:
    """List the features of a namespace with the values that a machine supports. Rules built in here decide, whatever
    provider a release names; a namespace without such rules has none. `features` are those to answer for where the
    namespace has one for each package (ABI)."""
    if namespace == NVIDIA:
        return _nvidia(machine)
    if namespace == X86_64:
        return _x86_64(machine)
    if namespace == AARCH64:
        return _aarch64(machine)
    if namespace == ABI:
        versions = dict(machine.versions)
        return tuple(
            (feature, _prefixes(versions[_package(feature)]))
            for feature in sorted(features)
            if _package(feature) in versions
        )
    return ()


@lru_cache(maxsize=256)
def _nvidia(machine: TargetMachine) -> Values:
    if machine.cuda is None:
        return ()
    cuda = numbers(machine.cuda)[:2]
    # the target says which CUDA it wants, and its own rules whether the driver runs that
    driver = max(cuda, numbers(machine.driver_cuda)[:2]) if machine.driver_cuda else cuda
    lower = tuple(text for text, (major, minor) in _cudas() if (major, minor) <= cuda)
    upper = tuple(text for text, (major, minor) in _cudas() if (major, minor) > driver)
    bounds = ((CUDA_LOWER, lower), (CUDA_UPPER, upper))
    if not machine.capabilities:
        return (*bounds, (SM_ARCH, _ANY_GPU))
    major, minor = numbers(machine.capabilities[0])[:2]
    if (major, minor) < _OLDEST_CAPABILITY:
        return bounds
    real = (f"{major}{lower_minor}_real" for lower_minor in range(minor, -1, -1))
    return (*bounds, (SM_ARCH, (*real, f"{major}0_virtual")))


def _cudas() -> Iterator[tuple[str, tuple[int, float]]]:
    """Yield the versions of CUDA that a bound may name, newest first; a major alone is older than its first minor."""
    for major in range(_NEWEST_CUDA, _OLDEST_CUDA - 1, -1):
        for minor in range(_MINORS, -1, -1):
            yield f"{major}.{minor}", (major, minor)
        yield str(major), (major, -0.5)


_ANY_GPU = tuple(
    f"{major}{minor}_{form}" for form in ("real", "virtual") for major in range(12, 4, -1) for minor in range(9, -1, -1)
)
"""All architectures, for a target that names no GPU."""


def _x86_64(machine: TargetMachine) -> Values:
    if machine.platform not in ("linux-64", "win-64", "osx-64"):
        return ()
    level = int(machine.cpu[-1]) if machine.cpu and machine.cpu.startswith("x86-64-v") else 1
    return (("level", tuple(f"v{supported}" for supported in range(level, 0, -1))),)


def _aarch64(machine: TargetMachine) -> Values:
    if machine.platform not in ("linux-aarch64", "osx-arm64"):
        return ()
    major, minor = 8, 0
    if machine.cpu and machine.cpu.startswith("armv"):
        major, _, last = machine.cpu[4:].removesuffix("-a").partition(".")  # type: ignore[assignment]
        major, minor = int(major), int(last or 0)
    nine = [_arm(9, supported) for supported in range(minor, -1, -1)] if major == 9 else []
    # Armv9.0 has all of Armv8.5, and so on
    eight = [_arm(8, supported) for supported in range(minor + 5 if major == 9 else minor, -1, -1)]
    return (("version", (*nine, *eight)),)


def _arm(major: int, minor: int) -> str:
    return f"{major}.{minor}a" if minor else f"{major}a"


def _package(feature: str) -> str:
    """Give the package that a feature of ABI names: PEP 817 says its normalised name, which has no underscore, and PEP
    825 lets no dash stand in a feature."""
    return feature.replace("_", "-")


@lru_cache(maxsize=256)
def _prefixes(version: str) -> tuple[str, ...]:
    """List the values that a version has: what `=={value}.*` admits, the longest first."""
    try:
        release = Version(version).release
    except ValueError:
        return ()
    padded = (*release, 0, 0)[:3] if len(release) < 3 else release[:3]
    return tuple(".".join(map(str, padded[:count])) for count in (3, 2, 1))


Rank = tuple[tuple[int, int, int], ...]


class Chosen(Struct, frozen=True):
    """The best variant of a release for a target.

    label      its label; None where no variant fits
    compatible of its properties those that the target supports
    alone      of several GPUs: capability → the label that a machine with this one alone would get
    """

    label: str | None
    compatible: frozenset[Property] = frozenset()
    alone: tuple[tuple[str, str], ...] = ()


def choose(variants: Variants, labels: Iterable[str], machine: TargetMachine, locked: str | None = None) -> Chosen:
    """Choose among those labels of a release that have a file for the machine's platform and Python: the `locked` one
    if it fits, else the best."""
    candidates = sorted(label for label in labels if label in variants.variants)
    each = machine.each
    orders = [rank_labels(variants, candidates, single_gpu) for single_gpu in each]
    # that which serves every GPU, and stands well in the order of the GPU that it suits least
    common = set(orders[0]).intersection(*orders[1:])
    places = {label: sorted((order.index(label) for order in orders), reverse=True) for label in common}
    best = min(common, key=lambda label: (label != locked, places[label], orders[0].index(label)), default=None)
    alone = tuple(
        (single_gpu.capabilities[0], order[0])
        for single_gpu, order in zip(each, orders, strict=True)
        if each[1:] and order
    )
    return Chosen(best, compatible(variants, best, machine) if best is not None else frozenset(), alone)


def rank_labels(variants: Variants, labels: Iterable[str], machine: TargetMachine) -> list[str]:
    """List those labels that fit a machine with at most one kind of GPU, the best first."""
    features: dict[str, set[str]] = {}
    for properties in variants.variants.values():
        for variant_property in properties:
            features.setdefault(variant_property.namespace, set()).add(variant_property.feature)
    values = {
        name: supported_values(name, variants.providers.get(name), machine, features.get(name, ()))
        for name in variants.priorities
    }
    ranks = {label: rank(variants.variants[label], variants.priorities, values) for label in labels}
    # of two whose lists begin alike, the longer is the better one
    end = (len(variants.priorities), 0, 0)
    fitting = {label: (*places, end) for label, places in ranks.items() if places is not None}
    return sorted(fitting, key=lambda label: (fitting[label], label))


def rank(properties: Sequence[Property], priorities: Sequence[str], values: Mapping[str, Values]) -> Rank | None:
    """Give the sort key of a variant: the places of its features' best values. None where a feature has no value that
    the machine supports."""
    best: dict[tuple[int, int], int | None] = {}
    for variant_property in properties:
        features = [name for name, _ in values.get(variant_property.namespace, ())]
        if variant_property.feature not in features:
            return None
        at = features.index(variant_property.feature)
        key = (priorities.index(variant_property.namespace), at)
        known = values[variant_property.namespace][at][1]
        place = known.index(variant_property.value) if variant_property.value in known else None
        before = best.get(key)
        best[key] = place if before is None else before if place is None else min(before, place)
    places = []
    for (namespace, feature), place in best.items():
        if place is None:
            return None
        places.append((namespace, feature, place))
    return tuple(sorted(places))


def compatible(variants: Variants, label: str, machine: TargetMachine) -> frozenset[Property]:
    """Give those properties of a variant that some of the machine's GPUs support: what its requirements may ask for."""
    properties = variants.variants[label]
    supported = set()
    for single_gpu in machine.each:
        for namespace in {p.namespace for p in properties}:
            features = {p.feature for p in properties if p.namespace == namespace}
            known = dict(supported_values(namespace, variants.providers.get(namespace), single_gpu, features))
            supported |= {p for p in properties if p.namespace == namespace and p.value in known.get(p.feature, ())}
    return frozenset(supported)
