"""Licence texts: SPDX expressions part by part, and the SPDX identifiers of other wordings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, TypeVar

Verdict = TypeVar("Verdict")

_Combine = Callable[[Verdict, Verdict], Verdict]

_TOKEN = re.compile(r"[()]|[^\s()]+")

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
    """Turn the words for a single licence into its SPDX identifier. Ambiguous words stay as they are."""
    return _IDENTIFIERS.get(name.lower(), name)


def judged(
    licence: str, single: Callable[[str], Verdict], either: _Combine[Verdict], both: _Combine[Verdict]
) -> Verdict:
    """Judge each licence of an SPDX expression by `single`, and combine by `either` for OR and `both` for AND.

    `A WITH exception` is a single licence. So is, as a whole, a text that isn't an expression.
    """
    try:
        return _Expression(_TOKEN.findall(licence), single, either, both).whole()
    except (ValueError, RecursionError):
        return single(licence.strip())


class _Expression(Generic[Verdict]):
    """The grammar. Each rule consumes tokens and returns its verdict. Raises ValueError for any other text."""

    def __init__(
        self, tokens: list[str], single: Callable[[str], Verdict], either: _Combine[Verdict], both: _Combine[Verdict]
    ) -> None:
        # the next one stands last, where taking it off costs nothing
        self.tokens = tokens[::-1]
        self.single, self.either, self.both = single, either, both

    def whole(self) -> Verdict:
        found = self._expression()
        if self.tokens:
            raise ValueError
        return found

    def _expression(self) -> Verdict:
        """`expression = term {OR term}`."""
        found = self._term()
        while self._take("OR"):
            found = self.either(found, self._term())
        return found

    def _term(self) -> Verdict:
        """`term = part {AND part}`."""
        found = self._part()
        while self._take("AND"):
            found = self.both(found, self._part())
        return found

    def _part(self) -> Verdict:
        """`part = ( expression ) | licence [WITH exception]`."""
        if not self.tokens or self.tokens[-1].upper() in ("OR", "AND", "WITH", ")"):
            raise ValueError
        if self._take("("):
            found = self._expression()
            if not self._take(")"):
                raise ValueError
            return found
        name = self.tokens.pop()
        if len(self.tokens) > 1 and self._take("WITH"):
            name = f"{name} WITH {self.tokens.pop()}"
        return self.single(name)

    def _take(self, word: str) -> bool:
        """Take the next token if it is this one."""
        if self.tokens and self.tokens[-1].upper() == word:
            self.tokens.pop()
            return True
        return False
