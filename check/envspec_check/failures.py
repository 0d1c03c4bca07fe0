"""Errors that a machine or its settings cause: their meaning in words, and the remedy."""

from __future__ import annotations

import errno
import re
from typing import Optional, Tuple

KILLED = "give it more memory (sbatch --mem, docker run --memory), or see what else uses the machine's"

FULL = "make room there, or name another folder (--scratch); quotas count too (quota -s, df -i)"

KNOWN = (
    (
        r"\[Errno (?:%d|%d)\]|No space left on device|Disk quota exceeded" % (errno.ENOSPC, errno.EDQUOT),
        "the disk of the folder for temporary files is full",
        FULL,
    ),
    (
        # torch.save doesn't hand on what the system said of a write
        r"PytorchStreamWriter failed|unexpected pos \d+ vs \d+",
        "a checkpoint couldn't be written whole",
        FULL,
    ),
    (
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) (?:is killed by signal: (?P<signal>[\w ]+)|exited unexpectedly)",
        "a worker of the DataLoader was killed",
        KILLED + "; or train with num_workers=0",
    ),
    (
        r"Caught (?P<what>\w+) in DataLoader worker process \d+",
        "a worker of the DataLoader raised {what}",
        "the end of its output has the worker's own traceback",
    ),
    (
        r"find (?:address|interface) for: (?:lo|127\.0\.0\.1|::1)\b",
        "Gloo finds no address of this machine's loopback interface",
        "have it brought up, as root: ip link set lo up",
    ),
    (
        r"find address for: (?P<what>\S+)|find interface for: (?P<address>\S+)",
        "Gloo finds no network interface {what}{address} on this machine",
        "name an interface in GLOO_SOCKET_IFNAME that `ip addr` shows with an address, or unset it",
    ),
    (
        r"gloo.*(?:resolve hostname|getaddrinfo|Name or service not known)",
        "Gloo can't resolve this machine's name",
        "export GLOO_SOCKET_IFNAME with an interface that `ip addr` shows, or name the host in /etc/hosts",
    ),
    (r"MemoryError|out of memory|can't allocate memory", None, KILLED),
)
"""Patterns for the text of an error, what they mean (None: the text says it) and what to do."""


def explain(text: str) -> Tuple[str, Optional[str]]:
    """Return the reason and the remedy of an error: the text itself and None where nothing is known of it."""
    for pattern, reason, remedy in KNOWN:
        match = re.search(pattern, text)
        if match:
            named = {name: value or "" for name, value in match.groupdict().items()}
            return (reason.format(**named) + ": " + text if reason else text), remedy
    return text, None


def in_words(error: BaseException) -> str:
    """Return an exception's type and the first line of what it says."""
    text = str(error).strip().split("\n")[0]
    return "%s: %s" % (type(error).__name__, text) if text else type(error).__name__


def root_cause(error: BaseException) -> str:
    """Give an exception's text, and that of the exception that it began with: packages that load their parts late hide
    the cause."""
    first, text = error, in_words(error)
    while first.__cause__ or (first.__context__ and not first.__suppress_context__):
        first = first.__cause__ or first.__context__ or first
    return text if first is error else "%s (%s)" % (in_words(first), text)
