"""`envspec builds --variants`: the variant wheels of a release, as an index has them."""

from collections.abc import Iterator
from typing import Any

import pytest
from cli_project import Envspec
from support.documents import valid
from support.index import Index
from support.packages import wheel
from support.variants import cuda, release

pytest_plugins = ["cli_fixtures"]

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


def found(envspec: Envspec, index: Index, *arguments: str) -> list[dict[str, Any]]:
    told = envspec("builds", "--variants", "--index", index.url, *arguments, "--json")
    assert (told.code, told.err) == (0, ""), told.err
    document = valid(told.out, "variants")
    rows: list[dict[str, Any]] = document["variants"]
    return rows


def test_a_table(envspec: Envspec, index: Index) -> None:
    told = envspec("builds", "lib", "--variants", "--index", index.url)
    assert (
        told.out
        == """\
VERSION  VARIANT  CUDA  PLATFORM  PYTHON  ARCHITECTURES  PTX   DRIVER       NEEDS
2.0      cu130    13.0  linux-64  3.12    9.0            12.0  >=580.65.06
2.0      cu126    12.6  linux-64  3.12    7.0 9.0              >=525.60.13
2.0      v3             linux-64  3.12                                      x86_64 :: level :: v3
2.0      null           linux-64  3.12
"""
    ), told.err


def test_filters(envspec: Envspec, index: Index) -> None:
    def labels(*arguments: str) -> list[str]:
        return [row["variant"] for row in found(envspec, index, "lib", *arguments)]

    assert labels("--gpu", "V100") == ["cu126"]
    assert labels("--gpu", "H100", "--cuda", "12.8") == ["cu126"]
    assert labels("--cuda", "13.0") == ["cu130", "cu126"]
    assert labels("--cuda", "cpu") == ["v3", "null"]
    assert len(found(envspec, index, "lib==1.0")) == 4, "py3-none-any, on four platforms"


def test_the_wheels_themselves_say_it_where_the_index_does_not(envspec: Envspec, index: Index) -> None:
    before = found(envspec, index, "lib")
    index.remove(release("lib", "2.0", VARIANTS)[-1])
    assert found(envspec, index, "lib") == before


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
