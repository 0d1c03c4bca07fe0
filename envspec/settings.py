"""The user's settings: indexes, mirrors and caches, from uv's and pip's configuration and envspec's own file.

A lock names indexes ("pypi", "pytorch/cu126", a name from the spec); only this module turns a name into an address.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

import tomli

from envspec.errors import InputError, Place
from envspec.redact import redact, register, register_all, register_url


@dataclass(frozen=True)
class Settings:
    """default_index  the URL that stands for "pypi", None for uv's own default; may hold credentials
    mirrors           index name → URL, from `[mirrors]` of envspec's config ("pypi", "pytorch", "pytorch/cu126", …)
    find_links        folders or pages that pip is configured to search; used to install, never to lock
    cache_dir         envspec's own cache
    """

    cache_dir: Path
    default_index: str | None = None
    mirrors: Mapping[str, str] = field(default_factory=dict)
    find_links: tuple[str, ...] = ()

    def pytorch_mirror(self, variant: str) -> str | None:
        """Give the URL of the PyTorch index of a variant ("cu126") where the user configured a mirror, else None."""
        exact = self.mirrors.get(f"pytorch/{variant}")
        if exact:
            return exact.rstrip("/")
        base = self.mirrors.get("pytorch")
        return f"{base.rstrip('/')}/{variant}" if base else None

    def index_url(self, name: str, spec_indexes: Mapping[str, str]) -> str | None:
        """Give the URL of a spec's named index: the user's mirror of it if there is one, else the spec's own."""
        return self.mirrors.get(name) or spec_indexes.get(name)

    def index_urls(self, spec_indexes: Mapping[str, str]) -> dict[str, str]:
        """Give the URLs of all of a spec's named indexes that have one, by name."""
        return {name: url for name in spec_indexes if (url := self.index_url(name, spec_indexes))}


@dataclass(frozen=True)
class Credentials:
    username: str
    password: str

    def masked(self) -> Credentials:
        """Give these credentials, and mask the password in all output from here on."""
        register(self.password, self.username)
        return self


def split_credentials(url: str) -> tuple[str, Credentials | None]:
    """Split a URL into itself without its user part, and that part decoded."""
    parts = urlsplit(url)
    if parts.username is None:
        return url, None
    host = parts.netloc.rpartition("@")[2]
    bare = urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment))
    return bare, Credentials(unquote(parts.username), unquote(parts.password or ""))


def index_credentials(name: str, env: Mapping[str, str]) -> Credentials | None:
    """Read the credentials of a spec's named index as uv does: UV_INDEX_<NAME>_USERNAME and _PASSWORD."""
    stem = "UV_INDEX_" + "".join(c if c.isalnum() else "_" for c in name.upper())
    user, password = env.get(f"{stem}_USERNAME"), env.get(f"{stem}_PASSWORD")
    return Credentials(user or "", password or "").masked() if user or password else None


def load_settings(env: Mapping[str, str] | None = None, home: Path | None = None) -> Settings:
    """Read the user's settings, and mask their secrets in all output.

    Order for PyPI's address: UV_DEFAULT_INDEX, UV_INDEX_URL, PIP_INDEX_URL, pip.conf,
    uv.toml, then `[mirrors] pypi` of envspec's config (DESIGN §4).

    Raises InputError when a file that envspec owns (its config) is broken, and for an address that is none of http,
    https and file, wherever it was set; broken files of pip and uv are theirs to report.
    """
    env = os.environ if env is None else env
    home = Path(env.get("HOME", "~")).expanduser() if home is None else home
    config_home = Path(env.get("XDG_CONFIG_HOME") or home / ".config")
    pip = _pip_config(env, home, config_home)
    mirrors = _envspec_mirrors(config_home / "envspec" / "config.toml", env.get("ENVSPEC_CONFIG"))
    named = [(variable, env.get(variable)) for variable in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")]
    named.append(("index-url of pip's configuration", pip.get("index-url")))
    named.append(("the default index of uv.toml", _uv_default_index(env, config_home)))
    where, default = next(((where, url) for where, url in named if url), ("", None))
    if default:
        # uv takes `<name>=<url>` as well
        default = re.sub(r"^[\w-]+=(?=[a-z]+://)", "", default) if where == "UV_DEFAULT_INDEX" else default
        _refuse_no_address(default, where)
    links = (
        env.get("UV_FIND_LINKS", "").split(",")
        + env.get("PIP_FIND_LINKS", "").split()
        + pip.get("find-links", "").split()
    )
    for url in (default or "", *mirrors.values(), *links):
        register_url(url)
    cache = env.get("ENVSPEC_CACHE_DIR") or Path(env.get("XDG_CACHE_HOME") or home / ".cache") / "envspec"
    return Settings(
        cache_dir=Path(cache),
        default_index=default or mirrors.get("pypi"),
        mirrors=mirrors,
        find_links=tuple(dict.fromkeys(link for link in links if link)),
    )


def _pip_config(env: Mapping[str, str], home: Path, config_home: Path) -> dict[str, str]:
    """Read pip's configuration in pip's precedence: site, user, then PIP_CONFIG_FILE; `[install]` over `[global]`."""
    if env.get("PIP_CONFIG_FILE") == os.devnull:
        return {}
    files = [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", config_home / "pip" / "pip.conf"]
    if env.get("PIP_CONFIG_FILE"):
        files.append(Path(env["PIP_CONFIG_FILE"]))
    found: dict[str, str] = {}
    for path in files:
        parser = ConfigParser(interpolation=None, strict=False)
        try:
            parser.read(path, encoding="utf-8")
        except (OSError, UnicodeDecodeError, ConfigParserError):
            continue
        for name in parser.sections():
            register_all(dict(parser.items(name)))
        for section in ("global", "install"):
            if parser.has_section(section):
                found.update(parser.items(section))
    return found


def _uv_default_index(env: Mapping[str, str], config_home: Path) -> str | None:
    """Read the default index of uv's user or system configuration."""
    files = (
        [Path(env["UV_CONFIG_FILE"])]
        if env.get("UV_CONFIG_FILE")
        else [config_home / "uv" / "uv.toml", Path("/etc/uv/uv.toml")]
    )
    for path in files:
        try:
            table = tomli.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError):
            continue
        register_all(table)
        listed, pip = table.get("index"), table.get("pip")
        for index in listed if isinstance(listed, list) else ():
            if isinstance(index, dict) and index.get("default") and isinstance(index.get("url"), str):
                return str(index["url"])
        url = table.get("index-url") or (pip.get("index-url") if isinstance(pip, dict) else None)
        if isinstance(url, str):
            return url
    return None


def _envspec_mirrors(usual: Path, asked: str | None) -> dict[str, str]:
    """Read `[mirrors]` of envspec's configuration: of the file in ENVSPEC_CONFIG, which must exist, else the usual
    one.
    """
    path = Path(asked or usual)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        if asked:
            raise InputError(
                f"ENVSPEC_CONFIG names {path}, which can't be read: {error.strerror}", hint="correct it, or unset it"
            ) from None
        return {}
    except UnicodeDecodeError:
        raise InputError("the configuration isn't UTF-8", place=Place(str(path)), hint="save it as UTF-8") from None
    try:
        table = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        raise InputError(
            f"the configuration isn't TOML: {error.msg}",
            hint='correct this line; the file holds [mirrors], and below it lines of name = "URL"',
            place=Place(str(path), error.lineno, error.colno),
        ) from None
    for key in table:
        if key != "mirrors":
            raise InputError(
                f"a configuration can't have {key!r}",
                hint="it takes one table, [mirrors]",
                place=_place(path, text, key),
            )
    mirrors = table.get("mirrors", {})
    if not isinstance(mirrors, dict) or not all(isinstance(url, str) for url in mirrors.values()):
        raise InputError(
            "[mirrors] takes names and URLs",
            hint='for example: [mirrors] pytorch = "https://mirror.example/pytorch"',
            place=_place(path, text, "mirrors"),
        )
    for name, url in mirrors.items():
        # a conda channel's may be of another kind: a folder, a name, an object store
        if name in ("pypi", "pytorch") or name.startswith("pytorch/"):
            _refuse_no_address(url, f"[mirrors] {name}", _place(path, text, name))
    return dict(mirrors)


def _place(path: Path, text: str, key: str) -> Place:
    """Find where a key or a table of that name begins, by lines alone."""
    begins = re.compile(rf"""[ \t]*(?:\[+[ \t]*)?["']?(?={re.escape(key)}(?![\w-]))""")
    for number, line in enumerate(text.splitlines(), start=1):
        found = begins.match(line)
        if found:
            return Place(str(path), number, found.end() + 1)
    return Place(str(path))


def _refuse_no_address(url: str, where: str, place: Place | None = None) -> None:
    """Check that an index can have this address. Raises InputError, without credentials, if it can't."""
    try:
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
