"""uv's default index: its address of PyPI without other settings."""

from __future__ import annotations

import secrets
import sys
from contextlib import suppress
from pathlib import Path

from envspec.uv.program import Uv


def uvs_default_index(uv: Uv, cache_dir: Path) -> str | None:
    """Ask uv for its address of PyPI without other settings, and remember the answer for each uv program.

    None if uv fails (because of a broken setting, say): then nothing is remembered.
    """
    try:
        state = Path(uv.executable).stat()
    except OSError:
        return None
    memo = cache_dir / f"uv-default-index-{state.st_size}-{state.st_mtime_ns}"
    with suppress(OSError):
        return memo.read_text(encoding="utf-8") or None
    empty = [
        "pip",
        "compile",
        "-",
        "--emit-index-url",
        "--no-header",
        "--no-config",
        "--quiet",
        "--python",
        sys.executable,
    ]
    ran = uv.run(empty, cwd=Path("/"))
    if ran.returncode:
        return None
    answer = ran.stdout.split()
    url = answer[answer.index("--index-url") + 1] if "--index-url" in answer[:-1] else ""
    partial = memo.with_name(f"{memo.name}.{secrets.token_hex(4)}.partial")
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        partial.write_text(url, encoding="utf-8")
        partial.replace(memo)
    except OSError:
        # a cache that can't be written is no error: the answer is here all the same
        with suppress(OSError):
            partial.unlink(missing_ok=True)
    return url or None
