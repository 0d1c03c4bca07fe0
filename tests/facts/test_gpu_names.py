"""GPU names as NVIDIA lists them, as drivers and hypervisors print them, and as people mistake them."""

from pathlib import Path

import pytest
import tomli

from envspec.facts import gpus

TABLE = tomli.loads(Path(__file__).with_name("gpu_names.toml").read_text(encoding="utf-8"))


def test_each_name_has_the_capability_that_its_source_gives() -> None:
    assert len(TABLE["names"]) >= 180
    assert {row["source"] for row in TABLE["names"]} == set(TABLE["sources"])
    found = {row["name"]: {gpu.capability for gpu in gpus.find(row["name"])} for row in TABLE["names"]}
    wrong = {row["name"]: found[row["name"]] for row in TABLE["names"] if found[row["name"]] != _expected(row)}
    assert wrong == {}


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
