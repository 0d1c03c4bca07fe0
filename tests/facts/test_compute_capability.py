"""Which code runs on which GPU: PyTorch's own table, NVIDIA's words, and the copies that travel without envspec."""

from dataclasses import dataclass
from itertools import product

import pytest
from envspec_check.capability import covers as check_covers

from envspec.facts import gpus
from envspec.facts.compute_capability import (
    Architecture,
    can_translate,
    capability_of,
    covers,
    order,
    parse,
    ptx_runs,
    read_capability,
    sass_runs,
    sm_of,
)


@dataclass(frozen=True)
class Interval:
    """`_CompatInterval`: from a capability to the end of its major, but for some."""

    start: int
    exclude: frozenset[int] = frozenset()

    def __contains__(self, gpu: int) -> bool:
        return gpu // 10 == self.start // 10 and gpu >= self.start and gpu not in self.exclude


DEVICE_REQUIREMENT: dict[int, Interval | frozenset[int]] = {
    50: Interval(50, frozenset({53})),
    52: Interval(52, frozenset({53})),
    53: frozenset({53}),
    60: Interval(60, frozenset({62})),
    61: Interval(61, frozenset({62})),
    62: frozenset({62}),
    70: Interval(70, frozenset({72})),
    72: frozenset({72}),
    75: Interval(75),
    80: Interval(80, frozenset({87})),
    86: Interval(86, frozenset({87})),
    87: frozenset({87}),
    89: Interval(89),
    90: Interval(90),
    100: Interval(100, frozenset({101})),
    101: frozenset({101, 110}),
    103: Interval(103),
    110: frozenset({101, 110}),
    120: Interval(120),
    121: Interval(121),
}
"""Code -> the GPUs that run it: PyTorch 2.15.0, torch/cuda/__init__.py, DEVICE_REQUIREMENT, which begins with
`50: _CompatInterval(start=50, exclude={53})` and has `53: _CompatSet({53})`. Read in
torch-2.15.0-cp312-cp312-macosx_14_0_arm64.whl, sha256 593e5fd0c204284890d1c3dff643be34e549e1d24523e13402510f960d4da438.
"""

POST_JETSON_SBSA_UNIFICATION = DEVICE_REQUIREMENT | {70: Interval(70), 80: Interval(80), 86: Interval(86)}
"""The same from CUDA 13.2 on: DEVICE_REQUIREMENT_POST_JETSON_SBSA_UNIFICATION, "CUDA 13.2 allows SBSA binaries to run
on Jetson devices" (pytorch/pytorch#186285)."""

CODE = tuple(DEVICE_REQUIREMENT)
GPUS = (*CODE, 88)
ERAS = ("12.9", "13.2")


def by_pytorch(code: int, gpu: int, cuda: str) -> bool:
    return gpu in (POST_JETSON_SBSA_UNIFICATION if cuda == "13.2" else DEVICE_REQUIREMENT)[code]


@pytest.mark.parametrize("cuda", ERAS)
def test_machine_code_runs_where_pytorch_says(cuda: str) -> None:
    pairs = list(product(CODE, GPUS))
    assert len(pairs) == 420
    assert [
        (code, gpu)
        for code, gpu in pairs
        if sass_runs(Architecture(code), Architecture(gpu), cuda) is not by_pytorch(code, gpu, cuda)
    ] == []


@pytest.mark.parametrize(
    ("cuda", "runs"), [(None, False), ("12.9", False), ("13.0", True), ("13.2", True), ("14.0", True)]
)
def test_orin_takes_code_for_servers_from_cuda_13_on(cuda: str | None, runs: bool) -> None:
    """nvidia-holoscan/holohub#1687: torch 2.11.0+cu130, compiled for 8.0, passes on an Orin with JetPack 7.2."""
    assert covers(["8.0", "9.0"], "8.7", cuda) is runs


@pytest.mark.parametrize(
    ("built", "gpu", "sass", "ptx"),
    [
        # CUDA C++ Programming Guide, "Architecture-Specific Features": on exactly that capability
        ("sm_90a", "9.0", True, True),
        ("sm_90a", "10.0", False, False),
        ("sm_100a", "10.3", False, False),
        # "Family-Specific Features"; PTX ISA: sm_101f and sm_110f are of one family, and not of sm_100f's
        ("sm_100f", "10.0", True, True),
        ("sm_100f", "10.3", True, True),
        ("sm_103f", "10.0", False, False),
        ("sm_100f", "10.1", False, False),
        ("sm_101f", "11.0", True, True),
        ("sm_100f", "12.0", False, False),
        ("sm_120f", "12.1", True, True),
        # "PTX Compatibility": any that isn't older
        ("sm_50", "12.1", False, True),
        ("sm_80", "8.7", False, True),
        ("sm_110", "10.1", True, True),
        ("sm_90", "8.9", False, False),
    ],
)
def test_features_and_ptx(built: str, gpu: str, sass: bool, ptx: bool) -> None:
    assert sass_runs(read_capability(built), read_capability(gpu), "12.9") is sass
    assert ptx_runs(read_capability(built), read_capability(gpu)) is ptx


def test_a_list_covers_what_one_of_it_covers() -> None:
    assert covers(["9.0", "10.0"], "10.3", "12.9") and not covers([], "9.0", "12.9")
    assert can_translate(["9.0"], "12.0") and not can_translate(["12.0"], "9.0") and not can_translate([], "9.0")


@pytest.mark.parametrize("cuda", [None, "12.9", "13.0", "13.2"])
def test_the_smoke_check_has_the_same_rule(cuda: str | None) -> None:
    for number, feature, gpu in product(CODE, ("", "a", "f"), GPUS):
        built, own = Architecture(number, feature), Architecture(gpu)
        assert check_covers([f"sm_{built}"], own.sm, cuda) is sass_runs(built, own, cuda), (built, own)
        assert check_covers([f"compute_{built}"], own.sm, cuda) is ptx_runs(built, own), (built, own)
        if not feature:  # it reads capabilities too, as the preflight has them
            assert check_covers([built.capability], own.capability, cuda) is sass_runs(built, own, cuda)
            assert check_covers([f"compute_{built.capability}"], own.capability, cuda) is ptx_runs(built, own)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sm_90", Architecture(90)),
        ("SM_100F", Architecture(100, "f")),
        ("sm_90a", Architecture(90, "a")),
        ("sm90", Architecture(90)),
        ("compute_90", Architecture(90)),
        ("90", Architecture(90)),
        ("9.0", Architecture(90)),
        ("9.0a", Architecture(90, "a")),
        ("12.1", Architecture(121)),
        ("H100", None),
        ("sm_9", None),
        ("sm_90b", None),
        ("9", None),
        ("9.00", None),
        ("0.9", None),
        ("sm_90\n", None),
        ("٩.٠", None),
        ("", None),
    ],
)
def test_parse(text: str, expected: Architecture | None) -> None:
    assert parse(text) == expected


def test_spelling_goes_both_ways() -> None:
    for capability in gpus.capabilities():
        assert capability_of(sm_of(capability)) == capability
    assert sm_of("9.0") == "sm_90" and capability_of("sm_120") == "12.0" and capability_of("sm_90a") == "9.0"


@pytest.mark.parametrize("text", ["H100", "", "sm_9"])
def test_what_is_no_capability_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="isn't a compute capability"):
        read_capability(text)


def test_newer_ones_come_later() -> None:
    assert sorted(["12.1", "9.0", "10.0", "8.9", "sm_75"], key=order) == ["sm_75", "8.9", "9.0", "10.0", "12.1"]


def test_a_bare_number_names_no_gpu() -> None:
    """ "100" would be an H100 to whoever writes it, and 10.0 to the parser."""
    assert gpus.find("100") == () and gpus.find("sm_100")
