"""static.bytecode: what Python compiled is what its source says."""

from __future__ import annotations

import functools
import importlib.util
import marshal
import os
import re
import sys
import warnings
from typing import Any, Iterator, List, NamedTuple, Sequence, Tuple

from envspec_check.environment import own_paths
from envspec_check.interface import MIB, Context, Outcome, check, failed, passed, skipped, some
from envspec_check.machine import usable_cpus
from envspec_check.process import ending, fork

COMPILED = 16 * MIB
"""Bytes of source that are compiled again to be compared: some ten seconds on two cores. --deep compiles all."""


class Compiled(NamedTuple):
    """A file that Python compiled, and its source. `optimized` is -O's level."""

    path: str
    source: str
    optimized: int
    size: int


def is_loaded(head: bytes, source: str) -> bool:
    """Return whether Python takes a compiled file that begins so for that of its source: always, by the source's hash,
    or by its time and size."""
    kind = int.from_bytes(head[4:8], "little")
    if kind == 3:
        with open(source, "rb") as file:
            return head[8:16] == importlib.util.source_hash(file.read())
    about = os.stat(source)
    expected = [int(number) & 0xFFFFFFFF for number in (about.st_mtime, about.st_size)]
    return kind == 1 or (kind == 0 and [int.from_bytes(head[at : at + 4], "little") for at in (8, 12)] == expected)


def compiled_files(folder: str) -> Iterator[Compiled]:
    """Yield the compiled files below a folder that this Python would load in the place of their sources."""
    for here, _, names in os.walk(folder):
        if os.path.basename(here) != "__pycache__":
            continue
        for name in names:
            match = re.fullmatch(r"(.+)\.%s(?:\.opt-([12]))?\.pyc" % re.escape(str(sys.implementation.cache_tag)), name)
            source = match and os.path.join(os.path.dirname(here), match.group(1) + ".py")
            if not match or not source or not os.path.isfile(source):
                continue
            path = os.path.join(here, name)
            with open(path, "rb") as file:
                head = file.read(16)
            if head[:4] == importlib.util.MAGIC_NUMBER and is_loaded(head, source):
                yield Compiled(path, source, int(match.group(2) or 0), os.path.getsize(source))


def differs(compiled: Compiled) -> bool:
    """Return whether a compiled file has other code than its source, compiled again, names and lines included."""
    with open(compiled.source, "rb") as file:
        text = file.read()
    try:
        with open(compiled.path, "rb") as file:
            code = marshal.loads(file.read()[16:])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            right = compile(text, compiled.source, "exec", dont_inherit=True, optimize=compiled.optimized)
    except (ValueError, EOFError, TypeError, SyntaxError):
        return True
    return bool(code != right)


def other_code(files: Sequence[Compiled]) -> List[str]:
    """List the compiled files that differ from their sources. A process for each CPU compiles."""
    shares = [files[at :: usable_cpus()] for at in range(usable_cpus())]

    def compare(share: Sequence[Compiled]) -> List[str]:
        return [file.path for file in share if differs(file)]

    paths: List[str] = []
    for pid, answer in [fork(functools.partial(compare, share)) for share in shares if share]:
        _, status = os.waitpid(pid, 0)
        left: Any = answer.take()
        if "value" not in left:
            raise RuntimeError("a process that compares bytecode %s: %s" % (ending(status), left.get("error")))
        paths += left["value"]
    return sorted(paths)


def within(files: Sequence[Compiled], budget: int) -> Tuple[List[Compiled], int]:
    """Choose the smallest files whose sources fit the budget, and count the rest."""
    chosen: List[Compiled] = []
    for file in sorted(files, key=lambda file: (file.size, file.path)):
        budget -= file.size
        if budget < 0:
            break
        chosen.append(file)
    return chosen, len(files) - len(chosen)


@check("static.bytecode", torch=False)
def static_bytecode(ctx: Context) -> Outcome:
    """The packages' bytecode, which Python runs in place of their sources, is that of their sources."""
    if "base" in ctx.config:
        return skipped("of the base's own files, the lock knows none")
    folders = {os.path.realpath(path) for path in own_paths() if os.path.basename(path) == "site-packages"}
    files = [file for folder in sorted(folders) for file in compiled_files(folder)]
    if ctx.quick and not ctx.deep:
        return skipped("--quick compares no bytecode with its source: there are %d files" % len(files))
    chosen, left = within(files, sys.maxsize if ctx.deep else COMPILED)
    wrong = other_code(chosen)
    details = {"compared": len(chosen), "not_compared": left, "wrong": wrong[:100]}
    if wrong:
        reason = f"this bytecode isn't its source's: {some(wrong, 3)}"
        return failed(
            reason, "delete it, and find out who wrote it: Python runs it, and reads no source", details=details
        )
    message = "%d compiled files weren't compared with their sources; --deep compares all" % left
    return passed(reason=message if left else None, details=details)
