"""Whose content stands at a shared path of an image: the same as in an environment, whichever layer is above."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from support.installs import PYTHON, pip_pin
from support.packages import Dist, wheel

from envspec.image.layers import LayerInputs, layer_of, package_layers
from envspec.lock.model import LockedTarget, TargetInputs

SHARED = f"opt/env/lib/python{PYTHON}/site-packages/tests/__init__.py"


def layers(folder: Path, *dists: tuple[Dist, str]) -> dict[str, set[str]]:
    """The content of the shared path in each layer, with the layer's key; empty where it isn't there."""
    pins, wheels = [], {}
    for dist, requires in dists:
        pin = replace(pip_pin(dist), dependencies=(requires,) if requires else ())
        path = folder / dist.file
        path.write_bytes(dist.content)
        pins.append(pin)
        wheels[pin.index, dist.file] = path
    asked = tuple(pin.name for pin in pins)
    target = LockedTarget("t", TargetInputs("linux-64", PYTHON, "2.28", requirements=asked), tuple(pins))
    plan = cast("Any", SimpleNamespace(python=PYTHON, explicit=None))
    inputs = LayerInputs(plan, target, cast("Any", None), None, {}, {}, wheels)
    found = {}
    for layer in package_layers(inputs):
        there = [one.content for one in layer.entries() if one.path == SHARED and one.content]
        found[layer.name] = {layer.key, ""}
        if there:
            with there[-1]() as file:
                found[layer.name] = {layer.key, file.read().decode()}
    return found


def shared(name: str) -> Dist:
    return wheel(name, "1.0", files={"tests/__init__.py": name.encode()})


def test_a_layer_above_leaves_out_what_stays_in_one_below(tmp_path: Path) -> None:
    assert (layer_of("pip", "triton"), layer_of("pip", "low")) == ("torch", "rest")
    found = layers(tmp_path, (shared("low"), ""), (shared("triton"), "low"))
    assert "triton" in found["torch"] and "" in found["rest"]
    found = layers(tmp_path, (shared("low"), "triton"), (shared("triton"), ""))
    assert "triton" in found["torch"] and "low" in found["rest"]


def test_within_a_layer_the_last_one_stays_and_the_key_says_so(tmp_path: Path) -> None:
    one = layers(tmp_path, (shared("a"), "b"), (shared("b"), ""))["rest"]
    other = layers(tmp_path, (shared("a"), ""), (shared("b"), "a"))["rest"]
    assert "a" in one and "b" in other and not one & other
