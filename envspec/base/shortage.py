"""A system without more memory or threads for a program: one error, whichever call met it."""

from __future__ import annotations

import re

from envspec.base.errors import ToolError

_SAID = re.compile(
    r"memory allocation of \d+ bytes failed|[Cc]annot allocate memory|[Oo]ut of memory|os error 12\b|MemoryError\b"
    r"|failed to map segment|failed to spawn thread|ThreadPoolBuild|can't spawn worker thread|can't start new thread"
    r"|BlockingIOError: \[Errno 11\]|SystemError: error return without exception set"
)
"""What the C library's loader, Rust's allocator, uv and Python say, and Python that has no memory for a MemoryError.
Under a limit on memory a thread gets no stack, so what is said of threads may be a matter of memory."""


def shortage(program: str, said: str) -> ToolError | None:
    """Make the error for a program that says that the system gave it too little; None where it says something else."""
    return too_little(program) if _SAID.search(said) else None


def too_little(program: str) -> ToolError:
    """Make the error for a program that the system gave too little."""
    return ToolError(
        f"{program} ran out of memory or threads, or reached the system's limit on them",
        hint="give it more (ulimit -v, ulimit -u, the job's memory), or let uv take less: UV_CONCURRENT_INSTALLS=1",
    )
