"""A torch of the PyTorch indexes whose files the facts lack is no newer release: `outdated` offers none, nor `lock`."""

from support.report import SPEC, lock, pin, spec

from envspec.facts import torch_builds
from envspec.lock.model import Pin
from envspec.net.index_proxy.releases import Release
from envspec.review.outdated import Sides, facts_releases, find_newer


def _releases(one: Pin) -> tuple[Release, ...]:
    return facts_releases(one) if one.index.startswith("pytorch/") else ()


def test_the_newest_is_the_newest_with_files() -> None:
    of = lock(spec(SPEC.replace("torch==2.9.*", "torch")))
    found = find_newer(Sides(of, of, {}), of.targets, _releases)
    newest = {target: one.newest for one in found if one.name == "torch" for target in one.targets}
    held = {name: torch_builds.lockable("linux-64", variant)[-1] for name, variant in VARIANTS.items()}
    assert newest == held
    assert torch_builds.builds(variant="cu126", platform="linux-64")[-1].version not in newest.values(), "a row alone"


VARIANTS = {"cpu": "cpu", "cu126-volta": "cu126"}


def test_every_build_with_files_is_a_release_and_no_other() -> None:
    for variant in VARIANTS.values():
        known = facts_releases(pin("torch", f"2.9.1+{variant}", index=f"pytorch/{variant}"))
        versions = [one.version for one in known]
        assert len({*versions}) == len(versions) and all(one.wheels and one.uploaded for one in known)
        assert {*torch_builds.lockable("linux-64", variant)} <= {*versions}
