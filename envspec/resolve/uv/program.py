"""uv as a process: one `uv pip compile` a resolution, its answer read from the pylock that it prints.

The machine needs nothing of the target: uv takes the Python version and the platform by name, and downloads no
interpreter. envspec drops the user's settings of uv that change an answer (extra indexes, resolution mode, …) and keeps
those for reaching a network (TLS, proxies, keyring, cache).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from envspec.base import programs
from envspec.base.cache import keep_entry
from envspec.base.documents import Unreadable, read_toml
from envspec.base.errors import ToolError
from envspec.base.places import config_home, etc, home_of
from envspec.base.redact import register_all
from envspec.base.scratch import scratch_folder
from envspec.base.storage import refuse_shortage
from envspec.net import limits
from envspec.net.fetch import read_timeout
from envspec.packages.tags import MACOS

# The processes of a resolution, which end with it: uv, git, build backends, and their children.


class Processes(Struct):
    """The running programs, started from several threads."""

    _running: set[subprocess.Popen[bytes]] = field(default_factory=set)
    _stopped: bool = False

    def run(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end. It ends early, with all its children, if this call is interrupted or `stop` is
        called.

        Raises OSError if it can't be started, subprocess.TimeoutExpired.
        """
        process = programs.start(command, env, cwd)
        try:
            self._running.add(process)
            if self._stopped:
                # started by another thread while `stop` went through those that ran
                end(process.pid)
            out, err = process.communicate(timeout=timeout)
        finally:
            self._running.discard(process)
            if process.poll() is None:
                end(process.pid)
                process.kill()
                process.wait()
                for stream in (process.stdout, process.stderr):
                    if stream:
                        stream.close()
        outputs = (each.decode(errors="replace").replace("\r\n", "\n") for each in (out, err))
        return subprocess.CompletedProcess(process.args, process.returncode, *outputs)

    def stop(self) -> None:
        """End every running program, and any that is started later."""
        self._stopped = True
        for process in tuple(self._running):
            if process.poll() is None:
                end(process.pid)


def end(pid: int) -> None:
    """End a process and all its children by SIGTERM; without /proc, only the process itself.

    With a session of its own, one call would do, but git and ssh would lose the terminal for their questions.
    """
    for each in (pid, *_descendants(pid)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGTERM)


def _descendants(pid: int) -> list[int]:
    """List the numbers of all processes below one. Empty without /proc."""
    descendants: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        try:
            child_lists = [path.read_text() for path in Path(f"/proc/{parent}/task").glob("*/children")]
        except OSError:
            # the process has ended meanwhile
            continue
        children = [int(child) for line in child_lists for child in line.split()]
        descendants += children
        waiting += children
    return descendants


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


class Uv(Struct):
    """uv on this machine.

    executable  the program
    env         the environment of this process
    settings    the part of the user's uv.toml that counts, as TOML values
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
        inherited = {k: v for k, v in self.env.items() if not k.startswith("UV_") or _KEPT_UV_VARIABLES.fullmatch(k)}
        inherited.pop("VIRTUAL_ENV", None)
        # uv takes the target's macOS from it
        inherited["MACOSX_DEPLOYMENT_TARGET"] = ".".join(map(str, MACOS))
        bounds = {"UV_HTTP_TIMEOUT": f"{read_timeout(self.env):.0f}"}
        # git, which uv starts, waits without end for a server that is silent or drips
        bounds["GIT_HTTP_LOW_SPEED_LIMIT"] = str(limits.LIMITS.bytes_per_second)
        bounds["GIT_HTTP_LOW_SPEED_TIME"] = f"{limits.LIMITS.whole_seconds:.0f}"
        # a proxy can't reach this machine's loopback, where the index proxy is
        direct = {name: ",".join(filter(None, [inherited.get(name), "127.0.0.0/8,localhost"])) for name in _NO_PROXY}
        return {**bounds, **inherited, **direct, "UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}

    def settings_cut_off(self, host: str) -> dict[str, Any]:
        """Make the settings that keep uv from every network but the index proxy at `host`: a dead web proxy for all
        other hosts, which its variables don't override. Programs that uv starts (git, build backends) aren't bound by
        them.
        """
        settings = {name: content for name, content in self.settings.items() if "proxy" not in name}
        return {**settings, "http-proxy": _NOWHERE, "https-proxy": _NOWHERE, "no-proxy": [host]}

    def cut_off(self, host: str) -> dict[str, str]:
        """Make the variables that keep uv, and what it starts, from every network but the index proxy at `host`.

        uv's own `--offline` would refuse the index proxy too.
        """
        nowhere = dict.fromkeys(_PROXIES, _NOWHERE)
        return {**nowhere, **dict.fromkeys(_NO_PROXY, host), "UV_HTTP_RETRIES": "0"}

    def run(
        self, arguments: Sequence[str], *, cwd: Path, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run uv to its end, an interrupt or a stop of its processes. `more` adds to its variables."""
        try:
            return self.processes.run(
                [self.executable, *arguments], cwd=cwd, env={**self.environment(), **(more or {})}
            )
        except OSError as error:
            refuse_shortage("uv", error)
            raise ToolError(f"uv can't be started: {error}", hint="reinstall envspec: uv comes with it") from None


def find_uv(env: Mapping[str, str]) -> Uv:
    """Find the uv that was installed with envspec, with the user's own settings for reaching networks."""
    try:
        from uv import find_uv_bin

        executable = os.fspath(find_uv_bin())
    except (ImportError, FileNotFoundError):
        raise ToolError("uv isn't installed", hint="reinstall envspec: uv comes with it") from None
    return Uv(executable=executable, env=env, settings=_user_settings(env))


def _user_settings(env: Mapping[str, str]) -> dict[str, Any]:
    paths = [config_home(env, home_of(env)) / "uv" / "uv.toml", Path(etc("uv", "uv.toml"))]
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
    if isinstance(cache := merged.get("cache-dir"), str):
        merged["cache-dir"] = os.path.abspath(cache)
    return merged


# uv's own addresses of PyPI and the PyTorch indexes, without other settings.

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
    """Find the address of uv's PyTorch index for a variant ("cu126"), in uv's own message when it's asked for torch
    without a network; remembered likewise. None for a variant that it doesn't know."""

    def ask() -> str | None:
        with scratch_folder(cache_dir / "scratch") as folder:
            (folder / "requirements.in").write_text("torch\n", encoding="utf-8")
            options = ["--torch-backend", variant, "--offline", "--no-cache", "--verbose"]
            command = [*_COMPILE[:2], "requirements.in", *_COMPILE[3:], *options]
            log = uv.run(command, cwd=folder, more={"RUST_LOG": "uv_client=debug"}).stderr
        match = _ASKED_FOR.search(log)
        return match[1] if match else None

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
