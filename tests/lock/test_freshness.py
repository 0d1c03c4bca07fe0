"""Why a lock is stale: one fixture a cause, `stale/<reason>/spec.toml`, against the lock of `stale/fresh`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from envspec.lock.freshness import (
    FileDiffers,
    LockDamaged,
    LockMissing,
    Reason,
    SpecChanged,
    image_reasons,
    reasons,
    rendered_reasons,
)
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Lock, LockedImage, LockedTarget
from envspec.spec.model import Spec
from envspec.spec.parse import load_spec

STALE = Path(__file__).parent / "stale"
CASES = sorted(folder.name for folder in STALE.iterdir())


def locked(spec: Spec) -> Lock:
    targets = sorted(spec.targets, key=lambda target: target.name)
    return Lock(
        spec.name,
        spec_inputs(spec),
        tuple(LockedTarget(target.name, target_inputs(spec, target), ()) for target in targets),
    )


FRESH = locked(load_spec(STALE / "fresh" / "spec.toml"))


@pytest.mark.parametrize("case", CASES)
def test_each_cause(case: str) -> None:
    spec = load_spec(STALE / case / "spec.toml")
    expected = (STALE / case / "reasons.txt").read_text(encoding="utf-8").splitlines()
    found = reasons(spec, FRESH)
    assert [reason.message for reason in found] == expected
    assert reasons(spec, locked(spec)) == ()
    if not case.startswith("fresh"):
        assert case.startswith(found[0].code) or case == "cuda-removed"


def every_type(base: type[Reason]) -> set[type[Reason]]:
    found = {one for child in base.__subclasses__() for one in every_type(child)}
    return found or {base}


def test_every_cause_has_its_code_and_its_fixture() -> None:
    types = every_type(Reason)
    codes = [code for one in types for code in one.codes]
    assert len(set(codes)) == len(codes)
    elsewhere = {"lock-missing", "lock-damaged", "image-changed"}
    elsewhere |= {"rendered-missing", "rendered-edited", "rendered-extra"}
    elsewhere |= {"recipe-missing", "recipe-differs", "recipe-extra", "signature-stale"}
    assert set(codes) - elsewhere <= set(CASES)


def test_two_requirements_of_one_name_are_not_paired() -> None:
    old = load_spec(STALE / "fresh" / "spec.toml")
    markers = tuple(f"numpy{version}; python_version {sign} '3.12'" for version, sign in ((">=2", ">"), ("<2", "<=")))
    text = (STALE / "fresh" / "spec.toml").read_text(encoding="utf-8").replace('"numpy"', ", ".join(map(repr, markers)))
    from envspec.spec.parse import parse_spec

    new = parse_spec(text, "spec.toml")
    assert [(reason.code, reason.message) for reason in reasons(new, locked(old))] == [
        ("requirement-removed", "numpy was removed"),
        ("requirement-added", 'numpy<2; python_version <= "3.12" was added'),
        ("requirement-added", 'numpy>=2; python_version > "3.12" was added'),
    ]


def test_rendered_files() -> None:
    assert rendered_reasons({"a/r": "1", "b/r": "2", "c/r": "3"}, {"b/r": "2", "c/r": "x", "d/r": "4"}) == (
        FileDiffers("rendered-missing", "a/r"),
        FileDiffers("rendered-edited", "c/r"),
        FileDiffers("rendered-extra", "d/r"),
    )


def test_messages_are_one_line() -> None:
    whole: list[Reason] = [
        LockMissing("lock-missing"),
        LockDamaged("lock-damaged", "the lock is empty"),
        FileDiffers("rendered-missing", "a/r"),
        FileDiffers("rendered-edited", "a/r"),
        FileDiffers("rendered-extra", "a/r"),
    ]
    assert [reason.message for reason in whole] == [
        "there is no lock yet",
        "the lock is empty",
        "a/r is missing",
        "a/r differs from what the lock gives",
        "a/r belongs to no target of the lock",
    ]


BASE = "debian:bookworm-slim"
TOOL = "tools/uv:1"


def with_images(*names: str) -> Lock:
    return replace(FRESH, images=tuple(LockedImage(name, f"sha256:{'a' * 64}") for name in sorted(names)))


@pytest.mark.parametrize(
    ("locked_images", "base", "expected"),
    [
        ((BASE, TOOL), BASE, ()),
        ((), BASE, ()),
        # no registry told the digest of the base: the lock is as good as it can be
        ((TOOL,), BASE, ()),
        ((BASE, TOOL), "ubuntu:24.04", (SpecChanged("image-changed", BASE, "ubuntu:24.04"),)),
        ((BASE,), f"ubuntu:24.04@sha256:{'b' * 64}", ()),
        # another version of envspec builds with another tool: what the spec asks for is still there
        ((BASE, "tools/uv:0"), BASE, ()),
    ],
)
def test_another_base_image(locked_images: tuple[str, ...], base: str, expected: tuple[Reason, ...]) -> None:
    spec = load_spec(STALE / "fresh" / "spec.toml")
    spec = replace(spec, image=replace(spec.image, base=base))
    lock = with_images(*locked_images)
    assert image_reasons(spec, lock, {base, TOOL}) == expected
    assert reasons(spec, lock) == ()
    assert all(reason.message == f"the base image changed from {BASE} to ubuntu:24.04" for reason in expected)
