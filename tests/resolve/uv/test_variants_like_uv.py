"""The choice of variants beside uv's own, on generated indexes: uv is told of another machine and installs nothing.

uv's support is a preview. If it changes its format or its rules, these tests say so before users do.
"""

import os
import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Index, status
from support.machine import Machine
from support.packages import wheel
from support.uv_variants import uv, uvs_choices
from support.variants import Properties, about, cuda, document, variant_wheel

from envspec.lock.read import load
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


# Indexes that don't keep to PEP 825, beside uv's own answers: where envspec does more, and where it refuses alike. If
# one of uv's answers changes, docs/variants.md says something that isn't true any more.


HOPPER = {
    "UV_PREVIEW_FEATURES": "wheel-variants",
    "NV_VARIANT_PROVIDER_FORCE_SM_ARCH": "9.0",
    "NV_VARIANT_PROVIDER_FORCE_CUDA_DRIVER_VERSION": "13.0",
}


VARIANTS = {"null": {}, "cu126": cuda("12.6", 90), "cu130": cuda("13.0", 90)}


_LOADER = Path("/lib64/ld-linux-x86-64.so.2")


WHEELS = [variant_wheel("lib", "2.0", label, properties) for label, properties in VARIANTS.items()]


FILE = about("lib", "2.0", VARIANTS)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[tuple[Machine, Index]]:
    with Index() as index:
        made = Machine(tmp_path, index.url)
        made.spec(
            '[env]\nname = "demo"\npython = "3.12"\n[pip]\ndependencies = ["lib"]\n'
            '[targets.gpu]\nplatform = "linux-64"\ncuda = "13.0"\ngpus = ["H100"]\n'
        )
        yield made, index
        made.close()


def locked(machine: Machine) -> str | None:
    """The version and label of the package in the lock."""
    target = load(machine.locks / "demo" / "envspec.lock").target("gpu")
    pin = target.pin("lib") if target else None
    variant = pin.artifact.variant if pin and pin.artifact else None
    return f"{pin.version} {variant.label if variant else 'plain'}" if pin else None


def uvs_answer(index: Index, folder: Path) -> str:
    ran = uv(index, folder, "install", "--target", "out", "lib", **HOPPER)
    found = re.search(r"^ \+ lib==(\S+)", ran.stderr, re.MULTILINE)
    return found[1] if ran.returncode == 0 and found else " ".join(ran.stderr.split())


@pytest.mark.slow
def test_a_missing_file_is_made_up_for_by_the_wheels(machine: tuple[Machine, Index], tmp_path: Path) -> None:
    """uv takes an older release in silence, or none."""
    made, index = machine
    index.add(*WHEELS)
    assert "has only unsupported wheel variants" in uvs_answer(index, tmp_path)
    index.add(wheel("lib", "1.0"))
    assert uvs_answer(index, tmp_path) == "1.0"
    ran = made.envspec("lock", "specs/demo.toml")
    assert ran.status == 0 and locked(made) == "2.0 cu130", ran.err
    assert made.envspec("verify", "specs/demo.toml").status == 0
    more = variant_wheel("lib", "2.0", "v9", {"x86_64": {"level": ["v9"]}}, namespaces=("nvidia", "x86_64"))
    index.add(more)
    assert made.envspec("verify", "specs/demo.toml").status == 0, "a variant more, and a namespace"
    index.add(variant_wheel("lib", "2.0", "cu130", cuda("13.0", 80, 90)))
    assert made.envspec("verify", "specs/demo.toml").status == 1, "the wheel is another one"


@pytest.mark.slow
@pytest.mark.parametrize("older", [False, True])
def test_a_file_that_the_page_names_in_vain(older: bool, machine: tuple[Machine, Index], tmp_path: Path) -> None:
    made, index = machine
    index.add(*WHEELS, FILE, *([wheel("lib", "1.0")] if older else []))
    index.fail("variants.json$", status(404))
    assert "404 Not Found" in uvs_answer(index, tmp_path)
    assert made.envspec("lock", "specs/demo.toml").status == 0 and locked(made) == "2.0 cu130"


@pytest.mark.slow
def test_a_plain_wheel_beside_variants_that_can_not_be_read_is_no_way_out(
    machine: tuple[Machine, Index], tmp_path: Path
) -> None:
    """It may be for CPUs. uv says the same of it."""
    made, index = machine
    index.add(*WHEELS, replace(FILE, content=b"{"), wheel("lib", "2.0"))
    assert "Failed to parse variant metadata" in uvs_answer(index, tmp_path)
    ran = made.envspec("lock", "specs/demo.toml")
    assert ran.status == 3 and "lib-2.0-variants.json: it isn't JSON" in ran.error, ran.err
    # a page that stays the same, and a file that is put right
    index.add(FILE)
    index.lie_about(FILE, replace(FILE, content=b"{").sha256)
    assert "another sha256" in made.envspec("lock", "specs/demo.toml").error
    index.lie_about(FILE, FILE.sha256)
    assert made.envspec("lock", "specs/demo.toml").status == 0 and locked(made) == "2.0 cu130"


@pytest.mark.slow
def test_a_label_that_the_file_does_not_have_fits_no_machine(machine: tuple[Machine, Index], tmp_path: Path) -> None:
    made, index = machine
    worse = cuda("13.0")
    index.add(*WHEELS, variant_wheel("lib", "2.0", "a", worse), about("lib", "2.0", {"null": {}, "a": worse}))
    assert uvs_answer(index, tmp_path) == "2.0"
    assert (tmp_path / "out" / "lib_label.py").read_text() == "label = 'a'\n"
    assert made.envspec("lock", "specs/demo.toml").status == 0 and locked(made) == "2.0 a"


def _own_level() -> str:
    """This machine's processor, as glibc has it."""
    said = subprocess.run([_LOADER, "--help"], capture_output=True, text=True, check=False).stdout
    return max(re.findall(r"(x86-64-v[2-4]) \(supported", said), default="x86-64-v1")


@pytest.mark.skipif(
    not Path("/lib64/ld-linux-x86-64.so.2").exists(), reason="uv sees its own processor: no x86-64 here"
)
@pytest.mark.slow
def test_the_same_levels_of_processors_as_uv(tmp_path: Path) -> None:
    chance = random.Random(19)
    namespaces = ("x86_64", "nvidia", "aarch64")
    releases = {}
    for number in range(24):
        found: dict[str, dict[str, dict[str, list[str]]]] = {"null": {}}
        for label in ("a", "b", "c"):
            properties = {"x86_64": {"level": chance.sample(["v1", "v2", "v3", "v4"], chance.randint(1, 2))}}
            if chance.random() < 0.2:
                properties = {"aarch64": {"version": ["8a"]}}
            elif chance.random() < 0.2:
                properties["x86_64"]["avx512_bf16"] = ["on"]
            if chance.random() < 0.3:
                properties["nvidia"] = {"sm_arch": ["90_real"]}
            if properties not in found.values():
                found[label] = properties
        releases[f"lib-{number}"] = found
    target = TargetMachine("linux-64", "3.12", "2.28", "13.0", capabilities=("9.0",), cpu=_own_level())
    ours = {
        name: choose(read_variants(document(variants, namespaces)), variants, target).label
        for name, variants in releases.items()
    }
    assert uvs_choices(releases, namespaces, target, tmp_path) == ours
    assert len(set(ours.values())) > 2
