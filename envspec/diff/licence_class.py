"""Roughly what a licence asks for: by its identifiers and by words, no legal advice."""

from __future__ import annotations

import re

from envspec.packages.licences import judged

CLASSES = ("permissive", "weak copyleft", "copyleft", "proprietary", "unknown")
"""In the order in which a licence is taken for more than it may be: of a choice (OR) the first counts, of what must be
kept together (AND) the last.
"""

# Identifiers and words, each from its beginning on; where a text has words of several classes, the first class counts.
# "Proprietary" is whatever restricts who may use it, what for, or how it may be changed.
_END = r"(?![A-UW-Z])"
"""No other word goes on here: GPL, GPL-3.0, GPL3 and GPLv3 are one."""
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
    """One of `CLASSES`. Of an SPDX expression each part counts: where there is a choice, one takes the lighter."""
    rank = judged(licence, _rank, min, max)
    return CLASSES[rank]


def _rank(licence: str) -> int:
    text = licence.upper()
    return CLASSES.index(next((name for name, pattern in _PATTERNS if pattern.search(text)), "unknown"))
