"""`envspec builds`: the builds of the tables, and with `--variants` a release's variant wheels on an index."""

from collections.abc import Iterator
from typing import Any

import pytest
from cli_project import Envspec, told_whole
from support.documents import valid
from support.index import Index
from support.packages import wheel
from support.variants import cuda, release

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
    words = ("torch", "--torch", "2.9.1", "--platform", "linux-64", "--gpu", "H100")
    assert told_whole("builds.txt", envspec("builds", *words))


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
        (
            ["torch", "--cuda", "10.2"],
            "--cuda: CUDA 10.2 is older than any that envspec knows (from 11.2)",
            "the next newer CUDA that envspec knows is 11.2",
        ),
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


VARIANTS = {
    "null": {},
    "cu126": cuda("12.6", 70, 90),
    "cu130": {"nvidia": {"cuda_version_lower_bound": ["13.0"], "sm_arch": ["90_real", "120_virtual"]}},
    "v3": {"x86_64": {"level": ["v3"]}},
}


@pytest.fixture
def index() -> Iterator[Index]:
    with Index() as index:
        tag = "cp312-cp312-manylinux_2_28_x86_64"
        index.add(*release("lib", "2.0", VARIANTS, namespaces=("nvidia", "x86_64"), tag=tag))
        index.add(*release("lib", "1.0", {"null": {}}), wheel("lib", "2.1rc1"), wheel("plain", "1.0"))
        yield index


def variants_found(envspec: Envspec, index: Index, *arguments: str) -> list[dict[str, Any]]:
    told = envspec("builds", "--variants", "--index", index.url, *arguments, "--json")
    assert (told.code, told.err) == (0, ""), told.err
    document = valid(told.out, "variants")
    rows: list[dict[str, Any]] = document["variants"]
    return rows


def test_a_table_of_variants(envspec: Envspec, index: Index) -> None:
    assert told_whole("builds-of-variants.txt", envspec("builds", "lib", "--variants", "--index", index.url))


def test_filters_of_variants(envspec: Envspec, index: Index) -> None:
    def labels(*arguments: str) -> list[str]:
        return [row["variant"] for row in variants_found(envspec, index, "lib", *arguments)]

    assert labels("--gpu", "V100") == ["cu126"]
    assert labels("--gpu", "H100", "--cuda", "12.8") == ["cu126"]
    assert labels("--cuda", "13.0") == ["cu130", "cu126"]
    assert labels("--cuda", "cpu") == ["v3", "null"]
    assert len(variants_found(envspec, index, "lib==1.0")) == 4, "py3-none-any, on four platforms"


def test_the_wheels_themselves_say_it_where_the_index_does_not(envspec: Envspec, index: Index) -> None:
    before = variants_found(envspec, index, "lib")
    index.remove(release("lib", "2.0", VARIANTS)[-1])
    assert variants_found(envspec, index, "lib") == before


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["plain"], 1, "plain 1.0 has no variants"),
        (["none"], 1, "has no none"),
        (["lib==3"], 1, "the index has no lib 3"),
        (["lib", "--gpu", "B200"], 1, "no variant of lib is like that"),
        (["lib==x"], 2, '"x" is not a version'),
        (["../lib"], 2, '"../lib" names no package'),
        (["lib", "--gpu", "V1000"], 2, "unknown GPU"),
    ],
)
def test_there_are_none(envspec: Envspec, index: Index, arguments: list[str], code: int, error: str) -> None:
    told = envspec("builds", "--variants", "--index", index.url, *arguments)
    assert (told.code, told.out) == (code, "") and error in told.err.splitlines()[0], told.err


def test_an_index_is_for_variants(envspec: Envspec, index: Index) -> None:
    told = envspec("builds", "torch", "--index", index.url)
    assert told.code == 2 and "--index is for --variants" in told.err
