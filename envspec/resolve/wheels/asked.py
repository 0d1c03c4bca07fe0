"""Wheels asked side by side."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from envspec.lock.model import Pin
from envspec.resolve.wheels.model import Question, Read, Unread, WheelSays

_THREADS = 8


def ask(questions: Mapping[Pin, frozenset[Question]], read: Read) -> dict[Pin, WheelSays | Unread]:
    """Ask the wheel of each pin what there is to ask."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(questions, pool.map(lambda one: read(*one), questions.items()), strict=True))
