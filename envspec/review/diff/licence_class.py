"""Roughly what a licence demands, by its identifiers and words. This isn't legal advice."""

from __future__ import annotations

import re

from envspec.packages.licences import judged

CLASSES = ("permissive", "weak copyleft", "copyleft", "proprietary", "unknown")
"""The classes in the order that counts: of a choice (OR) the first, of licences that hold together (AND) the last.
"""

# Identifiers and words, each from its beginning on; where a text has words of several classes, the first class counts.
# "Proprietary" is whatever restricts who may use it, what for, or how it may be changed.
_END = r"(?![A-UW-Z])"
"""The end of a licence's name: GPL, GPL-3.0, GPL3 and GPLv3 are one licence."""
_WORDS = {
    "proprietary": (
        r"PROPRIETARY|NVIDIA|CUDNN|NON-?COMMERCIAL|COMMERCIAL|BUSL|BUSINESS SOURCE|ALL RIGHTS|EULA|END.USER"
        r"|CC-BY(?:-\w+)*-N[CD]\b|ELASTIC|POLYFORM|UNLICENSED\b|LLAMA|GEMMA|\w*RAIL\b|COMMONS.CLAUSE"
    ),
    "copyleft": (
        rf"A?GPL{_END}|AFFERO|(?<!LESSER )(?<!LIBRARY )GENERAL PUBLIC|SSPL|EUPL|OSL-|OPEN SOFTWARE LICEN[CS]E|CC-BY-SA"
    ),
    "weak copyleft": rf"LGPL{_END}|LESSER|LIBRARY GENERAL|MPL{_END}|MOZILLA|EPL-|ECLIPSE|CDDL|CECILL-C|OFL-",
    "permissive": (
        r"(?:(?:0?BSD|APACHE)\d?|MIT|ISCL?|ZLIB|LIBPNG|UNLICENSE|CC0|CC-BY|PSFL?|PYTHON|CNRI|HPND|X11|NCSA|AFL|BSL|BOOST"
        r"|FTL|IJG|TCL|UPL|ZPL|ZOPE|MULANPSL|ARTISTIC|POSTGRESQL|OPENSSL|CURL|BZIP2|LIBTIFF|NTP|UNICODE|WTFPL|BLESSING"
        r"|EXPAT|OLDAP|ICU|W3C|VIM)\b|PUBLIC.DOMAIN|HISTORICAL PERMISSION"
    ),
}
_PATTERNS = tuple((name, re.compile(rf"(?<![A-Z0-9])(?:{words})")) for name, words in _WORDS.items())


def licence_class(licence: str) -> str:
    """Return one of `CLASSES`. Each part of an SPDX expression counts; of a choice, the lighter part."""
    rank = judged(licence, _rank, min, max)
    return CLASSES[rank]


def _rank(licence: str) -> int:
    text = licence.upper()
    return CLASSES.index(next((name for name, pattern in _PATTERNS if pattern.search(text)), "unknown"))
