"""The choice of variants beside uv's own, on generated indexes: uv is told of another machine and installs nothing.

uv's support is a preview. If it changes its format or its rules, these tests say so before users do.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.index import Index
from support.uv_variants import uv, uvs_choices
from support.variants import Properties, about, cuda, document, variant_wheel

from envspec.packages.variant_choice import TargetMachine, choose
from envspec.packages.variants import read_variants

_NAMESPACES = ("nvidia", "x86_64", "blas")


def _some(chance: random.Random, values: Sequence[str], most: int) -> list[str]:
    return chance.sample(list(values), chance.randint(1, most))


def _properties(chance: random.Random) -> Properties:
    found: dict[str, dict[str, list[str]]] = {}
    bounds = ("11.8", "12", "12.0", "12.4", "12.6", "12.8", "12.9", "13", "13.0", "13.1")
    arches = [f"{one}_real" for one in (70, 75, 80, 86, 89, 90, 100, 103, 120)]
    arches += [f"{one}_virtual" for one in (70, 75, 80, 90, 100, 120)]
    features: dict[str, tuple[Sequence[str], int]] = {
        "cuda_version_lower_bound": (bounds, 1),
        "cuda_version_upper_bound": (bounds, 1),
        "sm_arch": (arches, 5),
    }
    for name, (values, most) in features.items():
        if chance.random() < (0.2 if "upper" in name else 0.6):
            found.setdefault("nvidia", {})[name] = _some(chance, values, most)
    if chance.random() < 0.25:
        # what this machine's own processor has can't be forced, but all have this
        found["x86_64"] = {"level": _some(chance, ("v1", "v9"), 2)}
    if chance.random() < 0.3:
        found["blas"] = {
            name: _some(chance, values, 2)
            for name, values in (("lib", ("openblas", "mkl", "other")), ("threads", ("omp", "none")))
            if chance.random() < 0.6
        }
    return {name: features for name, features in found.items() if features}


def generated(chance: random.Random) -> dict[str, Properties]:
    """The variants of a release. There is always one for every machine."""
    found: dict[str, Properties] = {"null": {}}
    for label in chance.sample(["cu126", "cu128", "cu130", "a", "b", "c.d", "x_1"], chance.randint(1, 6)):
        properties = _properties(chance)
        if properties and properties not in found.values():
            found[label] = properties
    return found


MACHINES = [(cuda, arch) for cuda in ("12.6", "12.8", "13.0") for arch in ("7.0", "8.0", "8.9", "9.0", "10.3", "12.0")]


@pytest.mark.parametrize(
    ("asked", "arch", "count"),
    [
        ("12.8", "9.0", 8),
        *(pytest.param(*one, 30, marks=pytest.mark.slow) for one in MACHINES[::7]),
        *(pytest.param(*one, 30, marks=pytest.mark.nightly) for one in MACHINES if one not in MACHINES[::7]),
    ],
)
def test_the_same_variants_as_uv(asked: str, arch: str, count: int, tmp_path: Path) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("uv sees this machine's own processor, which is no x86-64")
    chance = random.Random(f"{asked} {arch}")
    namespaces = chance.sample(_NAMESPACES, 3)
    releases = {f"lib-{number}": generated(chance) for number in range(count)}
    target = TargetMachine("linux-64", "3.12", "2.28", asked, capabilities=(arch,))
    ours = {
        name: choose(read_variants(document(variants, namespaces)), variants, target).label
        for name, variants in releases.items()
    }
    assert uvs_choices(releases, namespaces, target, tmp_path) == ours
    assert len(set(ours.values())) > 2


def test_uv_s_preview_reads_the_format_that_envspec_reads(tmp_path: Path) -> None:
    """If this fails, uv's preview has changed: see docs/variants.md for what was true of 0.13.8."""
    target = TargetMachine("linux-64", "3.12", "2.28", "13.0", capabilities=("9.0",))
    variants = {"null": {}, "cu126": cuda("12.6", 90), "cu130": cuda("13.0", 90)}
    assert uvs_choices({"lib": variants}, ("nvidia",), target, tmp_path) == {"lib": "cu130"}


@pytest.mark.slow
def test_uv_locks_no_variant_by_itself(tmp_path: Path) -> None:
    """If this fails, uv can do what envspec does in its place: then use uv's choice."""
    variants = {"null": {}, "cu130": cuda("13.0", 90)}
    (tmp_path / "in.txt").write_text("lib\n")
    with Index() as index:
        index.add(*(variant_wheel("lib", "1.0", label, properties) for label, properties in variants.items()))
        index.add(about("lib", "1.0", variants))
        whole = uv(index, tmp_path, "compile", "in.txt", "--format", "pylock.toml", "--output-file", "pylock.toml")
        hashes = uv(index, tmp_path, "compile", "in.txt", "--generate-hashes")
        without = uv(index, tmp_path, "compile", "in.txt", UV_PREVIEW_FEATURES="pylock")
    assert "resolved to a wheel variant, which pylock.toml export does not support" in " ".join(whole.stderr.split())
    assert hashes.stdout.count("--hash=sha256:") == 2, hashes.stdout
    assert "has only unsupported wheel variants" in " ".join(without.stderr.split())
