"""Which pages are read ahead for a request: none that uv finds elsewhere, above all no private name on a public one."""

from __future__ import annotations

import pytest

from envspec.net.index_proxy.pages import Upstream
from envspec.resolve.pip.indexes import _asked_roots
from envspec.resolve.pip.request import Request

USUAL = Upstream("https://packages.example.org/simple")
REQUEST = Request(
    "linux-64",
    "3.12",
    "2.28",
    ("a", "mine @ https://files.example.org/mine-1.0-py3-none-any.whl", "checkout @ git+https://example.org/checkout"),
    sources=(("private", "team"),),
    provided=(("numpy", "2.0"),),
    overrides=("replaced==1", "elsewhere @ https://files.example.org/elsewhere-1.0-py3-none-any.whl"),
)


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("a", True),
        ("B.b[extra] >=1; python_version >= '3.9'", True),
        ("c; python_version < '3.9'", False),
        ("d; extra == 'test'", False),
        ("private>=1", False),
        ("numpy", False),
        ("Mine", False),
        ("checkout", False),
        ("replaced", False),
        ("elsewhere", False),
        ("torch", False),
        ("triton", False),
        ("e@https://files.example.org/e-1.0-py3-none-any.whl", False),
        ("no requirement", False),
    ],
)
def test_only_what_uv_asks_for_here(line: str, asked: bool) -> None:
    page = _asked_roots(REQUEST, (USUAL,)).page(line)
    assert (page is not None) is asked
    assert page is None or page[0] is USUAL
