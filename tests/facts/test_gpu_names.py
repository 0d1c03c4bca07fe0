"""GPU names as NVIDIA lists them, as drivers and hypervisors print them, and as people mistake them."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import tomli

from envspec.app.gpu_names import known_gpus
from envspec.base.errors import InputError
from envspec.facts import gpus

TABLE = tomli.loads(Path(__file__).with_name("gpu_names.toml").read_text(encoding="utf-8"))


def test_each_name_has_the_capability_that_its_source_gives() -> None:
    assert len(TABLE["names"]) >= 180
    assert {row["source"] for row in TABLE["names"]} == set(TABLE["sources"])
    found = {row["name"]: {gpu.capability for gpu in gpus.find(row["name"])} for row in TABLE["names"]}
    wrong = {row["name"]: found[row["name"]] for row in TABLE["names"] if found[row["name"]] != _expected(row)}
    assert wrong == {}


def test_every_name_of_nvidias_open_kernel_modules() -> None:
    lines = Path(__file__).with_name("openrm_names.txt").read_text(encoding="utf-8").splitlines()
    rows = [line.split(maxsplit=1) for line in lines if not line.startswith("#")]
    assert len(rows) == 235
    wrong = {name: found for capability, name in rows if (found := gpus.capability_of(name)) != capability}
    assert wrong == {}


@pytest.mark.parametrize("name", ["RTX 6000", "NVIDIA RTX-5000", "rtx4000"])
def test_a_name_of_several_generations_asks(name: str) -> None:
    assert gpus.find(name) == ()
    assert {gpus.capability_of(one) for one in gpus.nearest(name)} == {"7.5", "8.9", "12.0"}
    with pytest.raises(InputError, match="is the name of several GPUs") as error:
        known_gpus([name])
    assert error.value.hint and error.value.hint.startswith('name one: "Quadro RTX ')


@pytest.mark.parametrize("name", ["Quadro RTX 6000", "NVIDIA RTX 6000 Ada Generation", "RTX PRO 6000", "RTX 6000D"])
def test_a_name_of_one_generation_does_not(name: str) -> None:
    assert gpus.capability_of(name)


def _expected(row: dict[str, str]) -> set[str]:
    return {row["capability"]} if "capability" in row else set()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("H1000", ("H100", "H800", "H200")),
        ("hoper", ("hopper",)),
        ("RTX 5900", ("RTX 5090", "RTX 5080", "RTX 5070")),
        ("Jetson Orin Mega", ("Jetson Orin Nano", "Jetson Orin NX", "Jetson AGX Orin")),
        ("foo", ()),
        ("MI300X", ()),
    ],
)
def test_the_nearest_names_are_of_the_same_class(name: str, expected: tuple[str, ...]) -> None:
    assert gpus.nearest(name) == expected


@pytest.mark.parametrize("name", ["A200", "L45", "V1000", "Xavierr", "Jetson Foo", "B2000", "GH2000"])
def test_a_class_is_never_taken_for_another(name: str) -> None:
    for near in gpus.nearest(name):
        assert gpus.names_jetson(near) is gpus.names_jetson(name)
        assert gpus.names_jetson(name) or near[:1] == name[:1]


@pytest.mark.parametrize(
    ("name", "maker"),
    [
        ("MI300X", "AMD"),
        ("gfx942", "AMD"),
        ("Radeon RX 7900 XTX", "AMD"),
        ("Intel Arc A770", "Intel"),
        ("Gaudi 3", "Intel"),
        ("mps", "Apple"),
        ("M3 Max", "Apple"),
        ("TPU v5e", "Google"),
        ("M60", None),
        ("M4000", None),
        ("H100", None),
        ("RTX 3090", None),
    ],
)
def test_other_makers(name: str, maker: str | None) -> None:
    assert gpus.other_maker(name) == maker


def test_no_product_of_nvidia_is_another_makers() -> None:
    assert [gpu.name for gpu in gpus.products() if gpus.other_maker(gpu.name)] == []


def test_an_unknown_name_is_not_compared_with_each_row() -> None:
    """A spec may have thousands of them."""
    steps = 0

    def line(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        steps += 1
        return line if frame.f_code.co_filename == gpus.__file__ else None

    names = [f"s{number}" for number in range(40)]
    for name in ("s", "rtx s", *names[:20]):
        assert not gpus.find(name) and gpus.nearest(name) is not None
    before = sys.gettrace()
    sys.settrace(line)
    try:
        for name in names[20:]:
            gpus.find(name)
            gpus.nearest(name)
    finally:
        sys.settrace(before)
    assert steps < 20 * len(gpus.products()) * 4
