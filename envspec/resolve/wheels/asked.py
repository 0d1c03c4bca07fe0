"""Wheels asked side by side."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from envspec.lock.model import Pin
from envspec.resolve.wheels.model import Question, Read, Recall, Unread, WheelSays

_THREADS = 8


def ask(
    questions: Mapping[Pin, frozenset[Question]], read: Read, recall: Recall = lambda pin, questions: None
) -> dict[Pin, WheelSays | Unread]:
    """Ask the wheel of each pin what there is to ask: `read` those whose answers `recall` doesn't know."""
    known = {pin: says for pin, asked in questions.items() if (says := recall(pin, asked)) is not None}
    left = [(pin, asked) for pin, asked in questions.items() if pin not in known]
    fresh: dict[Pin, WheelSays | Unread] = {}
    if left:
        with ThreadPoolExecutor(_THREADS) as pool:
            answers = pool.map(lambda one: read(*one), left)
            fresh = dict(zip((pin for pin, _ in left), answers, strict=True))
    return {pin: fresh[pin] if pin in fresh else known[pin] for pin in questions}
