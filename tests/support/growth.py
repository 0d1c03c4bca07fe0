"""How the work of a function grows with its input, told by the CPU time of two sizes: a busy machine hardly matters.

Four times the input takes four times as long where work grows with it, and sixteen times where it grows with its
square. The limit lies between. What is done in a few hundredths of a second at the larger size is let off: at these
sizes nothing quadratic is.
"""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SMALL, LARGE = 7_500, 30_000
"""Repetitions of an attack's unit."""

AT_ONCE = 0.1
"""Seconds of CPU below which the larger size needs no comparison."""

RATIO = 9.0
"""How much longer the larger size may take: 4 and some, not 16."""

LIMIT = 5
"""Seconds of CPU after which a call is ended: a square of the larger size would take minutes."""


class TooSlow(Exception):
    """A call ran past LIMIT."""


def grows_linearly(call: Callable[[str], object], attack: Callable[[int], str]) -> bool:
    """Whether `call(attack(n))` takes time in proportion to n. An exception of the call's own is an answer, too."""
    large = _seconds(call, attack(LARGE))
    if large < AT_ONCE:
        return True
    # the least of several runs is the nearest to the work itself: whatever else runs can only add to it
    for _ in range(3):
        small = min(_seconds(call, attack(SMALL)) for _ in range(3))
        large = min(large, _seconds(call, attack(LARGE)))
        if large < max(AT_ONCE, RATIO * small):
            return True
    return False


def _seconds(call: Callable[[str], object], text: str) -> float:
    with _limited():
        start = time.process_time()
        try:
            call(text)
        except TooSlow:
            raise
        except Exception as error:  # noqa: BLE001 - which one is another test's business
            del error
        return time.process_time() - start


@contextmanager
def _limited() -> Iterator[None]:
    """Ends what takes more CPU than LIMIT. `re` looks for signals while it matches."""

    def stop(signum: int, frame: object) -> None:
        raise TooSlow(f"more than {LIMIT} s of CPU")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
