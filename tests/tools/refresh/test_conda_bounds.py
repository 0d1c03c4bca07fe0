"""conda's match specs in the words of PEP 440."""

import pytest
from hypothesis import given, strategies as st
from packaging.specifiers import SpecifierSet

from tools.refresh.conda_bounds import Inexpressible, clauses, read_spec, specifier_text


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("numpy", ("numpy", "")),
        ("numpy *", ("numpy", "")),
        ("numpy >=1.19,<2.0a0", ("numpy", ">=1.19,<2")),
        ("numpy >=1.19, <3", ("numpy", ">=1.19,<3")),
        ("zarr<3", ("zarr", "<3")),
        ("pandas >=1.0,<1.6.0dev0", ("pandas", ">=1,<1.6")),
        ("semver >=2.13.0,<2.14.dev0", ("semver", ">=2.13,<2.14")),
        ("requests >=2.*", ("requests", ">=2")),
        ("h11 0.*", ("h11", "==0.*")),
        ("tokenizers 0.4.1", ("tokenizers", "==0.4.1")),
        ("tokenizers ==0.4.1", ("tokenizers", "==0.4.1")),
        ("setuptools !=65.0.*", ("setuptools", "!=65.0.*")),
        ("numpy =1.26", ("numpy", "==1.26.*")),
        ("nvidia-ml-py ~=12.0", ("nvidia-ml-py", "~=12.0")),
        ("numpy <=1.26.4", ("numpy", "<=1.26.4")),
        ("pytest >7,!=8.0", ("pytest", ">7,!=8.0")),
        ("typing_extensions >=3.10.0.0", ("typing_extensions", ">=3.10")),
    ],
)
def test_specs(spec: str, expected: tuple[str, str]) -> None:
    name, bound = read_spec(spec)
    assert (name, specifier_text(bound)) == expected


@pytest.mark.parametrize(
    "spec",
    [
        "pytorch 2.4.1 cuda118_*",
        "smopy 0.0.7|0.0.8",
        "numpy >=2.0.0rc1",
        "numpy ==2.0a0",
        "libfoo >=9e",
        "numpy >=1.2.*.3",
        "[version=1]",
        "numpy >=1,(<2|>3)",
        "",
    ],
)
def test_what_pep_440_has_no_words_for(spec: str) -> None:
    with pytest.raises(Inexpressible):
        read_spec(spec)


@given(st.text(alphabet="<>=!~,|.* 0123456789abrcdev", max_size=30))
def test_whatever_is_read_is_a_specifier(version: str) -> None:
    try:
        bound = clauses(version)
    except Inexpressible:
        return
    try:
        SpecifierSet(specifier_text(bound))
    except ValueError:
        assert "~=" in version  # PEP 440 wants two numbers there
