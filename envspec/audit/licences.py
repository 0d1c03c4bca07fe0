"""Is a licence acceptable? SPDX expressions are judged part by part; other words count as a licence of that name."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

_TOKEN = re.compile(r"\s*([()]|[^\s()]+)")

# Words for a licence that can mean only one, as packages write them in METADATA and PyPI's classifiers have them. What
# leaves a choice ("BSD License" may be any of four) isn't here.
_MEANT = {
    "MIT": ("mit license", "the mit license", "mit licence", "expat", "the mit license (mit)", "mit license (mit)"),
    "Apache-2.0": (
        "apache 2",
        "apache 2.0",
        "apache-2",
        "apache2",
        "apache 2.0 license",
        "apache license 2.0",
        "apache license, version 2.0",
        "apache license version 2.0",
        "apache software license 2.0",
        "apache license v2.0",
    ),
    "BSD-3-Clause": (
        "bsd-3",
        "bsd 3-clause",
        "3-clause bsd",
        "3-clause bsd license",
        "bsd 3-clause license",
        "new bsd",
    ),
    "BSD-2-Clause": ("bsd-2", "bsd 2-clause", "2-clause bsd", "bsd 2-clause license", "simplified bsd"),
    "MPL-2.0": ("mpl 2.0", "mozilla public license 2.0", "mozilla public license 2.0 (mpl 2.0)"),
    "ISC": ("isc license", "isc license (iscl)"),
    "Zlib": ("zlib license", "zlib/libpng license"),
    "Unlicense": ("the unlicense", "the unlicense (unlicense)"),
    "GPL-2.0-only": ("gnu general public license v2 (gplv2)", "gplv2"),
    "GPL-2.0-or-later": ("gnu general public license v2 or later (gplv2+)", "gplv2+"),
    "GPL-3.0-only": ("gnu general public license v3 (gplv3)", "gplv3"),
    "GPL-3.0-or-later": ("gnu general public license v3 or later (gplv3+)", "gplv3+"),
    "LGPL-2.1-or-later": ("lgplv2.1+",),
    "LGPL-3.0-only": ("gnu lesser general public license v3 (lgplv3)", "lgplv3"),
    "LGPL-3.0-or-later": ("gnu lesser general public license v3 or later (lgplv3+)", "lgplv3+"),
    "AGPL-3.0-only": ("gnu affero general public license v3", "agplv3"),
    "AGPL-3.0-or-later": ("gnu affero general public license v3 or later (agplv3+)", "agplv3+"),
}
_IDENTIFIERS = {word: identifier for identifier, words in _MEANT.items() for word in words}


def is_acceptable(licence: str, allow: Sequence[str], deny: Sequence[str]) -> bool:
    """Whether one may take a package under this licence.

    `A OR B` is acceptable when either is, `A AND B` when both are, `A WITH exception` as itself or as A. A single
    licence is acceptable when `deny` doesn't name it, and `allow` does or is empty. Names are compared without regard
    to case, `*` in a list stands for anything, and a list may have the words of the metadata or the SPDX identifier
    that they mean.
    """

    def single(name: str) -> bool:
        names = {name.lower(), _IDENTIFIERS.get(name.lower(), name).lower()}
        # no right that an exception gives is lost by naming the licence alone
        names |= {one.partition(" with ")[0] for one in names}
        return not _listed(names, deny) and (not allow or _listed(names, allow))

    tokens = _TOKEN.findall(licence)
    try:
        accepted, rest = _either(tokens, single)
    except ValueError:
        return single(licence.strip())
    return accepted if not rest else single(licence.strip())


def _listed(names: set[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern.lower()) for name in names for pattern in patterns)


def _either(tokens: list[str], single: Callable[[str], bool]) -> tuple[bool, list[str]]:
    """`expression = term {OR term}`: the verdict and the tokens left. Raises ValueError for another grammar."""
    accepted, rest = _all(tokens, single)
    while rest and rest[0].upper() == "OR":
        other, rest = _all(rest[1:], single)
        accepted = accepted or other
    return accepted, rest


def _all(tokens: list[str], single: Callable[[str], bool]) -> tuple[bool, list[str]]:
    """`term = part {AND part}`."""
    accepted, rest = _part(tokens, single)
    while rest and rest[0].upper() == "AND":
        other, rest = _part(rest[1:], single)
        accepted = accepted and other
    return accepted, rest


def _part(tokens: list[str], single: Callable[[str], bool]) -> tuple[bool, list[str]]:
    """`part = ( expression ) | licence [WITH exception]`."""
    if not tokens or tokens[0].upper() in ("OR", "AND", "WITH", ")"):
        raise ValueError
    if tokens[0] == "(":
        accepted, rest = _either(tokens[1:], single)
        if not rest or rest[0] != ")":
            raise ValueError
        return accepted, rest[1:]
    if len(tokens) > 2 and tokens[1].upper() == "WITH":
        return single(f"{tokens[0]} WITH {tokens[2]}"), tokens[3:]
    return single(tokens[0]), tokens[1:]
