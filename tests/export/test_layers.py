"""Which layer of an image a package lies in."""

import pytest
from msgspec.structs import replace
from recipe_plans import parsed

from envspec.export.pip_steps import LAYERS, layer_of, pip_steps
from envspec.lock.shared_paths import pip_order


@pytest.mark.parametrize(
    ("spec", "target"), [("mm-v2.9", "cu128-hopper"), ("hpc-v2.7", "cu126-ampere"), ("mm-v2.1", "cu118")]
)
def test_every_package_lies_in_a_layer_that_is_named(spec: str, target: str) -> None:
    locked = parsed(spec)[1].target(target)
    assert locked is not None
    assert {layer_of(pin) for pin in locked.pins} <= {*LAYERS}


def test_cudas_libraries_lie_apart_from_torch_and_its_compiler() -> None:
    locked = parsed("mm-v2.9")[1].target("cu128-hopper")
    assert locked is not None
    found: dict[str, set[str]] = {}
    for pin in locked.pins:
        found.setdefault(layer_of(pin), set()).add(pin.name)
    assert {"torch", "triton", "torchvision"} <= found["torch"] and found["source"] == {"deepspeed"}
    assert all(name.startswith(("nvidia-", "cuda-")) for name in found["nvidia"])


def test_what_overwrites_files_of_others_is_installed_in_a_later_run() -> None:
    spec, lock = parsed("mm-v2.9")
    target = lock.target("cu128-hopper")
    assert target is not None
    (all_of_rest,) = (step.packages for step, _ in pip_steps(spec, [target])[target.name] if step.group == "rest")
    low, middle, top = [name for name in pip_order(target) if name in all_of_rest][:3]
    over = {middle: (low,), top: (low, middle)}
    pins = tuple(replace(pin, overwrites=over.get(pin.name, ())) for pin in target.pins)
    changed = pip_steps(spec, [replace(target, pins=pins)])
    runs = [step.packages for step, _ in changed[target.name] if step.group == "rest"]
    assert runs[1:] == [(middle,), (top,)] and {*runs[0], middle, top} == {*all_of_rest}
