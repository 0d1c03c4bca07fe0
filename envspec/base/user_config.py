"""envspec's own configuration, `~/.config/envspec/config.toml`: what belongs to a user or a site and not to a spec."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from envspec.base.documents import Unreadable, read_toml
from envspec.base.errors import InputError, Place
from envspec.base.places import config_home, home_of
from envspec.base.redact import has_credentials, redact, register_url
from envspec.base.site import ARCHIVES, Site, read_site
from envspec.base.texts import bytes_of, nearest

HOST = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
"""A host, with a port or without."""
_LONGEST = 3600.0
"""Seconds that an index may be waited for: a run that waits longer for a byte is hung."""


@dataclass(frozen=True)
class UserConfig:
    """mirrors     index, channel or registry name → URL
    cache_size  bytes that the cache may have; None for any
    timeouts    index name → seconds to wait for bytes of it
    environments  the folder of environments that have no prefix of their own, as written; None for the usual one
    run_targets   patterns of targets for `envspec run`, where the machine doesn't tell
    site          what `[site]` says
    trusted_indexes  index name → the host, with its port if it isn't the scheme's, that may get its login
    """

    mirrors: Mapping[str, str] = field(default_factory=dict)
    cache_size: int | None = None
    timeouts: Mapping[str, float] = field(default_factory=dict)
    environments: str | None = None
    run_targets: tuple[str, ...] = ()
    site: Site = field(default_factory=Site)
    trusted_indexes: Mapping[str, str] = field(default_factory=dict)


def load_user_config(usual: Path, asked: str | None) -> UserConfig:
    """Read the file asked for, which must be there, else the usual one. Raises InputError for a broken one."""
    path = Path(asked or usual)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        if asked:
            raise InputError(
                f"ENVSPEC_CONFIG names {path}, which can't be read: {error.strerror}", hint="correct it, or unset it"
            ) from None
        return UserConfig()
    except UnicodeDecodeError:
        raise InputError("the configuration isn't UTF-8", place=Place(str(path)), hint="save it as UTF-8") from None
    try:
        table = read_toml(text)
    except Unreadable as error:
        raise InputError(
            f"the configuration isn't TOML: {error.reason}",
            hint='correct this line; the file holds [mirrors], and below it lines of name = "URL"',
            place=Place(str(path), error.line, error.column),
        ) from None
    return _Reader(path, text, table).config()


def trust_index(env: Mapping[str, str], name: str, host: str) -> Path:
    """Write into envspec's configuration that the login of an index of this name may go to this host, and give the
    file. What else the file says stays as it is. Raises InputError for a file that isn't
    TOML or can't be written."""
    import tomlkit
    from tomlkit.exceptions import ParseError

    path = Path(env.get("ENVSPEC_CONFIG") or config_home(env, home_of(env)) / "envspec" / "config.toml")
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
    except (ParseError, UnicodeDecodeError):
        raise InputError("the configuration isn't TOML", place=Place(str(path)), hint="correct it first") from None
    document.setdefault("trusted-indexes", tomlkit.table())[name] = host
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(tomlkit.dumps(document), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} can't be written: {error.strerror}", hint="write [trusted-indexes] there") from None
    return path


@dataclass(frozen=True)
class _Reader:
    path: Path
    text: str
    table: Mapping[str, Any]

    def config(self) -> UserConfig:
        for key in self.table:
            if key not in _TABLES:
                near = nearest(key, _TABLES)
                tables = "it has the tables " + ", ".join(f"[{name}]" for name in _TABLES)
                raise self._error(
                    f"a configuration can't have {key!r}", (near and f"did you mean [{near}]?") or tables, key
                )
        site = read_site(self.table.get("site", {}), self._place)
        return UserConfig(self._mirrors(), self._cache_size(), self._timeouts(), *self._run(), site, self._trusted())

    def _mirrors(self) -> dict[str, str]:
        mirrors = self.table.get("mirrors", {})
        if not isinstance(mirrors, dict) or not all(isinstance(url, str) for url in mirrors.values()):
            example = 'for example: [mirrors] pytorch = "https://mirror.example/pytorch"'
            raise self._error("[mirrors] takes names and URLs", example, "mirrors")
        for name, url in mirrors.items():
            # a conda channel's may be of another kind: a folder, a name, an object store
            of_apt = name in ARCHIVES
            if of_apt or name in ("pypi", "pytorch") or name.startswith("pytorch/") or not _can_be_split(url):
                refuse_no_address(url, f"[mirrors] {name}", self._place(name))
            if of_apt:
                self._refuse_for_apt(name, url)
        return dict(mirrors)

    def _trusted(self) -> dict[str, str]:
        trusted = self.table.get("trusted-indexes", {})
        if not isinstance(trusted, dict) or not all(isinstance(host, str) for host in trusted.values()):
            example = 'for example: [trusted-indexes] internal = "packages.example.org"'
            raise self._error("[trusted-indexes] takes names and hosts", example, "trusted-indexes")
        for name, host in trusted.items():
            if not HOST.fullmatch(host):
                raise self._error(f"[trusted-indexes] {name} is no host", "give a host, or host:port", name)
        return {name: host.lower() for name, host in trusted.items()}

    def _refuse_for_apt(self, name: str, url: str) -> None:
        """Refuse an address that a build couldn't be given: its value is seen by whoever looks at the image."""
        register_url(url)
        if has_credentials(url):
            raise self._error(
                f"[mirrors] {name} has a login, and builds show what they are given",
                "take the login out, or let the site's proxy log in",
                name,
            )
        if not re.fullmatch(r"https?://[A-Za-z0-9._~:/@%+\[\]-]+", url):
            shown = f"[mirrors] {name} is {redact(url)!r}, which apt can't be given"
            raise self._error(shown, "give an http or https address without blanks, quotes and queries", name)

    def _cache_size(self) -> int | None:
        cache = self.table.get("cache", {})
        example = 'for example: [cache] max-size = "20 GB"'
        if not isinstance(cache, dict):
            raise self._error("[cache] is a table", example, "cache")
        for key in cache:
            if key != "max-size":
                raise self._error(f"[cache] has no {key!r}", example, key)
        if "max-size" not in cache:
            return None
        size = bytes_of(cache["max-size"]) if isinstance(cache["max-size"], str) else None
        if size is None:
            raise self._error(f"[cache] max-size is {cache['max-size']!r}, which is no size", example, "max-size")
        return size

    def _timeouts(self) -> dict[str, float]:
        timeouts = self.table.get("timeouts", {})
        example = "for example: [timeouts] internal = 120"
        if not isinstance(timeouts, dict):
            raise self._error("[timeouts] takes names of indexes and seconds", example, "timeouts")
        for name, seconds in timeouts.items():
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST:
                told = f"[timeouts] {name} is {seconds!r}, which is no number of seconds up to {_LONGEST:.0f}"
                raise self._error(told, example, name)
        return {name: float(seconds) for name, seconds in timeouts.items()}

    def _run(self) -> tuple[str | None, tuple[str, ...]]:
        run = self.table.get("run", {})
        example = 'for example: [run] environments = "/scratch/$USER/environments"'
        if not isinstance(run, dict):
            raise self._error("[run] is a table", example, "run")
        for key in run:
            if key not in ("environments", "targets"):
                near = nearest(key, ("environments", "targets"))
                raise self._error(f"[run] has no {key!r}", f"did you mean {near!r}?" if near else example, key)
        folder, targets = run.get("environments"), run.get("targets", [])
        if folder is not None and not (isinstance(folder, str) and folder.startswith(("/", "~", "$"))):
            raise self._error(f"[run] environments is {folder!r}, which is no absolute path", example, "environments")
        if not isinstance(targets, list) or not all(isinstance(name, str) and name for name in targets):
            example = 'for example: [run] targets = ["cu128-hopper", "cu128-*"]'
            raise self._error("[run] targets is no list of targets' names", example, "targets")
        return folder, tuple(targets)

    def _error(self, message: str, hint: str, key: str) -> InputError:
        return InputError(message, hint=hint, place=self._place(key))

    def _place(self, key: str) -> Place:
        return place_of_key(self.path, self.text, key)


_TABLES = ("mirrors", "cache", "timeouts", "run", "site", "trusted-indexes")


def place_of_key(path: Path, text: str, key: str) -> Place:
    """Where a key or a table of that name begins, as far as lines tell: at a line's begin, else within one."""
    own = rf"""["']?(?={re.escape(key)}(?![\w-]))"""
    for begins in (rf"[ \t]*(?:\[+[ \t]*)?{own}", rf"[^#\n]*?[{{,][ \t]*{own}(?=[^,}}]*=)"):
        for number, line in enumerate(text.splitlines(), start=1):
            found = re.match(begins, line)
            if found:
                return Place(str(path), number, found.end() + 1)
    return Place(str(path))


def _can_be_split(url: str) -> bool:
    """Whether whoever takes a URL apart later gets through: `http://[` isn't even wrong."""
    try:
        urlsplit(url)
    except ValueError:
        return False
    return True


def refuse_no_address(url: str, where: str, place: Place | None = None) -> None:
    """Raises InputError, credentials removed, unless it is an address that an index may have."""
    try:
        url.encode()  # bytes of a variable that aren't UTF-8 are in no address
        parts = urlsplit(url.strip())
        fine = parts.scheme == "file" or (parts.scheme in ("http", "https") and bool(parts.hostname))
    except ValueError:
        fine = False
    if not fine:
        # what can't be taken apart may hold a password anywhere before the last @
        register_url(url)
        shown = redact(url).rpartition("@")[2]
        raise InputError(
            f"{where} is {shown!r}, which isn't an http, https or file address",
            hint="give the whole address, for example https://mirror.example/simple",
            place=place,
        )
