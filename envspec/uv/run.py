"""uv as a process: one `uv pip compile` a resolution, its answer read from the pylock it prints.

Nothing of the target has to be on this machine: uv takes the Python version and the platform by name, and is told to
download no interpreter. uv's own settings that would change an answer (extra indexes, resolution mode, …) are kept
out; how to reach a network (TLS, proxies, keyring, cache) stays the user's.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli

from envspec.errors import InternalError, ToolError
from envspec.lock.inputs import requirement_name
from envspec.lock.toml_text import string
from envspec.net.fetch import give_up_seconds, read_timeout
from envspec.packages.requirement import parse_requirement
from envspec.packages.tags import MACOS
from envspec.redact import register_all
from envspec.resolve.pip.request import Preferences, Request
from envspec.uv.errors import PROJECT, failure, offline_failure
from envspec.uv.processes import Processes

# What the user may set for uv and still get the same answer: how to reach things, never what to choose.
_KEPT_UV_VARIABLES = re.compile(
    r"UV_(CACHE_DIR|NO_CACHE|NATIVE_TLS|SYSTEM_CERTS|KEYRING_PROVIDER|INSECURE_HOST|HTTP_.*|REQUEST_TIMEOUT|CONCURRENT_.*|INDEX_.+_(USERNAME|PASSWORD)|LINK_MODE)"
)
_BUILD_SECONDS = 1200
"""How long uv waits for the METADATA of a source that must be built for it."""
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")
_NO_PROXY = ("NO_PROXY", "no_proxy")
_KEPT_UV_SETTINGS = (
    "allow-insecure-host", "cache-dir", "concurrent-builds", "concurrent-downloads", "http-proxy", "https-proxy",
    "keyring-provider", "native-tls", "no-cache", "no-proxy", "system-certs",
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """One package of uv's answer. Exactly one of `files` (wheels or one sdist, as index files) and `git` and
    `archive` is set."""

    name: str
    version: str | None
    files: tuple[FoundFile, ...] = ()
    git: tuple[str, str, str | None] | None = None
    """URL, full commit, subdirectory."""
    archive: FoundFile | None = None


@dataclass(frozen=True)
class FoundFile:
    url: str
    file: str
    sha256: str | None
    size: int | None = None
    metadata_sha256: str | None = None
    """What the index's page says of the METADATA beside it."""


@dataclass(frozen=True)
class UvIndex:
    """An index as uv takes it. `explicit` ones serve only the packages that name them."""

    name: str
    url: str
    explicit: bool = False
    default: bool = False
    cacheable: bool = True


@dataclass
class Uv:
    """How to run uv on this machine.

    executable  the program
    env         the environment of this process
    settings    what of the user's uv.toml is kept, as TOML values
    offline     ask no network
    """

    executable: str
    env: Mapping[str, str]
    settings: Mapping[str, Any] = field(default_factory=dict)
    offline: bool = False
    processes: Processes = field(default_factory=Processes)

    def environment(self) -> dict[str, str]:
        """This process's environment without what would change uv's answer, and without Python downloads."""
        kept = {k: v for k, v in self.env.items() if not k.startswith("UV_") or _KEPT_UV_VARIABLES.fullmatch(k)}
        kept.pop("VIRTUAL_ENV", None)
        # uv takes the target's macOS from it
        kept["MACOSX_DEPLOYMENT_TARGET"] = ".".join(map(str, MACOS))
        bounds = {"UV_HTTP_TIMEOUT": f"{read_timeout(self.env):.0f}"}
        # a proxy can't reach this machine's loopback, where the index proxy is
        direct = {name: ",".join(filter(None, [kept.get(name), "127.0.0.0/8,localhost"])) for name in _NO_PROXY}
        return {**bounds, **kept, **direct, "UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1", "UV_NO_PROGRESS": "1"}

    def _cut_off(self, host: str) -> dict[str, str]:
        """What keeps uv from every network but the index proxy at `host`.

        uv's own `--offline` would refuse that one too. So uv is given a web proxy where nobody answers, for all others.
        """
        nowhere = dict.fromkeys(_PROXIES, "http://127.0.0.1:9")
        return {**nowhere, **dict.fromkeys(_NO_PROXY, host), "UV_HTTP_RETRIES": "0"}

    def run(
        self, arguments: Sequence[str], *, cwd: Path, more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run uv to its end, or until this process is interrupted or told to stop. `more` goes into its environment."""
        try:
            return self.processes.run(
                [self.executable, *arguments], cwd=cwd, env={**self.environment(), **(more or {})}
            )
        except OSError as error:
            raise ToolError(f"uv can't be started: {error}", hint="reinstall envspec: uv comes with it") from None

    def stop(self) -> None:
        """End every uv that this object started and that still runs, and those that it's asked to start from now on."""
        self.processes.stop()

    def compile(
        self,
        request: Request,
        *,
        preferences: Preferences,
        indexes: Sequence[UvIndex],
        folder: Path,
        label: str,
        torch_backend: str | None = None,
        no_pre_releases: Sequence[str] = (),
        proxy_host: str,
    ) -> tuple[Found, ...]:
        """Solve a request.

        Takes the versions to prefer, the indexes in uv's order, an empty folder for uv's input, and `label`, the
        targets' names for messages. `torch_backend` ("cu126") lets uv take the torch family from the live PyTorch
        index it knows; `no_pre_releases` names packages that may have none; `proxy_host` is the index proxy's address.

        Raises Unsatisfiable, IndexFailure or ToolError.
        """
        answer = folder / "pylock.answer.toml"
        (folder / "pyproject.toml").write_text(_project(request, indexes, for_ever=self.offline), encoding="utf-8")
        configuration = _configuration(self.settings, request, indexes, for_ever=self.offline)
        (folder / "uv.toml").write_text(configuration, encoding="utf-8")
        if preferences.versions or preferences.commits:
            answer.write_text(_preferences(preferences, request), encoding="utf-8")
        command = [
            "pip", "compile", "pyproject.toml", "--config-file", "uv.toml",
            "--python", sys.executable, "--python-version", request.python, "--python-platform", request.uv_platform,
            "--format", "pylock.toml", "--output-file", answer.name, "--no-header", "--quiet",
            # sources of indexes are shown as wheels; git and direct URLs remain, which uv builds where it may
            "--only-binary", ":all:", *(f"--no-binary={name}" for name in _built_by_uv(request)),
            *(f"--prerelease-package={name}=disallow" for name in no_pre_releases),
        ]  # fmt: skip
        if request.constraints:
            (folder / "constraints.txt").write_text("\n".join(request.constraints) + "\n", encoding="utf-8")
            command += ["--constraints", "constraints.txt"]
        if torch_backend:
            command += ["--torch-backend", torch_backend]
        # the proxy waits, tries again and gives up by the user's limits, and builds what may be built before it answers
        patience = give_up_seconds(self.env) + (_BUILD_SECONDS if request.allow_source else 0)
        more = {"UV_HTTP_TIMEOUT": f"{patience:.0f}"}
        if self.offline and torch_backend:
            command.append("--offline")
        elif self.offline:
            more |= self._cut_off(proxy_host)
        result = self.run(command, cwd=folder, more=more)
        if result.returncode:
            default = next((index.url for index in indexes if index.default), None)
            error = failure(result.returncode, result.stderr, label=label, offline=self.offline, index=default)
            raise offline_failure(error, label) if self.offline else error
        return read_pylock(answer.read_text(encoding="utf-8"))


def _built_by_uv(request: Request) -> list[str]:
    """What may be built and isn't a source of an index."""
    own = {requirement_name(text) for text in request.requirements if "@" in text}
    return [name for name in request.allow_source if name in own]


def find_uv(env: Mapping[str, str]) -> Uv:
    """The uv that was installed with envspec, with the user's own settings for reaching networks."""
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
            table = tomli.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError):
            continue
        register_all(table)
        merged.update({key: table[key] for key in _KEPT_UV_SETTINGS if key in table})
    return merged


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    return str(value) if isinstance(value, int) else string(str(value))


def _project(request: Request, indexes: Sequence[UvIndex], *, for_ever: bool) -> str:
    lines = ["[project]", f'name = "{PROJECT}"', 'version = "0"', f'requires-python = ">={request.python}"']
    lines += ["dependencies = [", *(f"  {string(requirement)}," for requirement in request.requirements), "]"]
    if request.sources:
        lines.append("[tool.uv.sources]")
        lines += [f"{string(package)} = {{ index = {string(index)} }}" for package, index in request.sources]
    for index in indexes:
        if index.explicit:
            lines += [
                "[[tool.uv.index]]",
                f"name = {string(index.name)}",
                f"url = {string(index.url)}",
                "explicit = true",
            ]
            if for_ever:
                lines.append('cache-control = { api = "max-age=365000000", files = "max-age=365000000, immutable" }')
    return "\n".join(lines) + "\n"


def _configuration(settings: Mapping[str, Any], request: Request, indexes: Sequence[UvIndex], *, for_ever: bool) -> str:
    """uv's configuration. `for_ever` takes every cached page for fresh, and leaves proxies out."""
    lines = [f"{key} = {_value(value)}" for key, value in settings.items() if not (for_ever and "proxy" in key)]
    if request.exclude_newer:
        lines.append(f"exclude-newer = {string(request.exclude_newer)}")
    for index in indexes:
        if index.explicit:
            continue
        lines += ["[[index]]", f"name = {string(index.name)}", f"url = {string(index.url)}"]
        if index.default:
            lines.append("default = true")
        if index.cacheable:
            # PyPI's own rules (pages live ten minutes, files never change), for mirrors that don't pass them on
            age = 365000000 if for_ever else 600
            lines.append(f'cache-control = {{ api = "max-age={age}", files = "max-age=365000000, immutable" }}')
    lines += _stated(request)
    return "\n".join(lines) + "\n"


def _stated(request: Request) -> list[str]:
    """METADATA with what it leaves out, stated for uv: it asks no index for that of these versions."""
    return [
        line
        for missing in request.missing
        for version in missing.builds()
        for line in (
            "[[dependency-metadata]]",
            f"name = {string(missing.package)}",
            f"version = {string(version)}",
            f"requires-dist = {_value([*missing.published, missing.requirement])}",
        )
    ]


def _preferences(preferences: Preferences, request: Request) -> str:
    """Versions and commits as a pylock, which uv reads from its output file and keeps where it can."""
    lines = ['lock-version = "1.0"', 'created-by = "envspec"']
    for name, version in sorted(preferences.versions.items()):
        lines += ["[[packages]]", f"name = {string(name)}", f"version = {string(version)}"]
    for text, commit in sorted(preferences.commits.items()):
        if text in request.requirements:
            url, revision = _git_address(text)
            asked = f", requested-revision = {string(revision)}" if revision else ""
            vcs = f'{{ type = "git", url = {string(url)}{asked}, commit-id = {string(commit)} }}'
            lines += ["[[packages]]", f"name = {string(requirement_name(text))}", f"vcs = {vcs}"]
    return "\n".join(lines) + "\n"


def _git_address(requirement: str) -> tuple[str, str]:
    """A git requirement's repository and revision (empty where it names none)."""
    from urllib.parse import urlsplit, urlunsplit

    parts = urlsplit(str(parse_requirement(requirement).url).removeprefix("git+"))
    path, _, revision = parts.path.rpartition("@") if "@" in parts.path else (parts.path, "", "")
    return urlunsplit((parts.scheme, parts.netloc, path, "", "")), revision


def read_pylock(text: str) -> tuple[Found, ...]:
    """The packages of a pylock.toml as uv writes it (PEP 751)."""
    return tuple(_found(package) for package in tomli.loads(text).get("packages", []))


def _found(package: Mapping[str, Any]) -> Found:
    name, version = package["name"], package.get("version")
    if "vcs" in package:
        vcs = package["vcs"]
        return Found(name, version, git=(vcs["url"], vcs["commit-id"], vcs.get("subdirectory")))
    if "archive" in package:
        return Found(name, version, archive=_file(package["archive"]))
    if "directory" in package:
        raise InternalError(f"{name} resolved to a local folder, which no lock can hold")
    files = package.get("wheels") or [package["sdist"]]
    return Found(name, version, files=tuple(_file(entry) for entry in files))


def _file(entry: Mapping[str, Any]) -> FoundFile:
    from urllib.parse import unquote, urlsplit

    url = entry.get("url") or entry.get("path", "")
    name = entry.get("name") or unquote(urlsplit(url).path).rsplit("/", 1)[-1]
    return FoundFile(url=url, file=name, sha256=entry.get("hashes", {}).get("sha256"), size=entry.get("size"))
