"""Which licences are acceptable."""

import pytest
from hypothesis import given, strategies as st

from envspec.packages.licences import is_acceptable, is_same


@pytest.mark.parametrize(
    ("licence", "allow", "deny", "expected"),
    [
        ("MIT", ["MIT"], [], True),
        ("mit", ["MIT"], [], True),
        ("MIT License", ["MIT"], [], True),
        ("Apache License, Version 2.0", ["apache-2.0"], [], True),
        ("Apache 2.0", ["Apache 2.0"], [], True),
        ("BSD License", ["BSD-3-Clause"], [], False),
        ("BSD License", ["BSD License"], [], True),
        ("BSD License", ["BSD*"], [], True),
        ("BSD-3-Clause", ["MIT"], [], False),
        ("BSD-3-Clause", [], [], True),
        ("BSD-3-Clause", [], ["GPL-*"], True),
        ("GPL-3.0-only", [], ["GPL-*"], False),
        ("LGPL-3.0-only", [], ["GPL-*"], True),
        ("GNU General Public License v3 (GPLv3)", [], ["GPL-*"], False),
        ("GPL-3.0-only", ["GPL-3.0-only"], ["GPL-*"], False),
        ("MIT OR GPL-3.0-only", ["MIT"], ["GPL-*"], True),
        ("GPL-3.0-only OR AGPL-3.0-only", [], ["GPL-*", "AGPL-*"], False),
        ("MIT AND GPL-3.0-only", [], ["GPL-*"], False),
        ("MPL-2.0 AND MIT", ["MIT"], [], False),
        ("MPL-2.0 AND MIT", ["MIT", "MPL-2.0"], [], True),
        ("MIT OR Apache-2.0 AND GPL-2.0-only", ["MIT"], [], True),
        ("(MIT OR GPL-2.0-only) AND Zlib", ["MIT", "Zlib"], [], True),
        ("(MIT OR GPL-2.0-only) AND Zlib", ["MIT"], [], False),
        ("((MIT))", ["MIT"], [], True),
        ("Apache-2.0 WITH LLVM-exception", ["Apache-2.0"], [], True),
        ("Apache-2.0 WITH LLVM-exception", ["Apache-2.0 WITH LLVM-exception"], [], True),
        ("Apache-2.0 WITH LLVM-exception", ["LLVM-exception"], [], False),
        ("Apache-2.0 WITH LLVM-exception OR MIT", ["MIT"], [], True),
        ("NVIDIA Proprietary Software", ["NVIDIA Proprietary Software"], [], True),
        ("NVIDIA Proprietary Software", [], ["*proprietary*"], False),
        ("LicenseRef-NVIDIA-Proprietary", ["LicenseRef-NVIDIA-*"], [], True),
        ("(MIT", ["MIT"], [], False),
        ("MIT OR", ["MIT"], [], False),
        ("OR", ["MIT"], [], False),
        ("MIT)", ["MIT"], [], False),
        ("see LICENSE (in the archive)", ["see LICENSE (in the archive)"], [], True),
    ],
)
def test_verdicts(licence: str, allow: list[str], deny: list[str], expected: bool) -> None:
    assert is_acceptable(licence, allow, deny) is expected


names = st.sampled_from(["MIT", "Zlib", "GPL-3.0-only", "BSD License"])
expressions = st.recursive(
    names.filter(lambda name: " " not in name),
    lambda inner: st.tuples(inner, st.sampled_from([" OR ", " AND "]), inner).map(lambda t: f"({t[0]}{t[1]}{t[2]})"),
    max_leaves=5,
)


@given(expressions, st.sets(names), st.sets(names))
def test_expressions_are_boolean_algebra(expression: str, allow: set[str], deny: set[str]) -> None:
    """Held against Python's own `and` and `or`."""
    text = expression.replace(" OR ", " or ").replace(" AND ", " and ")
    for name in ("MIT", "Zlib", "GPL-3.0-only"):
        single = name not in deny and (not allow or name in allow)
        text = text.replace(name, str(single))
    assert is_acceptable(expression, sorted(allow), sorted(deny)) is eval(text)


# Two texts of one licence, and of two.


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
