"""Time-outs: for an index that the user gave a time of its own, and for a server that asks to be asked later."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from envspec.base.errors import IndexFailure

if TYPE_CHECKING:
    import urllib3

REDIRECTS = 5
"""So often may a server lead on."""
_PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses that may be gone at the next try."""


@dataclass(frozen=True)
class Patience:
    """Seconds to wait for bytes of an index, by `[timeouts]` of the user's configuration, and its name there."""

    name: str
    seconds: float

    def gave_up(self, url: str) -> IndexFailure:
        """The message about an index that sent nothing for so long."""
        return IndexFailure(
            f"{url} is given up: the index {self.name!r} sent nothing for {self.seconds:g} s",
            hint=f"[timeouts] {self.name} in envspec's configuration says how long to wait",
        )


def retries(count: int, url: str, longest: float, sleep: Callable[[float], None] = time.sleep) -> urllib3.Retry:
    """So many more tries, each after a growing pause, or after the one that the server asks for (`Retry-After`, RFC
    9110 §10.2.3, in seconds or as a date).

    A server may have one request wait for `longest` seconds in all. One that asks for more is given up at once: the
    request then raises IndexFailure. `url` is for the message, without credentials.
    """
    import urllib3
    from urllib3.exceptions import InvalidHeader

    left = longest

    class Retries(urllib3.Retry):
        # urllib3 makes a new one for each try, so what all share stands outside
        def sleep_for_retry(self, response: urllib3.response.BaseHTTPResponse) -> bool:
            nonlocal left
            try:
                asked = self.get_retry_after(response)
            except (InvalidHeader, ValueError, OverflowError):
                # no time: as if nothing had been said
                return False
            if not asked:
                return False
            if asked > left:
                wants = f"it answers HTTP {response.status} and asks to wait {asked:.0f} s (Retry-After)"
                raise IndexFailure(
                    f"{url} is given up: {wants}",
                    hint=f"run the same command again later: envspec waits {longest:.0f} s at most",
                )
            left -= asked
            sleep(asked)
            return True

    return Retries(
        # urllib3 counts redirects into it, and being led on is no failure
        total=count + REDIRECTS, connect=count, read=count, status=count, other=count, redirect=REDIRECTS,
        backoff_factor=0.3, status_forcelist=_PASSING, raise_on_status=False,
        respect_retry_after_header=True,
    )  # fmt: skip
