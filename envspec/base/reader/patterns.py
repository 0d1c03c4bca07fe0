"""Regular expressions that several formats share."""

from __future__ import annotations

from envspec.base.reader.nodes import CONTROL

# Starts with a letter or digit, has no "..", and no dot at its end, so that it's always a safe name of one folder.
NAME = r"[a-z0-9][a-z0-9_-]*(?:\.[a-z0-9_-]+)*"
# PEP 508's names.
PACKAGE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
# The host has no user part, so no URL with credentials matches; the path is printable ASCII without '?' and '#'.
_URL_PATH = r'/[!-"$->@-~]*'
WEB_URL = rf"https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{{1,5}})?(?:{_URL_PATH})?"
URL = rf"{WEB_URL}|file://{_URL_PATH}"
# One line with something to see in it.
LINE = rf"[^{CONTROL}]*[^\s{CONTROL}][^{CONTROL}]*"
DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
# How old a release must be.
AGE = "[1-9][0-9]{0,3} (?:hour|day|week)s?"
