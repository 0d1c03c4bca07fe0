"""Packages that install the same modules; ROCm and XPU builds among the pins."""

import pytest
from test_pin_verdicts import codes, spec_of

from envspec.rules import wheel_code
from envspec.rules.pins import PinnedVersions, judge_pins
from envspec.rules.wheel_code import WheelBuild


@pytest.mark.parametrize(
    ("pins", "expected"),
    [
        ({"torch": "2.9.1+rocm6.4"}, ["unsupported-build"]),
        ({"torch": "2.9.1+xpu"}, ["unsupported-build"]),
        ({"torch": "2.9.1+mps"}, ["unsupported-build"]),
        ({"torchtext": "0.18.0", "torch": "2.9.1+cu128"}, ["built-for-another"]),
    ],
)
def test_pins(pins: dict[str, str], expected: list[str]) -> None:
    spec, target = spec_of("12.8", ("H100",))
    assert codes(judge_pins(spec, target, PinnedVersions(pins))) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"cv2/__init__.py": "1"}, {"cv2/__init__.py": "2"}, ["-same-modules"]),
        ({"cv2/__init__.py": "1"}, {"cv2/__init__.py": "1"}, []),
        ({"cv2/__init__.py": "1"}, {"cv3/__init__.py": "2"}, []),
        ({"../../../bin/cv": "1"}, {"../../../bin/cv": "2"}, ["~shared-path"]),
        ({"tests/__init__.py": "1"}, {"tests/__init__.py": "2"}, ["~shared-path"]),
        ({"cv2/__init__.py": "1"}, None, []),
    ],
)
def test_what_wheels_overwrite_of_each_other(
    one: dict[str, str], other: dict[str, str] | None, expected: list[str]
) -> None:
    spec, target = spec_of("12.8", ("H100",))
    read = {"cv": WheelBuild(paths=one), "cv-headless": WheelBuild(paths=other)}
    pins = {"cv": "1", "cv-headless": "1"}
    found = judge_pins(spec, target, PinnedVersions(pins, read=read, order=["cv-headless", "cv"]))
    assert codes(found) == expected
    for finding in found:
        place = next(iter(one)).removeprefix("../../../")
        said = f"{place} is in cv and cv-headless, with different content: cv's stays"
        assert said in finding.message


def test_the_locked_triton_decides_and_not_the_builds_own() -> None:
    spec, target = spec_of("13.0", ("B300",))
    found = judge_pins(spec, target, PinnedVersions({"torch": "2.9.1+cu130", "triton": "3.5.1"}))
    assert codes(found) == ["-triton-architecture"]
    remedy = found[0].tell_ways().remedy or ""
    assert 'write "torch==2.10.0"' in remedy and "TRITON_PTXAS_PATH" in remedy
    assert codes(judge_pins(spec, target, PinnedVersions({"torch": "2.9.1+cu130", "triton": "3.6.0"}))) == []
    assert codes(judge_pins(spec, target, PinnedVersions({"torch": "2.9.1+cu130", "triton": "4.0.0"}))) == [
        "~triton-newer-than-tables"
    ]


@pytest.mark.parametrize(
    ("cuda", "gpu", "known", "newer", "says"),
    [
        # what a release dropped stays away, what none had yet may have come
        ("12.8", "V100", "nvidia-cudnn-cu12==9.13.0.50", "error", "which 9.11.0.98 dropped"),
        ("13.0", "sm_110", "nvidia-cudnn-cu13==9.26.0.51", "warning", "the newest that envspec knows"),
    ],
)
def test_a_library_beyond_the_table(cuda: str, gpu: str, known: str, newer: str, says: str) -> None:
    spec, target = spec_of(cuda, (gpu,))
    name, _, version = known.partition("==")
    (old,) = judge_pins(spec, target, PinnedVersions({name: version}))
    (beyond,) = judge_pins(spec, target, PinnedVersions({name: "9.99.0.1"}))
    assert (old.severity, beyond.severity) == ("error", newer)
    assert says in beyond.message and old.bound == beyond.bound


def test_a_library_without_torch_is_bounded_itself() -> None:
    spec, target = spec_of("12.8", ("V100",), pip=("cupy-cuda12x",))
    (found,) = judge_pins(spec, target, PinnedVersions({"cupy-cuda12x": "13.6.0", "nvidia-cudnn-cu12": "9.99.0.1"}))
    assert [one.text for one in found.ways] == ['write "nvidia-cudnn-cu12<9.11.0.98"']
    assert found.bound == "nvidia-cudnn-cu12<9.11.0.98"


def test_a_neighbour_beyond_the_table_is_told() -> None:
    spec, target = spec_of("12.8", ("V100",))
    assert codes(judge_pins(spec, target, PinnedVersions({"torchcodec": "0.99.0"}))) == ["~neighbour-newer-than-tables"]


def test_conda_and_pip_have_a_program_of_one_name() -> None:
    """conda's ninja holds no distribution, so pip's comes beside it."""
    (told,) = wheel_code.overlap_problems(["a", "ninja"], {}, {"ninja": "h1", "python": "h2"})
    assert told.code == "shared-path" and told.message.startswith("ninja is from conda and from pip: ")
    # one whose paths were read is judged by them
    read = {wheel_code.conda_owner("ninja"): WheelBuild(paths={})}
    assert not [*wheel_code.overlap_problems(["a", "ninja"], read, {"ninja": "h1"})]


def test_what_condas_packages_overwrite_of_each_other_isnt_told() -> None:
    read = {wheel_code.conda_owner(name): WheelBuild(paths={"cv2/__init__.py": name}) for name in ("a", "b")}
    assert not [*wheel_code.overlap_problems(["cv"], read, {"a": "h1", "b": "h2"})]
    read["cv"] = WheelBuild(paths={"cv2/__init__.py": "cv"})
    (told,) = wheel_code.overlap_problems(["cv"], read, {"a": "h1", "b": "h2"})
    assert "is in a from conda and b from conda and cv, with different content: cv's stays" in told.message


def test_a_library_of_another_platforms_table_says_nothing_of_thor() -> None:
    pins = PinnedVersions({"nvidia-cudnn-cu13": "9.13.0.50"})
    arm = spec_of("13.0", ("Jetson AGX Thor",), pip=("nvidia-cudnn-cu13",), platform="linux-aarch64")
    assert "library-architecture" not in " ".join(codes(judge_pins(*arm, pins)))
