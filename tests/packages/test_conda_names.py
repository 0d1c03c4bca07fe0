"""conda's names and PyPI's."""

import pytest

from envspec.packages.conda import pypi_names


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pytorch", ("torch",)),
        ("numpy", ("numpy",)),
        ("typing_extensions", ("typing-extensions",)),
        ("python-tzdata", ("tzdata",)),
        ("pyarrow-core", ("pyarrow",)),
        ("py-opencv", ("opencv-python",)),
        ("jaxlib", ("jaxlib",)),  # the table names a plugin that its CUDA build holds
        ("flit-core", ("flit-core",)),  # holds a copy of tomli
        ("nsight-compute", ("nsight-compute",)),  # holds a whole Python with pip
        ("libtorch", ()),
        ("tzdata", ()),
        ("python", ()),
        ("openssh", ()),
        ("ninja", ()),  # a program, which no importlib.metadata finds
        ("ninja-python", ("ninja",)),
    ],
)
def test_the_table(name: str, expected: tuple[str, ...]) -> None:
    assert pypi_names(name, ("python >=3.10",)) == expected


def test_purls_win_over_the_table() -> None:
    purls = ("pkg:pypi/Zope.Interface@7.0?x=1", "pkg:pypi/b", "pkg:github/c/d")
    assert pypi_names("numpy", (), purls) == ("b", "zope-interface")


def test_what_the_table_does_not_know_goes_by_its_own_name_if_it_is_python() -> None:
    assert pypi_names("brand_new.thing", ("python >=3.10", "numpy")) == ("brand-new-thing",)
    assert pypi_names("libbrandnew", ("libgcc >=13",)) == ()
