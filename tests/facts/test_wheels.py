"""The shipped PyTorch indexes: equal to the recorded ones, well formed, and free of hosts."""

import re
from email import message_from_bytes
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from support.recorded import pages

from envspec.facts import wheels

FOLDER = Path(wheels.__file__).parent / "data" / "wheels"
VARIANTS = ("cpu", "cu118", "cu121", "cu124", "cu126", "cu128", "cu129", "cu130")
PROJECTS = ("torch", "torchaudio", "torchvision", "triton")
ODD = {("torchvision", "0.15.0")}
"""Its METADATA asks for torch==2.0.0+cu117 whatever the build."""
each_variant = pytest.mark.parametrize("variant", VARIANTS)


def all_wheels(variant: str) -> list[wheels.WheelFile]:
    index = wheels.load(variant)
    return [wheel for project in index.projects for wheel in index.files(project)]


def test_variants() -> None:
    assert wheels.variants() == VARIANTS


def test_unknown_variant_is_a_key_error() -> None:
    with pytest.raises(KeyError, match=r"\.\./cpu"):
        wheels.load("../cpu")


@each_variant
def test_every_record_equals_the_recorded_one(variant: str) -> None:
    for project in PROJECTS:
        expected = {
            file: (
                version,
                sha256,
                fields.get("requires_python"),
                fields.get("requires_dist", []),
                fields.get("provides_extra", []),
            )
            for version, release in pages()[variant].get(project, {}).items()
            if (project, Version(version).public) not in ODD
            for file, (sha256, number) in release["files"].items()
            for fields in [release["metadata"][number]]
        }
        got = {
            w.file: (w.version, w.sha256, w.requires_python, [*w.requires_dist], [*w.provides_extra])
            for w in wheels.load(variant).files(project)
        }
        assert got == expected


@pytest.mark.by_day(2)
@each_variant
def test_fields_are_well_formed(variant: str) -> None:
    for wheel in all_wheels(variant):
        assert re.fullmatch("[0-9a-f]{64}", wheel.sha256)
        assert wheel.trust in ("verified", "copied", "derived")
        assert wheel.basis
        assert wheel.upload_time is None or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", wheel.upload_time)
        if wheel.requires_python is None:
            assert wheel.project in ("torchaudio", "torchvision", "triton"), "torch itself always said it"
        else:
            SpecifierSet(wheel.requires_python)
        for line in wheel.requires_dist:
            Requirement(line)


@each_variant
def test_sorted_unique_and_sourced(variant: str) -> None:
    index = wheels.load(variant)
    assert index.projects == PROJECTS
    used: set[str] = set()
    for project in index.projects:
        files = index.files(project)
        assert [w.file for w in files] == [w.file for w in sorted(files, key=lambda w: (Version(w.version), w.file))], (
            project
        )
        assert len({w.file for w in files}) == len(files)
        for version in {w.version for w in files}:
            keys = index.file_sources(project, version)
            assert keys
            used.update(keys)
    used |= {w.basis for w in all_wheels(variant) if w.trust == "copied"}
    assert set(index.sources) == used


@each_variant
def test_no_host_and_no_url_in_the_data(variant: str) -> None:
    text = (FOLDER / f"{variant}.json").read_text()
    assert "://" not in text
    assert not re.search(r"\b[\w-]+\.(org|com|io|net|dev)\b", text)
    assert text.endswith("\n")
    assert max(map(len, text.splitlines())) < 5000


def test_metadata_text_is_what_a_resolver_reads() -> None:
    wheel = wheels.load("cu126").file("torch-2.9.1+cu126-cp312-cp312-manylinux_2_28_x86_64.whl")
    assert wheel is not None
    message = message_from_bytes(wheels.metadata_text(wheel))
    assert message["Metadata-Version"] == "2.1"
    assert (message["Name"], message["Version"]) == ("torch", "2.9.1+cu126")
    assert message["Requires-Python"] == wheel.requires_python
    assert tuple(message.get_all("Requires-Dist", [])) == wheel.requires_dist
    assert tuple(message.get_all("Provides-Extra", [])) == wheel.provides_extra
    assert any(r.startswith("nvidia-cudnn-cu12==9.10.2.21") for r in wheel.requires_dist)


def test_a_name_alone_identifies_no_wheel() -> None:
    """Hashes belong to their variant: the same file name stands in several with different contents."""
    seen: dict[str, set[str]] = {}
    for variant in VARIANTS:
        for wheel in all_wheels(variant):
            seen.setdefault(wheel.file, set()).add(wheel.sha256)
    assert sum(len(hashes) > 1 for hashes in seen.values()) > 50


def test_absent_things_are_empty() -> None:
    index = wheels.load("cu121")
    assert index.files("numpy") == ()
    assert index.file("torch-9.9.9-cp312-cp312-linux_x86_64.whl") is None
    assert index.file_sources("torch", "9.9.9") == ()
