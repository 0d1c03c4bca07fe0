"""Which variant a target gets. tests/resolve/uv/test_variants_like_uv.py holds the same to uv's own answers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from support.variants import Properties, cuda, document

from envspec.packages.variant_choice import Chosen, TargetMachine, choose
from envspec.packages.variants import read_variants

TORCH = {
    "null": {},
    "cu126": cuda("12.6", 50, 60, 70, 75, 80, 86, 90),
    "cu128": cuda("12.8", 70, 75, 80, 86, 90, 100, 120),
    "cu130": cuda("13.0", 75, 80, 86, 90, 100, 120),
}


def machine(cuda: str | None = None, *capabilities: str, **more: object) -> TargetMachine:
    platform = str(more.pop("platform", "linux-64"))
    return TargetMachine(platform, "3.12", "2.28", cuda, capabilities=capabilities, **more)  # type: ignore[arg-type]


def chosen(
    variants: Mapping[str, Properties], target: TargetMachine, *namespaces: str, kept: str | None = None
) -> Chosen:
    read = read_variants(document(variants, namespaces or ("nvidia",)))
    return choose(read, variants, target, kept)


@pytest.mark.parametrize(
    ("target", "label"),
    [
        (machine(), "null"),
        (machine("12.6", "7.0"), "cu126"),
        (machine("12.8", "8.0"), "cu128"),
        (machine("12.9", "8.9"), "cu128"),
        (machine("13.0", "9.0"), "cu130"),
        (machine("13.0", "7.0"), "cu128"),
        (machine("12.6", "12.0"), "null"),
        (machine("12.8"), "cu128"),
    ],
)
def test_the_newest_cuda_that_the_target_asks_for_and_its_gpu_has_code_in(target: TargetMachine, label: str) -> None:
    assert chosen(TORCH, target).label == label


def test_several_gpus_get_what_serves_all_and_each_is_told_of() -> None:
    variants = {"null": {}, "old": cuda("12.6", 70, 80), "new": cuda("12.8", 80, 90), "all": cuda("12.6", 70, 90)}
    both = chosen(variants, machine("12.8", "7.0", "9.0"))
    assert both.label == "all" and both.alone == (("7.0", "all"), ("9.0", "new"))
    assert chosen(variants, machine("12.8", "7.0", "12.0")).label == "null"
    without = {label: variants[label] for label in ("old", "new")}
    assert chosen(without, machine("12.8", "7.0", "9.0")) == Chosen(None, frozenset(), (("7.0", "old"), ("9.0", "new")))


def test_the_driver_counts_for_what_is_too_new_only() -> None:
    bounded = {"null": {}, "a": {"nvidia": {"cuda_version_upper_bound": ["13.0"]}}}
    assert chosen(bounded, machine("12.8", "9.0")).label == "a"
    assert chosen(bounded, machine("12.8", "9.0", driver_cuda="13.0")).label == "null"
    assert chosen(TORCH, machine("12.8", "9.0", driver_cuda="13.0")).label == "cu128"


@pytest.mark.parametrize(("cpu", "label"), [(None, "null"), ("x86-64-v2", "v2"), ("x86-64-v4", "v3")])
def test_processors(cpu: str | None, label: str) -> None:
    variants = {"null": {}, **{f"v{n}": {"x86_64": {"level": [f"v{n}"]}} for n in (2, 3)}}
    assert chosen(variants, machine(cpu=cpu), "x86_64").label == label
    assert chosen(variants, machine(cpu="armv9-a", platform="linux-aarch64"), "x86_64").label == "null"


@pytest.mark.parametrize(
    ("cpu", "label"), [(None, "base"), ("armv8.2-a", "v82"), ("armv9-a", "v82"), ("armv9.2-a", "v91")]
)
def test_arm_processors(cpu: str | None, label: str) -> None:
    values = {"base": "8a", "v82": "8.2a", "v91": "9.1a"}
    variants = {name: {"aarch64": {"version": [value]}} for name, value in values.items()}
    assert chosen(variants, machine(cpu=cpu, platform="linux-aarch64"), "aarch64").label == label


@pytest.mark.parametrize(
    ("torch", "label"), [("2.9.1", "t29"), ("2.8.0", "t28"), ("2.8", "t28"), ("2.8.1", "any2"), ("1.13.1", "null")]
)
def test_builds_against_another_package_s_version(torch: str, label: str) -> None:
    values = {"t29": "2.9", "t28": "2.8.0", "any2": "2"}
    built = {name: {"abi_dependency": {"torch": [value]}} for name, value in values.items()}
    target = machine(versions=(("torch", torch),))
    assert chosen({"null": {}, **built}, target, "abi_dependency").label == label
    assert chosen({"null": {}, **built}, machine(), "abi_dependency").label == "null"


def test_what_stays_stays_where_it_fits() -> None:
    assert chosen(TORCH, machine("13.0", "9.0"), kept="cu126").label == "cu126"
    assert chosen(TORCH, machine("12.6", "9.0"), kept="cu130").label == "cu126"


def test_a_plugin_that_is_not_known_fits_no_machine() -> None:
    evil = {"nvidia": {"requires": ["evil"], "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin"}}
    for providers in (evil, {"nvidia": {"requires": ["nvidia-variant-provider>=1"]}}):
        read = read_variants(document(TORCH, providers=providers))
        assert choose(read, TORCH, machine("13.0", "9.0")).label == "null"


def test_requirements_see_what_any_gpu_supports() -> None:
    found = chosen({"a": cuda("12.6", 70, 90, 120)}, machine("12.8", "7.0", "9.0")).compatible
    assert sorted(one.value for one in found) == ["12.6", "70_real", "90_real"]
