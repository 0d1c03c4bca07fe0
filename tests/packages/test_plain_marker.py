"""Plain markers hold where `packaging` says that they hold, and are written as it writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.markers import Marker

from envspec.packages.marker_environment import PLATFORMS, marker_environment
from envspec.packages.plain_marker import plain_marker

WORDS = {
    "os_name": ("posix", "nt", "java"),
    "sys_platform": ("linux", "win32", "darwin", "emscripten"),
    "platform_machine": ("x86_64", "AMD64", "aarch64", "arm64"),
    "platform_system": ("Linux", "Windows", "Darwin"),
    "platform_python_implementation": ("CPython", "PyPy"),
    "implementation_name": ("cpython", "pypy"),
    "extra": ("css", "format-nongpl", "all"),
}
QUOTES = st.sampled_from("'\"")
TERMS = st.one_of(
    st.tuples(
        st.just("python_version"),
        st.sampled_from(("<", "<=", ">", ">=", "==", "!=")),
        st.sampled_from(("3.1", "3.9", "3.10", "3.11", "3.12", "03.11", "4.0")),
        QUOTES,
    ),
    st.sampled_from(sorted(WORDS)).flatmap(
        lambda name: st.tuples(st.just(name), st.sampled_from(("==", "!=")), st.sampled_from(WORDS[name]), QUOTES)
    ),
)


@given(
    terms=st.lists(TERMS, min_size=1, max_size=4),
    joint=st.sampled_from((" and ", " or ")),
    space=st.sampled_from(("", " ")),
    platform=st.sampled_from(PLATFORMS),
    python=st.sampled_from(("3.10", "3.11", "3.14")),
    extra=st.sampled_from(("", "css", "all")),
)
def test_it_agrees_with_packaging(
    terms: list[tuple[str, str, str, str]], joint: str, space: str, platform: str, python: str, extra: str
) -> None:
    text = joint.join(f"{name}{space}{op}{space}{quote}{value}{quote}" for name, op, value, quote in terms)
    plain, whole = plain_marker(text), Marker(text)
    environment = {**marker_environment(platform, python), "extra": extra}
    assert plain is not None
    assert plain.evaluate(environment) == whole.evaluate(environment)
    assert str(plain) == str(whole)


@pytest.mark.parametrize(
    "text",
    [
        'os_name == "nt" and extra == "a" or extra == "b"',
        '(os_name == "nt")',
        'python_version in "3.8 3.9"',
        'python_version < "3.11.2"',
        'python_version == "3.*"',
        'python_full_version < "3.11"',
        'platform_machine == "v1"',
        'platform_release > "5"',
        'extra == "Format_Nongpl"',
        '"linux" == sys_platform',
        "os_name == 'nt\"",
        'os_name == "nt" and',
        'python_version < "3.11" # and',
        "",
    ],
)
def test_other_markers_are_left_to_packaging(text: str) -> None:
    assert plain_marker(text) is None
