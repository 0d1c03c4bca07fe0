"""Licence texts: SPDX expressions part by part, the SPDX identifiers of other wordings, and which are acceptable."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Generic, TypeVar

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

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


def in_spdx(licence: str) -> str:
    """Write a licence as SPDX does, in SPDX's case; words that no identifier is known for stay as they are."""
    identifier = _spdx(licence)
    return licence if identifier == " ".join(licence.split()).lower() else identifier


def is_same(licence: str, other: str) -> bool:
    """Return whether two texts name the same licence, however they are spelt: by name or by SPDX identifier, in any
    case, the parts of an expression in any order. Words that leave a choice ("BSD License") are the same as each of
    what they may mean."""
    if _tree(licence, _spdx) == _tree(other, _spdx):
        return True
    chosen = {_spdx(name) for text in (licence, other) for name in _names_of(text)} & _LEFT_OPEN.keys()
    return bool(chosen) and _tree(licence, _family) == _tree(other, _family)


def _tree(licence: str, single: Callable[[str], str]) -> object:
    """Build the tree of an expression, in which neither the order nor the nesting of one operator counts."""

    def leaf(text: str) -> object:
        operator, names = _classifiers(text)
        return _flat(operator, map(single, names))

    return judge(licence, leaf, lambda *both: _flat("OR", both), lambda *both: _flat("AND", both))


def _names_of(licence: str) -> frozenset[str]:
    either: _Combine[frozenset[str]] = frozenset.union
    return judge(licence, lambda text: frozenset(_classifiers(text)[1]), either, either)


def _classifiers(text: str) -> tuple[str, list[str]]:
    """Split classifiers that an index joined: a name of several words is no part of an expression."""
    for operator, other in (("AND", " OR "), ("OR", " AND ")):
        names = text.split(f" {operator} ")
        if len(names) > 1 and other not in text and not set("()") & set(text):
            return operator, names
    return "AND", [text]


def _flat(operator: str, parts: Iterable[object]) -> object:
    members: set[object] = set()
    for part in parts:
        members |= part[1] if isinstance(part, tuple) and part[0] == operator else {part}
    return members.pop() if len(members) == 1 else (operator, frozenset(members))


@lru_cache(maxsize=1024)
def _spdx(name: str) -> str:
    """Turn the name of a single licence into its SPDX identifier, in SPDX's own case. What has none stays, in lower
    case."""
    text = " ".join(name.split())
    plain = _LICENCE.sub("", text)
    for candidate in (text, identifier(text), identifier(plain), plain):
        try:
            expression = str(canonicalize_license_expression(candidate))
        except InvalidLicenseExpression:
            continue
        return _RENAMED.get(expression, expression)
    return text.lower()


_LICENCE = re.compile(r"[ -]licen[cs]e$", re.IGNORECASE)

_RENAMED = {
    f"{family}-{version}{old}": f"{family}-{version}-{new}"
    for family, versions in (("GPL", ("2.0", "3.0")), ("LGPL", ("2.0", "2.1", "3.0")), ("AGPL", ("3.0",)))
    for version in versions
    for old, new in (("", "only"), ("+", "or-later"))
}
"""SPDX's identifiers of before 3.0, and what they are called since."""

_LEFT_OPEN = {
    "bsd": "BSD",
    "bsd license": "BSD",
    "apache": "Apache",
    "apache license": "Apache",
    "apache software license": "Apache",
}
"""Words that leave a choice, and the family that they name."""

_FAMILY = {
    **_LEFT_OPEN,
    **dict.fromkeys(("0BSD", "BSD-2-Clause", "BSD-3-Clause"), "BSD"),
    **dict.fromkeys(("Apache-1.1", "Apache-2.0"), "Apache"),
}


def _family(name: str) -> str:
    exact = _spdx(name)
    return _FAMILY.get(exact, exact)


def judge(
    licence: str, single: Callable[[str], Verdict], either: _Combine[Verdict], both: _Combine[Verdict]
) -> Verdict:
    """Judge each licence of an SPDX expression by `single`, and combine by `either` for OR and `both` for AND.

    `A WITH exception` is a single licence. So is, as a whole, a text that isn't an expression.
    """
    try:
        return _Expression(_TOKEN.findall(licence), single, either, both).whole()
    except (ValueError, RecursionError):
        return single(licence.strip())


def is_acceptable(licence: str, allow: Sequence[str], deny: Sequence[str]) -> bool:
    """Return whether a package under this licence is acceptable.

    `A OR B` is acceptable when either is, `A AND B` when both are, `A WITH exception` as itself or as A. A single
    licence is acceptable when `deny` doesn't name it, and `allow` does or is empty. Names are compared without regard
    to case, `*` in a list stands for anything, and a list may have the metadata's words or their SPDX identifier.
    """

    def single(name: str) -> bool:
        names = {name.lower(), identifier(name).lower()}
        # no right that an exception gives is lost by naming the licence alone
        names |= {spelling.partition(" with ")[0] for spelling in names}
        return not _matches_any(names, deny) and (not allow or _matches_any(names, allow))

    return judge(licence, single, lambda left, right: left or right, lambda left, right: left and right)


def _matches_any(names: set[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern.lower()) for name in names for pattern in patterns)


class _Expression(Generic[Verdict]):
    """The grammar. Each rule consumes tokens and returns its verdict. Raises ValueError for any other text."""

    def __init__(
        self, tokens: list[str], single: Callable[[str], Verdict], either: _Combine[Verdict], both: _Combine[Verdict]
    ) -> None:
        # the next one stands last, where taking it off costs nothing
        self.tokens = tokens[::-1]
        self.single, self.either, self.both = single, either, both

    def whole(self) -> Verdict:
        verdict = self._expression()
        if self.tokens:
            raise ValueError
        return verdict

    def _expression(self) -> Verdict:
        """`expression = term {OR term}`."""
        verdict = self._term()
        while self._take("OR"):
            verdict = self.either(verdict, self._term())
        return verdict

    def _term(self) -> Verdict:
        """`term = part {AND part}`."""
        verdict = self._part()
        while self._take("AND"):
            verdict = self.both(verdict, self._part())
        return verdict

    def _part(self) -> Verdict:
        """`part = ( expression ) | licence [WITH exception]`."""
        if not self.tokens or self.tokens[-1].upper() in ("OR", "AND", "WITH", ")"):
            raise ValueError
        if self._take("("):
            verdict = self._expression()
            if not self._take(")"):
                raise ValueError
            return verdict
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
