"""A torch of the PyTorch indexes whose files the facts lack: `outdated` tells of it, as `lock` does."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from packaging.version import Version
from support.report import SPEC, lock, pin, spec

from envspec.facts import torch_builds, wheels
from envspec.lock.model import Pin
from envspec.net.index_proxy.releases import Release
from envspec.resolve.workflow.outdated import Newer, Sides, facts_releases, find_newer

LACKING = "envspec's own facts lack its files (`lock --upgrade --refresh` asks the PyTorch index)"


def newest(variant: str) -> str:
    built = {one.version for one in torch_builds.builds(variant=variant) if one.trust != "planned"}
    return max(built, key=Version)


def newer(text: str) -> dict[str, Newer]:
    """What is newer of torch, by target."""
    of = lock(spec(text))
    found = find_newer(Sides(of, of, {}), of.targets, _releases)
    return {target: one for one in found if one.name == "torch" for target in one.targets}


def _releases(one: Pin) -> Sequence[Release]:
    return facts_releases(one) if one.index.startswith("pytorch/") else ()


def test_every_build_of_the_tables_is_a_release() -> None:
    for variant in ("cpu", "cu126"):
        built = {one.version for one in torch_builds.builds(variant=variant) if one.trust != "planned"}
        known = facts_releases(pin("torch", f"2.9.1+{variant}", index=f"pytorch/{variant}"))
        assert built <= {one.version for one in known} and len({one.version for one in known}) == len(known)
        assert all(one.uploaded for one in known), "a bound by date judges each"


def test_one_without_files_is_held_by_the_facts_and_by_what_the_spec_says_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(wheels, "load", lambda variant: SimpleNamespace(files=lambda project: ()))
    told = newer(SPEC.replace("torch==2.9.*", "torch"))
    assert {name: one.newest for name, one in told.items()} == {"cpu": newest("cpu"), "cu126-volta": newest("cu126")}
    assert [hold.reason for hold in told["cpu"].holds] == [LACKING]
    assert [hold.reason for hold in newer(SPEC)["cpu"].holds] == ["the spec asks for torch==2.9.*"]
