"""uv's chain of causes in one line."""

from __future__ import annotations

import pytest

from envspec.resolve.uv.errors import cause

CHAIN = """\
warning: slow
error: Failed to install cpython-3.12.14-linux-x86_64-gnu
  cause: Request failed after 3 retries
  cause: Failed to download https://mirror.example.org/20260814/cpython-3.12.14.tar.gz
  cause: error sending request
  cause: dns error:
         Name or service not known
"""


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            CHAIN,
            "Failed to install cpython-3.12.14-linux-x86_64-gnu: dns error: Name or service not known",
        ),
        ("error: Hash mismatch\n", "Hash mismatch"),
        ("killed\n", "killed"),
        ("", ""),
    ],
)
def test_the_first_link_and_the_last(said: str, told: str) -> None:
    assert cause(said) == told
