"""Passwords from the user's keyring, read as uv reads them with `keyring-provider = "subprocess"`: with the program
`keyring`, for a user that the index's URL names without a password."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping
from urllib.parse import urlsplit

from envspec.base import programs
from envspec.base.settings import Credentials

_SECONDS = 60
"""Seconds to wait: the user may have to unlock the keyring by hand."""


class Keyring:
    """The user's keyring. It is asked once a host and run."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = env
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Credentials | None] = {}

    def complete(self, url: str, user: str) -> Credentials | None:
        """Look up a user's login for a URL. None if the keyring has none."""
        host = urlsplit(url).netloc
        with self._lock:
            if (host, user) not in self._known:
                found = self._ask(url, user) or self._ask(host, user)
                self._known[host, user] = Credentials(user, found).mask() if found else None
            return self._known[host, user]

    def _ask(self, service: str, user: str) -> str | None:
        program = programs.find_program("keyring", self._env)
        if program is None:
            return None
        try:
            ran = programs.run([program, "get", service, user], self._env, seconds=_SECONDS)
            return ran.stdout.decode().rstrip("\r\n") if ran.returncode == 0 else None
        except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
            return None
