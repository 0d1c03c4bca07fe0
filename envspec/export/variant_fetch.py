"""The command that fetches a step's variants by the carried program."""

from __future__ import annotations

from collections.abc import Callable

from envspec.export.plan import PipStep


def fetch_words(
    step: PipStep, python: str, program: str, folder: str, uv: str, quote: Callable[[str], str]
) -> list[str]:
    """List the words of the command, each name quoted as the recipe wants it. uv's options for the step's index come
    behind them."""
    files = [f"{quote(one.file)} {one.sha256} {one.size or 0}" for one in step.variants]
    return [f"{python} -I {program} {folder}", *files, f"-- {uv}"]
