"""Whether a licence is acceptable. SPDX expressions are judged part by part; other text counts as a licence's name."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from envspec.packages.licences import identifier, judged


def is_acceptable(licence: str, allow: Sequence[str], deny: Sequence[str]) -> bool:
    """Return whether the spec accepts a package under this licence.

    `A OR B` is acceptable when either is, `A AND B` when both are, `A WITH exception` as itself or as A. A single
    licence is acceptable when `deny` doesn't name it, and `allow` does or is empty. Names are compared without regard
    to case, `*` in a list stands for anything, and a list may have the metadata's words or their SPDX identifier.
    """

    def single(name: str) -> bool:
        names = {name.lower(), identifier(name).lower()}
        # no right that an exception gives is lost by naming the licence alone
        names |= {one.partition(" with ")[0] for one in names}
        return not _listed(names, deny) and (not allow or _listed(names, allow))

    return judged(licence, single, lambda one, other: one or other, lambda one, other: one and other)


def _listed(names: set[str], patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern.lower()) for name in names for pattern in patterns)
