"""uv's own addresses of PyPI and the PyTorch indexes, without other settings."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from envspec.base.cache import keep_entry
from envspec.base.scratch import scratch_folder
from envspec.resolve.uv.program import Uv

_ASKED_FOR = re.compile(r"(https?://\S+)/torch/")


def uvs_default_index(uv: Uv, cache_dir: Path) -> str | None:
    """Ask uv for its address of PyPI without other settings, and remember the answer for each uv program.

    None if uv fails (because of a broken setting, say): then nothing is remembered.
    """

    def ask() -> str | None:
        ran = uv.run([*_COMPILE, "--emit-index-url", "--no-header", "--quiet"], cwd=Path("/"))
        if ran.returncode:
            return None
        answer = ran.stdout.split()
        return answer[answer.index("--index-url") + 1] if "--index-url" in answer[:-1] else ""

    return _memoise(uv, cache_dir, "uv-default-index", ask)


def uvs_pytorch_index(uv: Uv, cache_dir: Path, variant: str) -> str | None:
    """The address of uv's PyTorch index for a variant ("cu126"), from uv's own message when it's asked for torch
    without a network; remembered likewise. None for a variant that it doesn't know."""

    def ask() -> str | None:
        with scratch_folder(cache_dir) as folder:
            (folder / "requirements.in").write_text("torch\n", encoding="utf-8")
            options = ["--torch-backend", variant, "--offline", "--no-cache", "--verbose"]
            command = [*_COMPILE[:2], "requirements.in", *_COMPILE[3:], *options]
            told = uv.run(command, cwd=folder, more={"RUST_LOG": "uv_client=debug"}).stderr
        found = _ASKED_FOR.search(told)
        return found[1] if found else None

    return _memoise(uv, cache_dir, f"uv-pytorch-{variant}", ask)


_COMPILE = ["pip", "compile", "-", "--no-config", "--python", sys.executable]


def _memoise(uv: Uv, cache_dir: Path, name: str, ask: Callable[[], str | None]) -> str | None:
    try:
        state = Path(uv.executable).stat()
    except OSError:
        return None
    memo = cache_dir / f"{name}-{state.st_size}-{state.st_mtime_ns}"
    with suppress(OSError):
        return memo.read_text(encoding="utf-8") or None
    url = ask()
    if url is None:
        return None
    keep_entry(memo, url)
    return url or None
