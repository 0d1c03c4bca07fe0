"""uv as a process: one `uv pip compile` a resolution, its answer read from the pylock that it prints.

The machine needs nothing of the target: uv takes the Python version and the platform by name, and downloads no
interpreter. envspec drops the user's settings of uv that change an answer (extra indexes, resolution mode, …) and keeps
those for reaching a network (TLS, proxies, keyring, cache).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envspec.base.documents import Unreadable, read_toml
from envspec.base.errors import ToolError
from envspec.base.redact import register_all
from envspec.net.fetch import read_timeout
from envspec.packages.tags import MACOS
from envspec.resolve.uv.processes import Processes

# What the user may set for uv and still get the same answer: how to reach things, never what to choose.
_KEPT_UV_VARIABLES = re.compile(
    r"UV_(CACHE_DIR|NO_CACHE|NATIVE_TLS|SYSTEM_CERTS|KEYRING_PROVIDER|INSECURE_HOST|HTTP_.*|REQUEST_TIMEOUT|CONCURRENT_.*|LINK_MODE)"
)
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_NO_PROXY = ("NO_PROXY", "no_proxy")
_NOWHERE = "http://127.0.0.1:9"
_KEPT_UV_SETTINGS = (
    "allow-insecure-host", "cache-dir", "concurrent-builds", "concurrent-downloads", "http-proxy", "https-proxy",
    "keyring-provider", "native-tls", "no-cache", "no-proxy", "system-certs",
)  # fmt: skip


@dataclass
class Uv:
    """uv on this machine.

    executable  the program
    env         the environment of this process
    settings    the part of the user's uv.toml that is kept, as TOML values
    offline     use no network
    fresh       ask whether pages have changed, however young those in uv's cache are
    longest     seconds of the longest time-out that the user gave an index, 0 without any
    """

    executable: str
    env: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    offline: bool = False
    fresh: bool = False
    longest: float = 0
    processes: Processes = field(default_factory=Processes)

    def environment(self) -> dict[str, str]:
        """Make uv's environment: this process's, without variables that change its answer or Python downloads."""
        kept = {k: v for k, v in self.env.items() if not k.startswith("UV_") or _KEPT_UV_VARIABLES.fullmatch(k)}
        kept.pop("VIRTUAL_ENV", None)
        # uv takes the target's macOS from it
        kept["MACOSX_DEPLOYMENT_TARGET"] = ".".join(map(str, MACOS))
        bounds = {"UV_HTTP_TIMEOUT": f"{read_timeout(self.env):.0f}"}
        # a proxy can't reach this machine's loopback, where the index proxy is
        direct = {name: ",".join(filter(None, [kept.get(name), "127.0.0.0/8,localhost"])) for name in _NO_PROXY}
        return {**bounds, **kept, **direct, "UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}

    def settings_cut_off(self, host: str) -> dict[str, Any]:
        """Make the settings that keep uv from every network but the index proxy at `host`: a dead web proxy for all
        other hosts, which its variables don't override. What it starts (git, build backends) isn't kept.
        """
        kept = {name: item for name, item in self.settings.items() if "proxy" not in name}
        return {**kept, "http-proxy": _NOWHERE, "https-proxy": _NOWHERE, "no-proxy": [host]}

    def cut_off(self, host: str) -> dict[str, str]:
        """Make the variables that keep uv, and what it starts, from every network but the index proxy at `host`.

        uv's own `--offline` would refuse the index proxy too.
        """
        nowhere = dict.fromkeys(_PROXIES, _NOWHERE)
        return {**nowhere, **dict.fromkeys(_NO_PROXY, host), "UV_HTTP_RETRIES": "0"}

    def run(
        self, arguments: Sequence[str], *, cwd: Path, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run uv to its end, or until an interrupt or a call of `stop`. `more` adds to its variables."""
        try:
            return self.processes.run(
                [self.executable, *arguments], cwd=cwd, env={**self.environment(), **(more or {})}
            )
        except OSError as error:
            raise ToolError(f"uv can't be started: {error}", hint="reinstall envspec: uv comes with it") from None

    def stop(self) -> None:
        """End every running uv of this object, and any that it starts before its processes `begin` anew."""
        self.processes.stop()


def find_uv(env: Mapping[str, str]) -> Uv:
    """Find the uv that was installed with envspec, with the user's own settings for reaching networks."""
    try:
        from uv import find_uv_bin

        executable = os.fspath(find_uv_bin())
    except (ImportError, FileNotFoundError):
        raise ToolError("uv isn't installed", hint="reinstall envspec: uv comes with it") from None
    return Uv(executable=executable, env=env, settings=_user_settings(env))


def _user_settings(env: Mapping[str, str]) -> dict[str, Any]:
    home = Path(env.get("HOME", "~")).expanduser()
    paths = [Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml", Path("/etc/uv/uv.toml")]
    if env.get("UV_CONFIG_FILE"):
        paths = [Path(env["UV_CONFIG_FILE"])]
    merged: dict[str, Any] = {}
    for path in reversed(paths):
        try:
            table = read_toml(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, Unreadable):
            continue
        register_all(table)
        merged.update({key: table[key] for key in _KEPT_UV_SETTINGS if key in table})
    return merged
