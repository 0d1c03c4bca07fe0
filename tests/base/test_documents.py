"""Documents that others wrote: what can't be read is Unreadable, whatever the library would do with it."""

import re
from pathlib import Path

import pytest

import envspec
from envspec.base.documents import Unreadable, read_json, read_toml, read_yaml

DEEP = 100_000


@pytest.mark.parametrize("text", ["[" * DEEP, "- " * DEEP, "{a: " * DEEP, "? " * DEEP, "[" * DEEP + "]" * DEEP])
def test_yaml_of_any_depth_is_refused_before_the_stack_is_full(text: str) -> None:
    with pytest.raises(Unreadable, match="nested too deeply"):
        read_yaml(text)


def test_yaml_of_many_nodes_beside_each_other_is_not_deep() -> None:
    assert read_yaml("- [1, {a: [2]}]\n" * 1000) == [[1, {"a": [2]}]] * 1000


@pytest.mark.parametrize(("read", "text"), [(read_toml, "a = " + "[" * DEEP), (read_json, "[" * DEEP)])
def test_toml_and_json_of_any_depth_are_refused(read: object, text: str) -> None:
    with pytest.raises(Unreadable):
        read(text)  # type: ignore[operator]


def test_no_reader_trusts_packaging_to_raise_its_own_errors_alone() -> None:
    """`Version` raises a bare ValueError for a number too long for Python; InvalidVersion is a ValueError, too."""
    wrong = [
        f"{path.name}:{line}"
        for path in Path(envspec.__file__).parent.rglob("*.py")
        for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"except .*\b(InvalidVersion|InvalidSpecifier)\b", text)
    ]
    assert wrong == []
