"""The lines of a requirements.txt, as pip reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

OTHER_FILE = re.compile(r"(?:(?P<short>-[rc])|--(?P<long>requirement|constraint)(?=[ =]|$))[ =]*(?P<file>.*)")
"""A line that names another file: of requirements, or of constraints."""

EDITABLE = re.compile(r"(?:-e|--editable(?:[ =]|$))[ =]*(?P<what>.*)")
EGG = re.compile(r"[#&]egg=(?P<name>[A-Za-z0-9._-]+(?:\[[A-Za-z0-9._, -]*\])?)")
"""The name, with its extras, that pip reads of a URL."""


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers: continued ones joined, comments and empty ones left out."""
    joined, start = "", 0
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        start = start or number
        if line.rstrip().endswith("\\"):
            joined += line.rstrip()[:-1] + " "
            continue
        whole = re.sub(r"(?:^|\s)#.*$", "", joined + line).strip()
        joined, at, start = "", start, 0
        if whole:
            yield at, whole


def without_options(line: str) -> str:
    """Return a requirement without the options behind it, such as its hashes."""
    return re.split(r"\s--?[a-z]", line, maxsplit=1)[0].strip()


def editable_requirement(what: str) -> str:
    """Return what follows `-e` in PEP 508's form, or nothing for a folder. Raises ValueError for a URL that names no
    package."""
    if what[:1] in ("'", '"') and what.endswith(what[0]):
        what = what[1:-1]
    url, semicolon, marker = what.partition(" ;")
    if "://" not in url or url.startswith("file:"):
        return ""
    if re.match(r"[A-Za-z0-9._-]+ *(?:\[[^]]*\] *)?@ ", url):
        return what
    if (egg := EGG.search(url)) is None:
        raise ValueError("names no package (#egg=name)")
    return f"{egg['name']} @ {url}{semicolon}{marker}"
