"""What a licence's text says: SPDX expressions part by part, and the identifiers that other words mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, TypeVar

Verdict = TypeVar("Verdict")

_Combine = Callable[[Verdict, Verdict], Verdict]

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


def identifier(name: str) -> str:
    """The SPDX identifier that the words for a single licence mean; the words themselves where they leave a choice."""
    return _IDENTIFIERS.get(name.lower(), name)


def judged(
    licence: str, single: Callable[[str], Verdict], either: _Combine[Verdict], both: _Combine[Verdict]
) -> Verdict:
    """What `single` says of each licence of an SPDX expression, combined by `either` for OR and `both` for AND.

    `A WITH exception` is a single licence. So is, as a whole, a text that is no expression.
    """
    try:
        found, rest = _Expression(single, either, both).read(_TOKEN.findall(licence))
    except (ValueError, RecursionError):
        return single(licence.strip())
    return single(licence.strip()) if rest else found


class _Expression(Generic[Verdict]):
    """The grammar. A rule takes tokens and gives its verdict and the tokens left; ValueError for another grammar."""

    def __init__(self, single: Callable[[str], Verdict], either: _Combine[Verdict], both: _Combine[Verdict]) -> None:
        self.single, self.either, self.both = single, either, both

    def read(self, tokens: list[str]) -> tuple[Verdict, list[str]]:
        """`expression = term {OR term}`."""
        found, rest = self._term(tokens)
        while rest and rest[0].upper() == "OR":
            other, rest = self._term(rest[1:])
            found = self.either(found, other)
        return found, rest

    def _term(self, tokens: list[str]) -> tuple[Verdict, list[str]]:
        """`term = part {AND part}`."""
        found, rest = self._part(tokens)
        while rest and rest[0].upper() == "AND":
            other, rest = self._part(rest[1:])
            found = self.both(found, other)
        return found, rest

    def _part(self, tokens: list[str]) -> tuple[Verdict, list[str]]:
        """`part = ( expression ) | licence [WITH exception]`."""
        if not tokens or tokens[0].upper() in ("OR", "AND", "WITH", ")"):
            raise ValueError
        if tokens[0] == "(":
            found, rest = self.read(tokens[1:])
            if not rest or rest[0] != ")":
                raise ValueError
            return found, rest[1:]
        if len(tokens) > 2 and tokens[1].upper() == "WITH":
            return self.single(f"{tokens[0]} WITH {tokens[2]}"), tokens[3:]
        return self.single(tokens[0]), tokens[1:]
