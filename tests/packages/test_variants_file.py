"""Files about variants: what is read, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.variants import PROVIDERS, SCHEMA, cuda, document

from envspec.packages.variants import InvalidVariants, Property, read_property, read_variants


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


def test_the_schema_is_the_one_that_this_was_written_for() -> None:
    assert "peps/825/v0.1.1" in SCHEMA and set(PROVIDERS) == {"nvidia", "x86_64", "aarch64", "blas"}
