"""The newest torch is one thing for `init`, `lock` and `outdated`: the newest release whose files the facts have."""

import pytest
from support.told import pin

from envspec.facts import torch_builds, wheels
from envspec.resolve.pip.request import Request
from envspec.resolve.torch_index.choice import choose, default_builds, index_builds
from envspec.resolve.torch_index.holes import newest_releases
from envspec.review.outdated import facts_releases

PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
SYSTEMS = ("linux-64", "linux-aarch64", "win-64", "osx-arm64")


def asked(system: str, variant: str, python: str) -> Request:
    glibc = "2.40" if system.startswith("linux") else None
    return Request(system, python, glibc, ("torch",), torch_builds.cuda_of_variant(variant))


@pytest.mark.parametrize("variant", [*wheels.variants(), "cu132"])
def test_what_lock_chooses_among_is_what_the_facts_hold(variant: str) -> None:
    for system in SYSTEMS:
        for python in PYTHONS:
            request = asked(system, variant, python)
            rows = {
                one.version for one in torch_builds.builds(variant=variant, platform=system) if python in one.pythons
            }
            held = {one.partition("+")[0] for one in index_builds(request, variant)}
            held |= {*default_builds(system, variant)} & rows
            assert held == {*torch_builds.lockable(system, variant, python)}, (system, python)


@pytest.mark.parametrize("variant", ["cpu", "cu126", "cu129", "cu130"])
def test_the_newest_is_the_same_for_all(variant: str) -> None:
    newest = torch_builds.lockable("linux-64", variant, "3.12")[-1]
    request = asked("linux-64", variant, "3.12")
    assert newest_releases({request: choose(request)}) == {request: newest}
    if choose(request).variant is not None:
        assert facts_releases(pin("torch", "2.9.1", index=f"pytorch/{variant}"))[0].version == newest
    if variant in ("cpu", "cu126"):
        assert torch_builds.builds(variant=variant, platform="linux-64")[-1].version != newest, "a row without files"
