"""A base against a target: its Python, its C library, its CUDA and the GPUs of its torch, as far as it says them."""

import pytest
from msgspec.structs import replace

from envspec.rules.case import of_target
from envspec.rules.on_base import KnownBase, other_images, problems

BASE = KnownBase("3.12.3", "2.39", "13.0", "2.9.0a0+50eac811a6.nv25.09", "8.0 8.6 9.0 10.0 12.0+PTX")
H100 = of_target("linux-64", "3.12", "13.0", ["H100"], None, "2.28")


def test_a_base_that_fits() -> None:
    assert list(problems(H100, None, BASE)) == []
    assert list(problems(H100, ">=3.12.1", BASE)) == []
    assert list(problems(replace(H100, cuda=None, gpus=()), None, replace(BASE, cuda=None))) == []


@pytest.mark.parametrize(
    ("base", "severity", "code", "said", "way"),
    [
        ({"python": "3.13.1"}, "error", "base-unfit", "has Python 3.13.1, and the spec asks for 3.12", "3.13"),
        ({"glibc": "2.17"}, "error", "base-unfit", "has glibc 2.17, and the target is for 2.28", "2.17"),
        ({"cuda": "12.8"}, "error", "base-unfit", "has CUDA 12.8, and the target is for 13.0", "12.8"),
        ({"cuda": None}, "warning", "base-unknown", "doesn't say its CUDA", None),
        ({"glibc": None}, "warning", "base-unknown", "doesn't say its glibc", None),
        ({"architectures": ""}, "warning", "base-unknown", "for which GPUs its torch", None),
        ({"architectures": "nonsense"}, "warning", "base-unknown", "for which GPUs its torch", None),
        ({"architectures": "8.0 10.0"}, "error", "architecture-missing", "nothing of it runs on H100 (9.0)", None),
        ({"architectures": "8.0+PTX"}, "warning", "ptx-only", "of H100 (9.0) it has PTX alone", None),
        ({"torch": "2.9.0+cpu"}, "error", "cpu-build", "is a CPU build, and the target is for CUDA 13.0", "cpu"),
    ],
)
def test_a_base_that_does_not(
    base: dict[str, str | None], severity: str, code: str, said: str, way: str | None
) -> None:
    (found,) = problems(H100, None, replace(BASE, **base))
    assert (found.severity, found.code) == (severity, code) and said in found.message
    assert [one.python or one.glibc or one.cuda or (one.cpu and "cpu") for one in found.ways] == ([way] if way else [])


def test_a_patch_release_outside_of_the_range() -> None:
    (found,) = problems(H100, ">=3.12.5", BASE)
    assert "has Python 3.12.3, and the spec asks for >=3.12.5" in found.message


@pytest.mark.parametrize(
    ("python", "cuda", "glibc", "asked", "tags"),
    [
        ("3.12", "13.0", "2.28", [], "25.08, 25.09"),
        ("3.12", "13.0", "2.28", ["torch>=2.9", "einops"], "25.09"),
        ("3.12", "12.8", "2.39", ["torch"], "25.01, 25.03"),
        ("3.10", "12.5", "2.35", ["torch<2.5"], "24.07"),
        ("3.10", "12.5", "2.39", [], None),
        ("3.11", "13.0", "2.28", [], None),
    ],
)
def test_the_other_images_that_would_do(python: str, cuda: str, glibc: str, asked: list[str], tags: str | None) -> None:
    case = of_target("linux-64", python, cuda, ["H100"], None, glibc)
    said = other_images(case, None, BASE.torch, asked)
    assert said == (f"if another base will do, these of NVIDIA's images have it: {tags}" if tags else None)
    assert other_images(case, None, "2.9.0+cu130", asked) is None
