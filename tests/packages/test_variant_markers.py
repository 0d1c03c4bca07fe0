"""Markers about variants are answered; what is left is a requirement that `packaging` reads."""

from __future__ import annotations

import pytest

from envspec.packages.requirement import parse_requirement
from envspec.packages.variant_markers import for_variant
from envspec.packages.variants import Property, WheelOfVariant

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
