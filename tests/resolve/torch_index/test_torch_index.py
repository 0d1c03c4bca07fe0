"""Where the torch family comes from: the table of docs/resolution.md#which-torch, judged on the facts that ship."""

import pytest
from packaging.requirements import Requirement

from envspec.base.errors import Infeasible
from envspec.facts import torch_builds
from envspec.resolve.pip.request import Request
from envspec.resolve.torch_index.choice import TorchIndex, choose, index_builds


def request(*requirements: str, cuda: str | None, platform: str = "linux-64", python: str = "3.12") -> Request:
    glibc = "2.28" if platform.startswith("linux") else None
    return Request(platform, python, glibc, requirements, cuda=cuda)


@pytest.mark.parametrize(
    ("requirement", "cuda", "platform", "python", "variant"),
    [
        ("torch==2.9.*", "12.6", "linux-64", "3.12", "cu126"),
        ("torch==2.9.*", "13.0", "linux-64", "3.12", "cu130"),
        ("torch==2.9.*", "12.8", "linux-aarch64", "3.12", "cu128"),
        ("torch==2.9.*", None, "linux-64", "3.12", "cpu"),
        ("torch==2.6.*", "12.6", "linux-64", "3.11", "cu126"),
        ("torch==2.6.*", "11.8", "linux-64", "3.11", "cu118"),
        ("torch==2.1.0", "11.8", "linux-64", "3.10", "cu118"),
        ("torch", None, "linux-64", "3.12", "cpu"),
        ("numpy", "12.6", "linux-64", "3.12", "cu126"),
        ("numpy", None, "linux-64", "3.12", "cpu"),
    ],
)
def test_from_the_pytorch_index(requirement: str, cuda: str | None, platform: str, python: str, variant: str) -> None:
    assert choose(request(requirement, cuda=cuda, platform=platform, python=python)) == TorchIndex(variant)


@pytest.mark.parametrize(
    ("requirement", "cuda", "python", "admitted", "refused"),
    [
        ("torch==2.9.*", "12.8", "3.12", ("2.9.0", "2.9.1"), ("2.8.0+cu126", "2.6.0", "2.12.0")),
        ("torch==2.6.*", "12.4", "3.11", ("2.6.0",), ("2.9.1",)),
        ("torch==2.1.0", "12.1", "3.10", ("2.1.0",), ("2.6.0",)),
    ],
)
def test_from_pypi_where_its_default_build_fits(
    requirement: str, cuda: str, python: str, admitted: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    index = choose(request(requirement, cuda=cuda, python=python))
    assert index.variant is None and not index.live
    (constraint,) = map(Requirement, index.constraints)
    assert constraint.name == "torch"
    assert [v for v in admitted if not constraint.specifier.contains(v)] == []
    assert [v for v in refused if constraint.specifier.contains(v)] == []


@pytest.mark.parametrize("cuda", ["11.8", "12.1", "12.4", "12.6", "12.8", "13.0", "13.2"])
@pytest.mark.parametrize("platform", ["linux-64", "linux-aarch64"])
def test_a_constraint_admits_no_known_release_of_another_build(cuda: str, platform: str) -> None:
    """Whatever PyPI's torch is locked to under the constraint, its default build has the asked CUDA."""
    for python in ("3.10", "3.12"):
        index = choose(request("numpy", cuda=cuda, platform=platform, python=python))
        for text in index.constraints:
            admitted = [r.version for r in torch_builds.releases() if Requirement(text).specifier.contains(r.version)]
            assert admitted
            assert {torch_builds.pypi_variant(v, platform) for v in admitted} == {torch_builds.variant_of(cuda)}


@pytest.mark.parametrize("platform", ["osx-arm64", "win-64"])
def test_cpu_builds_of_macos_and_windows_are_pypis(platform: str) -> None:
    assert choose(request("torch==2.9.*", cuda=None, platform=platform)) == TorchIndex(None)


def test_an_unknown_newer_release_asks_the_live_index() -> None:
    assert choose(request("torch==99.*", cuda="12.6")) == TorchIndex("cu126", live=True)
    assert choose(request("torch>=99", cuda="15.0")) == TorchIndex("cu150", live=True)


def test_refresh_asks_the_live_index() -> None:
    assert choose(request("torch==2.9.*", cuda="12.6"), refresh=True) == TorchIndex("cu126", live=True)
    assert choose(request("torch==2.9.*", cuda="12.8"), refresh=True).live


def test_a_known_release_without_that_cuda_is_infeasible() -> None:
    with pytest.raises(Infeasible, match=r"torch==2\.9\.\* for CUDA 11\.8 and Python 3\.12 on linux-64") as error:
        choose(request("torch==2.9.*", cuda="11.8"))
    assert [way.cuda for way in error.value.ways] == ["13.0", "12.9", "12.8"], "the newest that it has builds for"
    assert error.value.exit_code == 1


def test_a_python_without_wheels_is_infeasible() -> None:
    with pytest.raises(Infeasible, match=r"Python 3\.14"):
        choose(request("torch==2.1.0", cuda="11.8", python="3.14"))


def test_two_requirements_on_torch_both_count() -> None:
    with pytest.raises(Infeasible):
        choose(request("torch>=2.9", "torch<2.10", cuda="11.8"))
    assert choose(request("torch>=2.9", "torch<2.10", cuda="12.6")) == TorchIndex("cu126")


def test_a_local_version_asks_for_that_build() -> None:
    assert choose(request("torch==2.9.1+cu126", cuda="12.6")) == TorchIndex("cu126")
    with pytest.raises(Infeasible):
        choose(request("torch==2.9.1+cu126", cuda="13.0"))


def test_no_build_to_offer_leaves_the_judgement_to_the_guard() -> None:
    """PyTorch never built for CUDA 11.8 on aarch64. Whether anything pulls torch in is known after resolving only."""
    assert choose(request("accelerate", cuda="11.8", platform="linux-aarch64")) == TorchIndex(None)


def test_a_build_that_exists_without_its_files_among_the_facts_is_asked_for_live() -> None:
    assert choose(request("torch==2.11.0", cuda=None)) == TorchIndex("cpu", live=True)


def test_the_facts_are_looked_through_once() -> None:
    """A lock asks dozens of times which builds fit a target, and each look through hundreds of file names shows."""
    one = request("torch==2.9.*", cuda="12.6")
    assert index_builds(one, "cu126") is index_builds(request("numpy", cuda="12.6"), "cu126")
    assert index_builds(one, "cu126") != index_builds(request("torch", cuda="12.6", python="3.9"), "cu126")
