"""`envspec builds`."""

# ruff: noqa: E501  (a table as it is printed)

from typing import Any

import pytest
from cli_project import Envspec
from support.documents import valid

from envspec.facts import conda_builds, torch_builds

pytest_plugins = ["cli_fixtures"]


def found(envspec: Envspec, *arguments: str) -> list[dict[str, Any]]:
    told = envspec("builds", *arguments, "--json")
    assert (told.code, told.err) == (0, "")
    document = valid(told.out, "builds")
    builds: list[dict[str, Any]] = document["builds"]
    return builds


@pytest.mark.slow
def test_all_of_them(envspec: Envspec) -> None:
    assert len(found(envspec, "torch")) == len(torch_builds.builds())
    assert len(found(envspec, "pytorch")) == len(conda_builds.builds())
    assert found(envspec, "torch", "--conda") == found(envspec, "pytorch")
    assert len(envspec("builds", "torch").out.splitlines()) == len(torch_builds.builds()) + 1


def test_a_table(envspec: Envspec) -> None:
    told = envspec("builds", "torch", "--torch", "2.9.1", "--platform", "linux-64", "--gpu", "H100")
    assert (
        told.out
        == """\
TORCH  CUDA  PLATFORM  PYTHON     ARCHITECTURES                  PTX  DRIVER       CUDNN      NCCL    TRITON  GLIBC  NOTE
2.9.1  12.6  linux-64  3.10-3.14  5.0 6.0 7.0 7.5 8.0 8.6 9.0         >=525.60.13  9.10.2.21  2.27.5  3.5.1   2.28
2.9.1  12.8  linux-64  3.10-3.14  7.0 7.5 8.0 8.6 9.0 10.0 12.0       >=525.60.13  9.10.2.21  2.27.5  3.5.1   2.28   PyPI's own
2.9.1  12.9  linux-64  3.10-3.14  7.0 7.5 8.0 8.6 9.0 10.0 12.0       >=525.60.13  9.10.2.21  2.27.5  3.5.1   2.28
2.9.1  13.0  linux-64  3.10-3.14  7.5 8.0 8.6 9.0 10.0 12.0           >=580.65.06  9.13.0.50  2.27.7  3.5.1   2.28
"""
    )


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--cuda", "12.6", "--gpu", "V100", "--torch", "2.9", "--platform", "linux-64"],
            ["2.9.0+cu126", "2.9.1+cu126"],
        ),
        (["--gpu", "RTX 5090", "--torch", "2.7", "--platform", "linux-64"], ["2.7.0+cu128", "2.7.1+cu128"]),
        (
            ["--gpu", "V100", "--gpu", "B200", "--torch", "2.9.1", "--platform", "linux-64"],
            ["2.9.1+cu128", "2.9.1+cu129"],
        ),
        (["--cuda", "cpu", "--torch", "2.9.1", "--platform", "osx-arm64"], ["2.9.1+cpu"]),
        (["--cuda", "12.6.3", "--torch", "2.6", "--platform", "linux-64"], ["2.6.0+cu126"]),
        (["--python", "3.8", "--torch", "2.4.1", "--cuda", "12.1", "--platform", "linux-64"], ["2.4.1+cu121"]),
    ],
)
def test_filters(envspec: Envspec, arguments: list[str], expected: list[str]) -> None:
    assert [f"{build['version']}+{build['variant']}" for build in found(envspec, "torch", *arguments)] == expected


def test_a_gpu_has_no_cpu_build(envspec: Envspec) -> None:
    assert all(build["cuda"] for build in found(envspec, "torch", "--gpu", "A100"))


def test_a_prefix_is_one_of_numbers(envspec: Envspec) -> None:
    assert {build["version"] for build in found(envspec, "torch", "--torch", "2.1")} == {"2.1.0", "2.1.1", "2.1.2"}


def test_conda_runs_with_a_newer_minor(envspec: Envspec) -> None:
    builds = found(envspec, "pytorch", "--cuda", "12.8", "--torch", "2.7.1", "--platform", "linux-64")
    assert [build["variant"] for build in builds] == ["cuda126"]


def test_ptx_is_told(envspec: Envspec) -> None:
    builds = found(envspec, "pytorch", "--gpu", "B200", "--torch", "2.6.0", "--platform", "linux-64")
    assert [(build["variant"], build["ptx_only"]) for build in builds] == [("cuda126", True)]
    assert "by PTX only" in envspec("builds", "pytorch", "--gpu", "B200", "--torch", "2.6.0").out


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (
            ["--torch", "2.9", "--cuda", "11.8"],
            "no build of torch 2.9 with CUDA 11.8",
            "torch 2.9 has no CUDA 11.8 build. Nearest: torch 2.7.1 with CUDA 11.8",
        ),
        (
            ["--gpu", "V100", "--cuda", "13.0"],
            "no build of torch with CUDA 13.0 on V100",
            "CUDA 13.0 has dropped Volta",
        ),
        (["--python", "3.7"], "no build of torch with Python 3.7", ""),
        (["--cuda", "99.0"], "no build of torch with CUDA 99.0", ""),
        (["--conda", "--cuda", "11.8", "--torch", "2.9.1"], "no build of torch 2.9.1 with CUDA 11.8", "conda-forge's "),
    ],
)
def test_none_is_like_that(envspec: Envspec, arguments: list[str], error: str, hint: str) -> None:
    told = envspec("builds", "torch", *arguments)
    assert (told.code, told.out) == (1, "")
    assert told.err.startswith(f"error: {error}\nhint: {hint}")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["numpy"], 'envspec has no table of builds for "numpy"', "the tables hold torch (wheels)"),
        (["torch", "--gpu", "V1000"], '--gpu: unknown GPU "V1000"', 'did you mean "V100"?'),
        (["torch", "--cuda", "twelve"], '--cuda: "twelve" is not a version', "for example 12.6"),
        (
            ["torch", "--cuda", "12.7"],
            "--cuda: there is no CUDA 12.7",
            "the next newer CUDA that envspec knows is 12.8",
        ),
        (["torch", "--cuda", "9.0"], "--cuda: there is no CUDA 9.0", "the next newer CUDA that envspec knows is 11.2"),
        (["torch", "--torch", "new"], '--torch: "new" is not a version', "for example 2.9.1"),
        (
            ["torch", "--torch", "99"],
            "torch 99 is newer than envspec's tables",
            "read its wheel: envspec inspect WHEEL",
        ),
        (["torch", "--torch", "2.9.7"], "envspec's tables have no torch 2.9.7", "did you mean 2.9.1?"),
        (["torch", "--python", "2.7"], '--python: "2.7" is not a version', "for example 3.12"),
        (["torch", "--platform", "linux"], "invalid value for '--platform'", "`envspec builds --help`"),
    ],
)
def test_wrong_input(envspec: Envspec, arguments: list[str], error: str, hint: str) -> None:
    told = envspec("builds", *arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"error: {error}")
    assert f"hint: {hint}" in told.err
