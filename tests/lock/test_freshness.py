"""Why a lock is stale: one fixture a cause, `stale/<reason>/spec.toml`, against the lock of `stale/fresh`."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from envspec.base.finding import Finding
from envspec.lock.freshness import concerns_environment, image_reasons, reasons, rendered_reasons
from envspec.lock.inputs import spec_case, spec_inputs, target_inputs
from envspec.lock.model import Lock, LockedImage, LockedTarget
from envspec.spec.model import Spec
from envspec.spec.parse import load_spec

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "json.md").read_text(encoding="utf-8")
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
    found = reasons(spec_case(spec), FRESH)
    assert [reason.text for reason in found] == expected
    assert reasons(spec_case(spec), locked(spec)) == ()
    if not case.startswith("fresh"):
        assert case.startswith(found[0].code) or case == "cuda-removed"


def test_the_page_lists_every_cause_with_its_details() -> None:
    """And each has a fixture, but for the causes that no spec has."""
    table = PAGE.partition("| code | details |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`[a-z]+-[^|]*) \| ([^|]*) ?\|$", table, re.MULTILINE)
    names = [[re.findall(r"`([^`]*)`", cell) for cell in row] for row in rows]
    every = {code: set(details) for codes, details in names for code in codes}
    found = {
        one.code: one for case in CASES for one in reasons(spec_case(load_spec(STALE / case / "spec.toml")), FRESH)
    }
    assert every.keys() - found.keys() == {
        *("lock-missing", "lock-damaged", "lock-newer", "image-changed", "signature-stale"),
        *("rendered-missing", "rendered-edited", "rendered-extra"),
        *("recipe-missing", "recipe-differs", "recipe-extra"),
        # of --imports: what the sources import
        *("cuda-without-torch", "import-unlocked", "import-optional"),
    }
    of_all = {"targets", "package"}
    assert {code: every[code] - of_all for code in found} == {
        code: one.details.keys() - of_all for code, one in found.items()
    }


def test_two_requirements_of_one_name_are_not_paired() -> None:
    old = load_spec(STALE / "fresh" / "spec.toml")
    markers = tuple(f"numpy{version}; python_version {sign} '3.12'" for version, sign in ((">=2", ">"), ("<2", "<=")))
    text = (STALE / "fresh" / "spec.toml").read_text(encoding="utf-8").replace('"numpy"', ", ".join(map(repr, markers)))
    from envspec.spec.parse import parse_spec

    new = parse_spec(text, "spec.toml")
    assert [(reason.code, reason.message) for reason in reasons(spec_case(new), locked(old))] == [
        ("requirement-removed", "numpy was removed"),
        ("requirement-added", 'numpy<2; python_version <= "3.12" was added'),
        ("requirement-added", 'numpy>=2; python_version > "3.12" was added'),
    ]


def test_rendered_files() -> None:
    found = rendered_reasons({"a/r": "1", "b/r": "2", "c/r": "3"}, {"b/r": "2", "c/r": "x", "d/r": "4"})
    assert [(one.code, one.file, one.message) for one in found] == [
        ("rendered-missing", "a/r", "a/r is missing"),
        ("rendered-edited", "c/r", 'c/r differs from what the lock gives, first at line 1: "x"'),
        ("rendered-extra", "d/r", "d/r belongs to no target of the lock"),
    ]


BASE = "debian:bookworm-slim"
TOOL = "tools/uv:1"
CHANGED = f"the base image changed from {BASE} to ubuntu:24.04"


def with_images(*names: str) -> Lock:
    return replace(FRESH, images=tuple(LockedImage(name, f"sha256:{'a' * 64}") for name in sorted(names)))


@pytest.mark.parametrize(
    ("locked_images", "base", "expected"),
    [
        ((BASE, TOOL), BASE, ()),
        ((), BASE, ()),
        # no registry told the digest of the base: the lock is as good as it can be
        ((TOOL,), BASE, ()),
        ((BASE, TOOL), "ubuntu:24.04", (CHANGED,)),
        ((BASE,), f"ubuntu:24.04@sha256:{'b' * 64}", ()),
        # another version of envspec builds with another tool: what the spec asks for is still there
        ((BASE, "tools/uv:0"), BASE, ()),
    ],
)
def test_another_base_image(locked_images: tuple[str, ...], base: str, expected: tuple[str, ...]) -> None:
    spec = load_spec(STALE / "fresh" / "spec.toml")
    spec = replace(spec, image=replace(spec.image, base=base))
    lock = with_images(*locked_images)
    assert tuple(one.message for one in image_reasons(spec, lock, {base, TOOL})) == expected
    assert reasons(spec_case(spec), lock) == ()


@pytest.mark.parametrize(
    ("change", "concerns"),
    [
        (Finding("error", "requirement-added", "", targets=("a",)), {"a": True, "b": False, None: True}),
        (Finding("error", "requirement-added", ""), {"a": True, None: True}),
        (Finding("error", "image-python-changed", ""), {"a": False, None: False}),
        (Finding("error", "target-added", "", evidence=(("target", "b"),)), {"a": False, "b": True, None: True}),
        (Finding("error", "accept-changed", "", evidence=(("old", "x"), ("new", "y"))), {"a": False}),
        (Finding("error", "accept-changed", "", evidence=(("old", None), ("new", "y"))), {"a": True}),
        (Finding("error", "override-changed", "", evidence=(("old", "x"), ("new", "y"))), {"a": False}),
        (Finding("error", "override-changed", "", evidence=(("old", "x"), ("new", None))), {"a": True}),
        (Finding("error", "constraint-changed", "", evidence=(("old", "x"), ("new", "y"))), {"a": True}),
    ],
)
def test_what_concerns_an_environment(change: Finding, concerns: dict[str | None, bool]) -> None:
    assert {name: concerns_environment(change, name) for name in concerns} == concerns
