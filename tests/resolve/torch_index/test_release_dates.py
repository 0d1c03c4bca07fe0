"""A release of torch whose date isn't known counts as not there, so that locks with a date would go back behind it."""

from msgspec.structs import replace

from envspec.facts import released, torch_builds
from envspec.resolve.pip.request import Request
from envspec.resolve.torch_index.choice import choose
from envspec.resolve.torch_index.holes import newest_releases


def test_every_known_release_has_its_date() -> None:
    wanted = {("torch", release.version) for release in torch_builds.releases() if release.pypi}
    for _, version in tuple(wanted):
        wanted |= {(name, one) for name, several in torch_builds.companions(version).items() for one in several}
    assert [one for one in sorted(wanted) if released.date(*one) is None] == []


def test_a_spec_with_a_date_prefers_the_newest_of_its_time() -> None:
    request = Request("linux-64", "3.12", "2.28", ("torch", "torchaudio"), "13.0", exclude_newer="2026-11-01T00:00:00Z")
    assert newest_releases({request: choose(request)}) == {request: "2.14.1"}


def test_pypi_isnt_the_index_of_a_day_before_its_default_build_had_the_asked_cuda() -> None:
    """PyPI has had CUDA 13.0 since 2.11; what came before, PyTorch's index of it has."""
    request = Request("linux-64", "3.12", "2.28", ("torch>=2.8",), "13.0", exclude_newer="2025-11-30T00:00:00Z")
    assert choose(request).variant == "cu130"
    assert choose(replace(request, exclude_newer="2026-11-01T00:00:00Z")).variant is None
    # nothing of its time: the date is what stands in the way, and PyPI's answer says so
    assert choose(replace(request, exclude_newer="2025-01-01T00:00:00Z")).variant is None


def test_a_day_before_all_that_the_facts_know_asks_the_live_index() -> None:
    """As openai/whisper of 2022: torch 1.13.1 is for CUDA 11.7, and of that CUDA the facts have 2.0 alone."""
    request = Request("linux-64", "3.10", "2.28", ("torch",), "11.7", exclude_newer="2022-12-31T00:00:00Z")
    found = choose(request)
    assert (found.variant, found.constraints, found.live) == ("cu117", (), True)
    assert choose(replace(request, exclude_newer="2023-06-01T00:00:00Z")).constraints == ("torch>=2.0.0,<=2.0.1",)
