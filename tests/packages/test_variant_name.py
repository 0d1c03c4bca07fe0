"""Labels in the names of wheels (PEP 825)."""

from __future__ import annotations

import pytest

from envspec.packages.tags import wheel_file_tags
from envspec.packages.variant_name import read_name, variants_file, with_build


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
