"""The fact tables hold to their invariants: every row sourced, no gaps, references resolve, no hosts."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from envspec.facts import conda_builds, corrections, gpus, libraries, released, tables, toolkits, torch_builds, wheels
from envspec.facts.reach import reach
from envspec.packages.version_numbers import numbers

DATA = Path(tables.__file__).parent / "data"
TABLES = sorted(path.stem for path in DATA.glob("*.toml"))
PLATFORMS = {"linux-64", "linux-aarch64", "osx-arm64", "win-64"}


def rows(name: str) -> list[dict[str, Any]]:
    return [row for value in tables.read(name).values() if isinstance(value, list) for row in value]


def test_builds_asked_by_any_value_are_those_of_the_table() -> None:
    every = torch_builds.builds()
    one = next(build for build in every if build.cuda and build.platform == "linux-64")
    for asked in ({"version": one.version}, {"variant": one.variant}, {"platform": one.platform}, {"cuda": one.cuda}):
        found = torch_builds.builds(**asked)
        assert found == tuple(b for b in every if all(getattr(b, key) == value for key, value in asked.items()))


def test_every_table_says_how_far_it_reaches() -> None:
    """But those of corrections, which are about the releases that they name."""
    assert set(reach()) == {*TABLES, "wheels"} - {"corrections"}
    assert all(reach().values())


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_sourced_and_every_source_used(name: str) -> None:
    sources = tables.read(name)["sources"]
    used = set()
    for row in rows(name):
        keys = row["source"].split()
        assert keys and set(keys) <= set(sources), row
        used.update(keys)
    if isinstance(tables.read(name).get("names"), str):
        used.update(sources)  # a list of names alone has one source for all
    assert used == set(sources)


@pytest.mark.parametrize("name", TABLES)
def test_no_host_and_no_damaged_value(name: str) -> None:
    text = (DATA / f"{name}.toml").read_text()
    assert "://" not in text
    assert not re.search(r"\b(pypi|pytorch|pythonhosted|conda|anaconda)\.(org|com|io)\b", text)
    assert "\r" not in text and "\\r" not in text
    assert not re.search(r"\"None\"|untagged|cpu'", text)


@pytest.mark.parametrize("name", TABLES)
def test_one_row_a_line(name: str) -> None:
    lines = (DATA / f"{name}.toml").read_text().splitlines()
    assert len([line for line in lines if line.startswith("  {")]) == len(rows(name))


def test_toolkits_are_in_order_without_gaps() -> None:
    versions = [numbers(t.version) for t in toolkits.cuda_releases()]
    assert versions == sorted(set(versions))
    never_released = {(12, 7)}
    for (major, minor), (next_major, next_minor) in pairwise(versions):
        if major == next_major:
            assert set(range(minor + 1, next_minor)) <= {m for _, m in never_released if major == 12}
        else:
            assert next_minor == 0


def test_toolkit_drivers_rise_and_floors_hold() -> None:
    for toolkit in toolkits.cuda_releases():
        for native, floor in (
            (toolkit.native_linux, toolkit.compatible_linux),
            (toolkit.native_windows, toolkit.compatible_windows),
        ):
            assert native is None or floor is None or numbers(native) >= numbers(floor)
    natives = [numbers(t.native_linux) for t in toolkits.cuda_releases() if t.native_linux]
    assert natives == sorted(natives)
    floors = {t.major: t.compatible_linux for t in toolkits.cuda_releases()}
    assert floors == {11: "450.80.02", 12: "525.60.13", 13: "580.65.06"}
    assert all(t.compatible_linux == floors[t.major] for t in toolkits.cuda_releases())


def test_toolkit_releases_belong_to_a_toolkit_whose_driver_is_its_first() -> None:
    releases = tables.read("toolkits")["releases"]
    for release in releases:
        toolkit = toolkits.toolkit(release["version"])
        assert toolkit is not None
        if release.get("linux") and toolkit.native_linux:
            assert numbers(release["linux"]) >= numbers(toolkit.native_linux)
    for toolkit in toolkits.cuda_releases():
        first = next((r for r in releases if toolkits.toolkit(r["version"]) == toolkit), None)
        assert first is None or first.get("linux") == toolkit.native_linux


def test_capabilities_agree_with_the_toolkits() -> None:
    known = gpus.capabilities()
    assert [numbers(c) for c in known] == sorted(numbers(c) for c in known)
    for toolkit in toolkits.cuda_releases():
        assert list(toolkit.capabilities) == sorted(toolkit.capabilities, key=numbers)
        for name, capability in known.items():
            first = capability.first_cuda
            in_span = (first is None or numbers(first) <= numbers(toolkit.version)) and (
                capability.last_cuda is None or numbers(toolkit.version) <= numbers(capability.last_cuda)
            )
            assert (name in toolkit.capabilities) == in_span, (toolkit.version, name)


def test_drivers_that_end_an_architecture_are_newer_than_those_that_start_it() -> None:
    for capability in gpus.capabilities().values():
        if capability.first_driver and capability.last_driver:
            assert capability.first_driver < capability.last_driver


def test_gpus_are_sorted_and_known() -> None:
    order = [numbers(gpu.capability) for gpu in gpus.products()]
    assert order == sorted(order)
    assert len({gpu.name for gpu in gpus.products()}) == len(gpus.products())
    for gpu in gpus.products():
        assert gpu.capability in gpus.capabilities()
        assert gpu.kind in {"datacentre", "workstation", "consumer", "embedded"}
        assert all(1 <= size <= 512 for size in gpu.memory_gib)
        assert gpu.bandwidth_gbs is None or 50 < gpu.bandwidth_gbs < 10000


def test_torch_releases_are_in_order_without_gaps() -> None:
    versions = [torch_builds.order(r.version) for r in torch_builds.releases()]
    assert versions == sorted(set(versions))
    minors = sorted({v[:2] for v in versions})
    assert minors == [(2, minor) for minor in range(len(minors))]
    for minor in minors:
        micros = [v[2] for v in versions if v[:2] == minor]
        assert micros == list(range(len(micros)))


def test_builds_resolve_into_releases_toolkits_and_capabilities() -> None:
    seen = set()
    for build in torch_builds.builds():
        release = torch_builds.release(build.version)
        assert release is not None
        key = (build.version, build.variant, build.platform)
        assert key not in seen
        seen.add(key)
        assert build.platform in PLATFORMS
        assert build.pythons
        assert build.trust in {"binary", "high", "medium", "low", "planned"}
        assert (build.glibc is not None) == build.platform.startswith("linux")
        assert set(build.sm) | set(build.ptx) <= set(gpus.capabilities())
        assert list(build.sm) == sorted(build.sm, key=numbers)
        if build.cuda is None:
            assert not build.sm and build.cudnn is None
        else:
            toolkit = toolkits.toolkit(build.cuda)
            assert toolkit is not None and set(build.sm) <= set(toolkit.capabilities), key
            assert build.sm
            assert not (build.ptx and build.platform.startswith("linux")), "no Linux wheel holds PTX"


def test_every_release_has_builds_and_its_pypi_default_is_one_of_them() -> None:
    for release in torch_builds.releases():
        assert set(release.pypi) == PLATFORMS
        for platform, variant in release.pypi.items():
            assert torch_builds.builds(release.version, platform=platform, variant=variant), (release.version, platform)
        assert release.torchvision


def test_builds_agree_with_the_shipped_indexes() -> None:
    """Every wheel of the PyTorch index has its build in the table; pythons, glibc tags and pins agree."""
    tag = {"linux-64": "linux.*_x86_64", "linux-aarch64": "linux.*_aarch64", "win-64": "win_amd64"}
    checked = 0
    for variant in wheels.variants():
        for wheel in wheels.load(variant).files("torch"):
            if not wheel.version.endswith(f"+{variant}"):
                continue
            match = re.search(r"-cp3(\d+)-cp3\d+-(.+)\.whl", wheel.file)
            platform = match and next((p for p, rx in tag.items() if re.search(f"{rx}$", match[2])), None)
            if match is None or platform is None:
                continue
            (build,) = torch_builds.builds(wheel.version, platform=platform, variant=variant)
            assert f"3.{match[1]}" in build.pythons, wheel.file
            if "manylinux_2_28" in wheel.file:
                assert build.glibc == "2.28", wheel.file
            if build.cuda and wheel.trust != "derived" and platform != "win-64":
                pinned = (re.match(r"([\w-]+?)(?:-cu\d+)?\s*\(?==([\d.]+)", r) for r in wheel.requires_dist)
                pins = {m[1]: m[2] for m in pinned if m}
                assert build.cudnn == pins.get("nvidia-cudnn", build.cudnn), wheel.file
                assert build.nccl == pins.get("nvidia-nccl", build.nccl), wheel.file
                assert build.triton == pins.get("triton"), wheel.file
            checked += 1
    assert checked > 800


def test_conda_builds_resolve() -> None:
    for build in conda_builds.builds():
        assert torch_builds.release(build.version)
        assert build.platform in PLATFORMS
        if build.cuda:
            toolkit = toolkits.toolkit(build.cuda)
            assert toolkit is not None
            # conda-forge's CUDA 12.0 builds are compiled for 8.9 with a 12.0 compiler, which knows it.
            assert set(build.sm) <= set(toolkit.capabilities), build
            assert set(build.ptx) <= set(build.sm)
    assert list(conda_builds.versions()) == sorted(conda_builds.versions(), key=torch_builds.order)


def test_libraries_resolve() -> None:
    for lib in libraries.library_wheels():
        assert set(lib.sm) | set(lib.ptx) <= set(gpus.capabilities())
        assert re.fullmatch("[0-9a-f]{64}", lib.sha256)
        assert lib.version in lib.file and lib.platform in PLATFORMS
        if lib.package in ("torchvision", "torchaudio") and lib.version not in ("0.15.0", "2.0.0"):
            assert torch_builds.torch_for(lib.package, lib.version)


def test_corrections_are_well_formed() -> None:
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet
    from packaging.utils import canonicalize_name

    names = [c.name for c in corrections.table()]
    assert len(set(names)) == len(names)
    for correction in corrections.table():
        assert canonicalize_name(correction.package) == correction.package
        assert len(Requirement(correction.requirement).specifier) or correction.kind == "requirement"
        assert len(SpecifierSet(correction.versions))
        assert correction.reason and not correction.reason.endswith(".")
        assert correction.proved in ("executed", "imported", "read", "upstream")
        assert corrections.unknown_names([correction.name]) == ()


def test_every_wheel_has_its_release_date() -> None:
    for variant in wheels.variants():
        index = wheels.load(variant)
        for project in index.projects:
            for wheel in index.files(project):
                found = released.date(project, wheel.version)
                assert found and re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ", found), wheel.file
    assert released.date("torch", "2.9.1+cu126") == released.date("torch", "2.9.1") == "2025-11-12T15:19:56Z"
    assert released.date("torch", "99.0") is None
