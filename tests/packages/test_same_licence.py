"""Two texts of one licence, and of two."""

from __future__ import annotations

import pytest

from envspec.packages.licences import is_same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("MIT", "MIT License"),
        ("mit", "The MIT License (MIT)"),
        ("Apache 2.0", "Apache-2.0"),
        ("BSD-2-Clause License", "BSD-2-Clause"),
        ("3-Clause BSD License", "bsd-3-clause"),
        ("Apache Software License", "Apache-2.0"),
        ("BSD License", "BSD-3-Clause"),
        ("BSD-2-Clause", "BSD License"),
        ("MIT OR Apache-2.0", "apache-2.0 OR (MIT)"),
        ("MIT AND (BSD-3-Clause AND Zlib)", "Zlib AND BSD-3-Clause AND MIT"),
        ("Apache Software License AND BSD License", "BSD-3-Clause AND Apache-2.0"),
        ("MIT License OR Apache License", "MIT OR Apache-2.0"),
        ("GPL-2.0+", "GPL-2.0-or-later"),
        ("LGPL-3.0", "LGPL-3.0-only"),
        ("Apache-2.0 WITH LLVM-exception", "apache-2.0 with llvm-exception"),
        ("NVIDIA  Proprietary Software", "NVIDIA Proprietary Software"),
    ],
)
def test_spellings(one: str, other: str) -> None:
    assert is_same(one, other) and is_same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("MIT", "AGPL-3.0-only"),
        ("BSD-2-Clause", "BSD-3-Clause"),
        ("GPL-2.0-only", "GPL-2.0-or-later"),
        ("MIT OR Apache-2.0", "MIT AND Apache-2.0"),
        ("BSD License AND MIT", "BSD-3-Clause"),
        ("Unlicense", "MIT"),
        ("BSD License AND GPL-2.0-only", "BSD-3-Clause AND AGPL-3.0-only"),
        ("Apache-2.0", "Apache-2.0 WITH LLVM-exception"),
        ("LicenseRef-Its-Own", "LicenseRef-Other"),
        ("", "MIT"),
        ("(" * 5000, "MIT"),
    ],
)
def test_two_licences(one: str, other: str) -> None:
    assert not is_same(one, other)
    assert not is_same(other, one)
    assert is_same(one, one)


def test_a_long_expression_takes_no_time() -> None:
    nested = " AND ".join(f"(MIT OR BSD-{number}-Clause)" for number in range(400))
    assert is_same(nested, nested + " ") and not is_same(nested, f"{nested} AND MIT")
