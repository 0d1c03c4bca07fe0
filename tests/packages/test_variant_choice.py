"""Which variant a target gets. tests/resolve/uv/test_variants_like_uv.py holds the same to uv's own answers."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from support.variants import Properties, cuda, document

from envspec.packages.requirement import parse_requirement
from envspec.packages.tags import wheel_file_tags
from envspec.packages.variant_choice import Chosen, TargetMachine, choose
from envspec.packages.variant_markers import for_variant
from envspec.packages.variants import (
    InvalidVariants,
    Property,
    WheelOfVariant,
    read_name,
    read_property,
    read_variants,
    variants_file,
    with_build,
)

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
    variants: Mapping[str, Properties], target: TargetMachine, *namespaces: str, locked: str | None = None
) -> Chosen:
    read = read_variants(document(variants, namespaces or ("nvidia",)))
    return choose(read, variants, target, locked)


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
    assert chosen(TORCH, machine("13.0", "9.0"), locked="cu126").label == "cu126"
    assert chosen(TORCH, machine("12.6", "9.0"), locked="cu130").label == "cu126"


def test_a_plugin_that_is_not_known_fits_no_machine() -> None:
    evil = {"nvidia": {"requires": ["evil"], "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin"}}
    for providers in (evil, {"nvidia": {"requires": ["nvidia-variant-provider>=1"]}}):
        read = read_variants(document(TORCH, providers=providers))
        assert choose(read, TORCH, machine("13.0", "9.0")).label == "null"


def test_requirements_see_what_any_gpu_supports() -> None:
    found = chosen({"a": cuda("12.6", 70, 90, 120)}, machine("12.8", "7.0", "9.0")).compatible
    assert sorted(one.value for one in found) == ["12.6", "70_real", "90_real"]


# Labels in the names of wheels (PEP 825).


@pytest.mark.parametrize(
    ("file", "plain", "label"),
    [
        ("a-1.0-py3-none-any.whl", "a-1.0-py3-none-any.whl", None),
        ("a-1.0-2-py3-none-any.whl", "a-1.0-2-py3-none-any.whl", None),
        ("a-1.0-py3-none-any-cu130.whl", "a-1.0-py3-none-any.whl", "cu130"),
        ("a-1.0-2-py3-none-any-x86_64_v3.openblas.whl", "a-1.0-2-py3-none-any.whl", "x86_64_v3.openblas"),
        ("a-1.0-py3-none-any-null.whl", "a-1.0-py3-none-any.whl", "null"),
        ("a-1.0-py3-none-any-CU130.whl", "a-1.0-py3-none-any-CU130.whl", None),
        (f"a-1.0-py3-none-any-{'a' * 65}.whl", f"a-1.0-py3-none-any-{'a' * 65}.whl", None),
        ("a-1.0-py3-none-any-b-c.whl", "a-1.0-py3-none-any-b-c.whl", None),
        ("a-1.0.tar.gz", "a-1.0.tar.gz", None),
    ],
)
def test_the_label_stands_behind_the_tags(file: str, plain: str, label: str | None) -> None:
    assert read_name(file) == (plain, label)


def test_a_variant_has_the_tags_of_its_plain_wheel() -> None:
    assert wheel_file_tags("a-1.0-cp312-cp312-manylinux_2_28_x86_64-cu130.whl") == wheel_file_tags(
        "a-1.0-cp312-cp312-manylinux_2_28_x86_64.whl"
    )


def test_the_file_about_a_release_has_the_name_of_its_wheels() -> None:
    assert variants_file("my_lib-1.0-py3-none-any-cu130.whl") == "my_lib-1.0-variants.json"


@pytest.mark.parametrize("file", ["a-1.0-py3-none-any.whl", "a-1.0-7-py3-none-any.whl"])
def test_a_name_of_its_own_is_a_wheel_of_the_same_rank(file: str) -> None:
    from packaging.utils import parse_wheel_filename

    own, made = parse_wheel_filename(file), parse_wheel_filename(with_build(file, "0a1b"))
    assert (made[0], made[1], made[3]) == (own[0], own[1], own[3])
    assert made[2][:1] == (own[2] or (0, ""))[:1]


# Markers about variants are answered; what is left is a requirement that `packaging` reads.


CU130 = WheelOfVariant("cu130", compatible=frozenset({Property("nvidia", "sm_arch", "90_real")}))


@pytest.mark.parametrize(
    ("line", "of_cu130", "of_plain"),
    [
        ("a", "a", "a"),
        ('a ; variant_label == "cu130"', "a", None),
        ('a>=1 ; "cu130" == variant_label', "a>=1", None),
        ('a ; variant_label != "null"', "a", "a"),
        ('a ; variant_label == ""', None, "a"),
        ('a ; "nvidia" in variant_namespaces', "a", None),
        ('a ; "nvidia::sm_arch" in variant_features', "a", None),
        ('a ; "nvidia :: sm_arch :: 80_real" in variant_properties', None, None),
        ('a ; "nvidia" not in variant_namespaces', None, "a"),
        ('a ; "nvidia" in variant_namespaces and os_name == "nt"', 'a ; os_name == "nt"', None),
        ('a ; "nvidia" in variant_namespaces or os_name == "nt"', "a", 'a ; os_name == "nt"'),
        (
            'a[b] ; (os_name == "nt" or extra == "c") and ("nvidia" in variant_namespaces)',
            'a[b] ; os_name == "nt" or extra == "c"',
            None,
        ),
        (
            'a ; (os_name == "nt" or extra == "c") and python_version < "3" and variant_label != "x"',
            'a ; (os_name == "nt" or extra == "c") and python_version < "3"',
            'a ; (os_name == "nt" or extra == "c") and python_version < "3"',
        ),
    ],
)
def test_what_holds(line: str, of_cu130: str | None, of_plain: str | None) -> None:
    assert for_variant([line], CU130) == tuple(filter(None, [of_cu130]))
    assert for_variant([line], None) == tuple(filter(None, [of_plain]))
    for left in (of_cu130, of_plain):
        if left is not None:
            parse_requirement(left)


@pytest.mark.parametrize(
    "line",
    [
        "a ; variant_label ==",
        "a ; variant_label > '1'",
        "a ; 'x' in variant_label",
        f"a ; {'(' * 60}variant_label == 'x'{')' * 60}",
        "a ; variant_label == 'x' extra",
        f"a ; variant_label == '{'x' * 20_000}'",
        "a ; variant_label == $",
    ],
)
def test_what_is_no_marker_stays_for_its_readers_to_refuse(line: str) -> None:
    assert for_variant([line], CU130) == (line,)


# Files about variants: what is read, and what is refused.


def test_properties_stand_in_the_order_of_their_namespaces() -> None:
    variants = {"a": {"x86_64": {"level": ["v3", "v2"]}, "nvidia": {"sm_arch": ["90_real"]}}, "null": {}}
    read = read_variants(document(variants, ["x86_64", "nvidia"]))
    assert [str(one) for one in read.variants["a"]] == [
        "x86_64 :: level :: v2",
        "x86_64 :: level :: v3",
        "nvidia :: sm_arch :: 90_real",
    ]
    assert read.priorities == ("x86_64", "nvidia") and read.variants["null"] == ()


def test_providers_list_values_or_name_a_plugin() -> None:
    read = read_variants(document({"a": {"blas": {"lib": ["mkl"]}}}, ["blas", "nvidia"]))
    assert read.providers["blas"].lists == (("threads", ("omp", "none")), ("lib", ("openblas", "mkl")))
    assert read.providers["nvidia"].requires == ("nvidia-variant-provider",)


def _document(**changes: Any) -> bytes:
    whole = {**json.loads(document({"cu130": cuda("13.0", 90)})), **changes}
    return json.dumps({name: value for name, value in whole.items() if value is not None}).encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "isn't JSON"),
        (b"[]", "isn't a table"),
        (b"[" * 100_000, "isn't JSON"),
        (_document(**{"$schema": None}), "no schema"),
        (_document(**{"$schema": "https://example.org/v2.0.0.json"}), "none that envspec knows"),
        (_document(**{"default-priorities": {"namespace": []}}), "no namespace"),
        (_document(**{"default-priorities": {"namespace": ["nvidia", "nvidia"]}}), "twice"),
        (_document(**{"default-priorities": {"namespace": ["amd"]}}), "default-priorities"),
        (_document(variants={"CU130": cuda("13.0")}), "isn't a label"),
        (_document(variants={"\x1b[31m": cuda("13.0")}), "isn't a label"),
        (_document(variants={"null": cuda("13.0")}), "only null has none"),
        (_document(variants={"a": {}}), "only null has none"),
        (_document(variants={"a": {"nvidia": {"SM": ["90"]}}}), "isn't a feature"),
        (_document(variants={"a": {"nvidia": {"sm_arch": ["90 real"]}}}), "isn't a value"),
        (_document(variants={"a": {"nvidia": {"sm_arch": "90_real"}}}), "isn't a list"),
        (_document(variants={"a": {"nvidia": {"sm_arch": []}}}), "no value"),
        (_document(variants={"a": {"nvidia": {"sm_arch": [f"{n}_real" for n in range(300)]}}}), "properties"),
        (_document(variants={f"a{n}": cuda("13.0") for n in range(1001)}), "more than 1000 variants"),
        (_document(providers={"amd": {}}), "providers"),
        (_document(providers={"nvidia": {"static-properties": {"b": ["1"], "a": ["1"]}}}), "feature-order"),
        (b" " * ((1 << 20) + 1), "larger than 1 MiB"),
    ],
)
def test_what_is_none_is_refused_with_its_reason(content: bytes, reason: str) -> None:
    with pytest.raises(InvalidVariants, match=reason) as refused:
        read_variants(content)
    assert str(refused.value).isprintable() and len(str(refused.value)) < 200


def test_a_property_has_three_parts() -> None:
    assert read_property("nvidia::sm_arch ::  90_real") == Property("nvidia", "sm_arch", "90_real")
    assert read_property("nvidia :: sm_arch") is None
    assert read_property("nvidia :: sm_arch :: 90\nreal") is None
