"""From CUDA to the CPU, in every kind of lock and on every platform: by the facts of PyPI's and PyTorch's builds."""

from pathlib import Path

import pytest
from diff_samples import wheel
from foreign_reviews import Write, between, write as write

from envspec.lock.formats.foreign.read import sides
from envspec.lock.formats.foreign.selection import Wish
from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Lock, LockedTarget, SpecInputs, TargetInputs
from envspec.review.diff.review import review
from envspec.review.diff.rows import Review

CPU_BY_ITSELF = ("win-64", "linux-aarch64", "osx-arm64")
TAGS = {
    "linux-64": "manylinux_2_28_x86_64",
    "linux-aarch64": "manylinux_2_28_aarch64",
    "win-64": "win_amd64",
    "osx-arm64": "macosx_11_0_arm64",
}


def lock(platform: str, version: str, index: str) -> Side:
    inputs = TargetInputs(platform, "3.12", "2.28" if "linux" in platform else None, requirements=("torch",))
    torch = wheel("torch", version, index=index, direct=True)
    return Side(version, Lock("demo", SpecInputs(), (LockedTarget("a", inputs, (torch,)),)))


def gpu(found: Review) -> list[tuple[str, str]]:
    return [(fact.risk, fact.code) for fact in found.gpu if fact.code in ("cuda-to-cpu", "cpu-to-cuda", "cuda-moved")]


HIGH = [("high", "cuda-to-cpu")]


@pytest.mark.parametrize("platform", CPU_BY_ITSELF)
@pytest.mark.parametrize(
    ("version", "index"), [("2.8.0", "pypi"), ("2.8.0+cpu", "pytorch/cpu"), ("2.8.0", "pytorch/cpu"), ("2.9.0", "pypi")]
)
def test_of_a_lock(platform: str, version: str, index: str) -> None:
    found = review(lock(platform, "2.8.0+cu128", "pytorch/cu128"), lock(platform, version, index))
    assert (gpu(found), found.risk) == (HIGH, "high")


def test_a_build_for_one_architecture_is_one_for_its_cuda() -> None:
    found = review(lock("linux-64", "2.8.0+cu128.sm120", "own"), lock("linux-64", "2.8.0+cpu", "pytorch/cpu"))
    assert gpu(found) == HIGH


def test_on_linux_it_is_a_build_for_cuda() -> None:
    assert gpu(review(lock("linux-64", "2.8.0+cu128", "pytorch/cu128"), lock("linux-64", "2.8.0", "pypi"))) == []


def file(name: str, version: str, platform: str) -> str:
    return f"{name}-{version}-cp312-cp312-{TAGS[platform]}.whl"


UV = """\
version = 1
revision = 3
requires-python = ">=3.12"
{head}
[[package]]
name = "demo"
version = "0.1.0"
source = {{ virtual = "." }}
dependencies = [{{ name = "torch" }}]

[[package]]
name = "torch"
version = "{version}"
source = {{ registry = "{registry}" }}
wheels = [
{wheels}
]
"""
PYTORCH = "https://download.example.org/whl/{}"
PYPI = "https://mirror.example.org/pypi/simple"


def uv_lock(version: str, registry: str, platforms: tuple[str, ...] = tuple(TAGS), head: str = "") -> str:
    hashes = (f"sha256:{abs(hash((version, registry, p))):064x}"[:71] for p in platforms)
    wheels = "\n".join(
        f'    {{ url = "https://files.example.org/{file("torch", version, p)}", hash = "{digest}", size = 9 }},'
        for p, digest in zip(platforms, hashes, strict=True)
    )
    return UV.format(version=version, registry=registry, wheels=wheels, head=head)


def test_of_uv_locks(write: Write) -> None:
    old = write("old/uv.lock", uv_lock("2.8.0+cu128", PYTORCH.format("cu128")))
    new = write("new/uv.lock", uv_lock("2.8.0", PYPI))
    (fact,) = (fact for fact in between(old, new).gpu if fact.code == "cuda-to-cpu")
    assert (fact.risk, set(fact.targets)) == ("high", {"osx-arm64", "win-64"}), "PyPI's is for CUDA on linux-64"


@pytest.mark.parametrize("platform", CPU_BY_ITSELF)
@pytest.mark.parametrize(
    "old",
    [
        "torch==2.8.0+cu128\n",
        "torch @ https://download.example.org/whl/cu128/torch-2.8.0%2Bcu128-cp312-cp312-win_amd64.whl\n",
    ],
)
def test_of_requirements(write: Write, platform: str, old: str) -> None:
    files = write("old.txt", old), write("new.txt", "torch==2.8.0\n")
    found = review(*sides(*files, Wish(platforms=(platform,), python="3.12")))
    assert (gpu(found), found.risk) == (HIGH, "high")


PIXI = """\
version: 6
environments:
  default:
    channels:
    - url: https://channels.example.org/conda-forge/
    packages:
      {platform}:
      - pypi: {url}
packages:
- pypi: {url}
  name: torch
  version: {version}
  sha256: {digest}
"""


@pytest.mark.parametrize("platform", CPU_BY_ITSELF)
def test_of_pixi_locks(write: Write, platform: str) -> None:
    paths: list[Path] = []
    files = "https://files.example.org/packages/aa/bb/" + "c" * 60
    for version, base in (("2.8.0+cu128", PYTORCH.format("cu128")), ("2.8.0", files)):
        url = f"{base}/{file('torch', version, platform)}"
        text = PIXI.format(platform=platform, url=url, version=version, digest=version[-1] * 8 + "ab" * 28)
        paths.append(write(f"{len(version)}/pixi.lock", text))
    assert gpu(between(*paths)) == HIGH


def test_between_a_uv_lock_and_requirements(write: Write) -> None:
    old = write("uv.lock", uv_lock("2.8.0+cu128", PYTORCH.format("cu128")))
    new = write("requirements.txt", "torch==2.8.0\n")
    found = review(*sides(old, new, Wish(platforms=("win-64",))))
    assert (gpu(found), found.risk) == (HIGH, "high")


# Platforms that a universal file isn't for.


def seen(old: Path, new: Path, wish: Wish | None = None) -> tuple[list[str], Review]:
    pair = sides(old, new, wish) if wish else sides(old, new)
    return [target.name for target in pair[1].lock], review(*pair)


@pytest.mark.parametrize(
    ("marker", "platforms"),
    [
        ("sys_platform == 'darwin'", ["osx-arm64"]),
        ("sys_platform == 'linux'", ["linux-64"]),
        ("sys_platform != 'win32'", ["linux-64", "osx-arm64"]),
    ],
)
def test_supported_markers_say_where_a_uv_lock_counts(write: Write, marker: str, platforms: list[str]) -> None:
    head = f'supported-markers = [\n    "{marker}",\n]\n'
    old = write("old/uv.lock", uv_lock("2.8.0", PYPI, head=head))
    new = write("new/uv.lock", uv_lock("2.9.0", PYPI, head=head))
    where, found = seen(old, new)
    assert where == platforms and [len(row.moves) for row in found.rows] == [1]
    assert found.chosen[0].startswith(f"looked at on {', '.join(platforms)} with")


def test_platforms_without_any_wheel_make_no_rows(write: Write) -> None:
    old = write("old/uv.lock", uv_lock("2.8.0+cu126", PYTORCH.format("cu126"), ("linux-64", "win-64")))
    new = write("new/uv.lock", uv_lock("2.8.0+cu128", PYTORCH.format("cu128"), ("linux-64", "win-64")))
    where, found = seen(old, new)
    assert where == ["linux-64", "win-64"]
    assert found.settings == () and len(found.rows) == 1 and found.rows[0].moves[0].targets == ()


def test_a_platform_that_loses_its_wheels_is_told(write: Write) -> None:
    old = write("old/uv.lock", uv_lock("2.8.0", PYPI))
    new = write("new/uv.lock", uv_lock("2.8.0+cu128", PYTORCH.format("cu128"), ("linux-64", "win-64")))
    where, found = seen(old, new)
    assert where == ["linux-64", "win-64"] and found.went == ("osx-arm64",)


def test_a_file_without_any_wheel_hides_nothing(write: Write) -> None:
    """With a file that fits nowhere nothing is left out: a reviewer must see what it asks for."""
    old = write("old/uv.lock", uv_lock("2.8.0", PYPI))
    new = write("new/uv.lock", uv_lock("2.9.0", PYPI, head="supported-markers = [\"sys_platform == 'aix'\"]\n"))
    where, found = seen(old, new)
    assert len(where) == 3 and [row.name for row in found.rows] == ["torch"]


def test_who_names_a_platform_sees_it(write: Write) -> None:
    head = "supported-markers = [\"sys_platform == 'darwin'\"]\n"
    old = write("old/uv.lock", uv_lock("2.8.0", PYPI, head=head))
    where, _ = seen(old, old, Wish(platforms=("linux-64",)))
    assert where == ["linux-64"]
