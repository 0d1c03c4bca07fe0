"""The user's settings: indexes, mirrors and caches, from uv's and pip's configuration and envspec's own file.

A lock names indexes ("pypi", "pytorch/cu126", a name from the spec); only this module turns a name into an address.
"""

from __future__ import annotations

import os
import re
import stat
from base64 import b64encode
from collections.abc import Iterable, Mapping
from configparser import ConfigParser, Error as ConfigParserError
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from msgspec import Struct, field

from envspec.base.documents import Unreadable, read_toml, read_yaml
from envspec.base.errors import InputError, Place
from envspec.base.places import (
    ENVIRONMENTS,
    cache_dir,
    config_home,
    environments_dir,
    etc,
    expand,
    expand_home,
    home_of,
    stranger,
    this_user,
)
from envspec.base.reader.document import key_path, toml
from envspec.base.redact import register, register_all, register_url
from envspec.configuration.user_config import PROXIES, Site, load_user_config, read_layers, refuse_no_address


class Settings(Struct, frozen=True):
    """default_index  the URL that stands for "pypi", None for uv's own default; may hold credentials
    default_from      the variable or the file that named it; empty for `[mirrors]` and for none
    mirrors           index name → URL, from `[mirrors]` of envspec's config ("pypi", "pytorch", "pytorch/cu126", …)
    unasked           what names further indexes in uv's and pip's settings: the spec's own are asked alone
    find_links        folders or pages that pip is configured to search; used to install, never to lock
    cache_dir         envspec's own cache
    cache_size        bytes that the cache may have, from `[cache] max-size`; None for any
    timeouts          index name → seconds to wait for bytes of it, from `[timeouts]`
    keyring           whether uv is told to ask the program `keyring` for passwords
    fetches_python    whether uv's settings let builds of Python be fetched
    environments      the folder of environments that have no prefix of their own
    scratch_dir       a folder for what commands write for a while, from `[cache] scratch`; None for the cache's own
    shared_cache      a cache that all users read, from `[cache] shared`; None for none
    shared_environments  environments that all users run, from `[run] shared`; None for none
    trusted           index name, as its variables spell it → the hosts that may get its login: those that uv's own
                      settings and envspec's give the name
    run_targets       patterns of the targets to run where none is named and the machine doesn't tell, the first first
    """

    cache_dir: Path
    default_index: str | None = None
    default_from: str = ""
    unasked: tuple[str, ...] = ()
    mirrors: Mapping[str, str] = field(default_factory=dict)
    find_links: tuple[str, ...] = ()
    cache_size: int | None = None
    timeouts: Mapping[str, float] = field(default_factory=dict)
    keyring: bool = False
    fetches_python: bool = True
    environments: Path = Path()
    scratch_dir: Path | None = None
    shared_cache: Path | None = None
    shared_environments: Path | None = None
    trusted: Mapping[str, frozenset[str]] = field(default_factory=dict)
    run_targets: tuple[str, ...] = ()
    site: Site = field(default_factory=Site)

    def cache(self) -> Path:
        """envspec's own cache, to read and write: made if need be, for its user alone.

        What others may write to could hold anything: METADATA, addresses, packages. Raises InputError for that. A
        cache that can't be made is no error: whoever writes to it says so, or does without.
        """
        refuse_shared_cache(self.cache_dir)
        with suppress(OSError):
            self.cache_dir.parent.mkdir(parents=True, exist_ok=True)
            self.cache_dir.mkdir(mode=0o700, exist_ok=True)
        return self.cache_dir

    def scratch(self) -> Path:
        """Give the folder below which each run makes one of its own, and removes it. Raises InputError for a cache or
        a folder in which another plain user may put something in its place."""
        if self.scratch_dir is None:
            return self.cache() / "scratch"
        with suppress(OSError):
            status = self.scratch_dir.stat()
            # as in /tmp, where each may remove only what is their own
            if status.st_mode & stat.S_ISVTX and status.st_uid in (0, this_user()):
                return self.scratch_dir
        return trusted_folder(self.scratch_dir, "[cache] scratch") or self.scratch_dir

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

    def flat_url(self, name: str, page: str) -> str:
        """Give the URL of a flat index's page: in the user's mirror of its folder if there is one, else the spec's."""
        mirror = self.mirrors.get(name)
        return f"{mirror.rstrip('/')}/{page.rstrip('/').rpartition('/')[2]}" if mirror else page

    def index_urls(self, spec_indexes: Mapping[str, str]) -> dict[str, str]:
        """Give the URLs of all of a spec's named indexes that have one, by name."""
        return {name: url for name in spec_indexes if (url := self.index_url(name, spec_indexes))}


def trusted_folder(folder: Path | None, key: str) -> Path | None:
    """Give a folder that all users share; None where there is none. Raises InputError for one that another plain user,
    or a group, may write to: what is in it would run as them. `key` is the setting that names it."""
    try:
        who = stranger(folder.stat(), this_user()) if folder is not None else None
    except OSError:
        return None
    if who:
        hint = "ask who runs this machine: it has to be root's or yours, and no group's to write to"
        raise InputError(f"what {key} names can't be trusted: {who}", hint=hint, place=Place(str(folder)))
    return folder


def refuse_shared_cache(cache: Path) -> None:
    """Raise InputError for a cache that others than its user and root may write to, or whose folders they may."""
    user = this_user()
    try:
        whole = cache.stat()
        # where nobody else gets in, it doesn't matter what they could do there
        inside = sorted(cache.iterdir()) if whole.st_mode & 0o011 else []
    except OSError:
        return
    for path in (cache, *inside):
        try:
            who = stranger(whole if path is cache else path.lstat(), user) if not path.is_symlink() else None
        except OSError:
            continue
        if who:
            hint = f"see what is in it, then `chmod -R go-w {cache}`; or give ENVSPEC_CACHE_DIR a folder of your own"
            raise InputError(f"the cache can't be trusted: {who}", hint=hint, place=Place(str(path)))


class Credentials(Struct, frozen=True):
    username: str
    password: str

    @property
    def basic(self) -> str:
        """The `Authorization` header that says them, in UTF-8 as RFC 7617 has it and uv sends it."""
        pair = f"{self.username}:{self.password}".encode("utf-8", "surrogateescape")
        return f"Basic {b64encode(pair).decode()}"

    def within(self, url: str) -> str:
        """Put them into a URL without any."""
        scheme, _, rest = url.partition("://")
        return f"{scheme}://{quote(self.username, safe='')}:{quote(self.password, safe='')}@{rest}"

    def mask(self) -> Credentials:
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
    stem = f"UV_INDEX_{variable_name(name)}"
    user, password = env.get(f"{stem}_USERNAME"), env.get(f"{stem}_PASSWORD")
    return Credentials(user or "", password or "").mask() if user or password else None


def variable_name(index: str) -> str:
    """Spell an index's name as uv's variables do."""
    return "".join(c if c.isalnum() else "_" for c in index.upper())


def host_of(url: str) -> str:
    """Give the host of a URL, with the port that it names, in small letters and without a login; empty for none."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def load_settings(env: Mapping[str, str] | None = None, home: Path | None = None) -> Settings:
    """Read the user's settings, and mask their secrets in all output.

    Order for PyPI's address: UV_DEFAULT_INDEX, UV_INDEX_URL, PIP_INDEX_URL, pip.conf,
    uv.toml, then `[mirrors] pypi` of envspec's config (docs/resolution.md).

    Raises InputError when a file that envspec owns (its config) is broken, and for an address that is none of http,
    https and file, wherever it was set; broken files of pip and uv are theirs to report.
    """
    env = os.environ if env is None else env
    home = home_of(env) if home is None else home
    configs = config_home(env, home)
    pip = _pip_config(env, home, configs)
    config = load_user_config(env, str(home))
    mirrors = {name: _from_home(place, env) for name, place in config.mirrors.items()}
    uv_files = _uv_files(env, configs)
    named = [(variable, env.get(variable)) for variable in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")]
    named.append((f"index-url of {pip.get('file')}", pip.get("index-url")))
    named += [(f"the default index of {path}", _uv_default_index(table)) for path, table in uv_files.items()]
    where, default = next(((where, url) for where, url in named if url), ("", None))
    if default:
        # uv takes `<name>=<url>` as well
        default = re.sub(r"^[\w-]+=(?=[a-z]+://)", "", default) if where == "UV_DEFAULT_INDEX" else default
        refuse_no_address(default, where)
    config.refuse_other("mirrors.pypi", mirrors.get("pypi"), default, where)
    for key, mine, variable in (
        ("run.environments", config.environments, ENVIRONMENTS),
        ("run.targets", ",".join(config.run_targets), "ENVSPEC_DEFAULT_TARGET"),
    ):
        config.refuse_other(key, mine, env.get(variable) or None, variable)
    for variable in PROXIES:
        # an empty one says: none
        config.refuse_other("site.proxy", config.site.proxy, env.get(variable), variable)
    further = {name: env.get(name) for name in ("UV_EXTRA_INDEX_URL", "PIP_EXTRA_INDEX_URL")}
    further["extra-index-url of pip's configuration"] = pip.get("extra-index-url")
    further |= {f"extra-index-url of {path}": table.get("extra-index-url") for path, table in uv_files.items()}
    links = (
        env.get("UV_FIND_LINKS", "").split(",")
        + env.get("PIP_FIND_LINKS", "").split()
        + pip.get("find-links", "").split()
    )
    for url in (default or "", *mirrors.values(), *links):
        register_url(url)
    return Settings(
        cache_dir=cache_dir(env, home),
        environments=environments_dir(env, home, config.environments),
        scratch_dir=expand(config.scratch, env) if config.scratch else None,
        shared_cache=expand(config.shared_cache, env) if config.shared_cache else None,
        shared_environments=expand(config.shared_environments, env) if config.shared_environments else None,
        trusted=_trusted_hosts(env, uv_files.values(), config.trusted_indexes),
        run_targets=_names(env.get("ENVSPEC_DEFAULT_TARGET")) or config.run_targets,
        default_index=default or mirrors.get("pypi"),
        default_from=where,
        unasked=tuple(name for name, url in further.items() if url),
        mirrors=mirrors,
        find_links=tuple(dict.fromkeys(_from_home(link, env) for link in links if link)),
        cache_size=config.cache_size,
        timeouts=config.timeouts,
        keyring=_uv_setting(env, "UV_KEYRING_PROVIDER", uv_files.values(), "keyring-provider") == "subprocess",
        fetches_python=_uv_setting(env, "UV_PYTHON_DOWNLOADS", uv_files.values(), "python-downloads") not in _NO_PYTHON,
        site=config.site,
    )


def _from_home(place: str, env: Mapping[str, str]) -> str:
    """Give an address or a folder; a folder that begins with `~` as it is on this machine."""
    return str(expand_home(place, env)) if place.startswith("~") else place


def configured_values(env: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    """Give each value of envspec's configuration that counts, and PyPI's address: its key, the value as TOML has it,
    and the file or variable that says it. Raises InputError as `load_settings`."""
    layers, settings = read_layers(env, str(home_of(env))), load_settings(env)
    values = {key_path(path): (toml(value), str(layers.place(path))) for path, value in layers.leaves()}
    if settings.default_from:
        values["mirrors.pypi"] = (toml(settings.default_index), settings.default_from)
    return tuple((key, *stated) for key, stated in values.items())


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, (text or "").split(","))))


def _pip_config(env: Mapping[str, str], home: Path, config_home: Path) -> dict[str, str]:
    """Read pip's configuration in pip's precedence: site, user, then PIP_CONFIG_FILE; `[install]` over `[global]`."""
    if env.get("PIP_CONFIG_FILE") == os.devnull:
        return {}
    files = [Path(etc("pip.conf")), home / ".pip" / "pip.conf", config_home / "pip" / "pip.conf"]
    if env.get("PIP_CONFIG_FILE"):
        files.append(Path(env["PIP_CONFIG_FILE"]))
    settings: dict[str, str] = {}
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
                settings.update(parser.items(section))
                if parser.has_option(section, "index-url"):
                    settings["file"] = str(path)
    return settings


def _uv_files(env: Mapping[str, str], config_home: Path) -> dict[Path, Mapping[str, Any]]:
    """uv's configuration, the user's before the system's; what can't be read is uv's to report."""
    named = env.get("UV_CONFIG_FILE")
    paths = [Path(named)] if named else [config_home / "uv" / "uv.toml", Path(etc("uv", "uv.toml"))]
    tables: dict[Path, Mapping[str, Any]] = {}
    for path in paths:
        try:
            table = read_toml(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, Unreadable):
            continue
        register_all(table)
        tables[path] = table
    return tables


def _uv_default_index(table: Mapping[str, Any]) -> str | None:
    """The default index of one of uv's configurations."""
    listed, pip = table.get("index"), table.get("pip")
    for index in listed if isinstance(listed, list) else ():
        if isinstance(index, dict) and index.get("default") and isinstance(index.get("url"), str):
            return str(index["url"])
    url = table.get("index-url") or (pip.get("index-url") if isinstance(pip, dict) else None)
    return url if isinstance(url, str) else None


def _trusted_hosts(
    env: Mapping[str, str], files: Iterable[Mapping[str, Any]], own: Mapping[str, str]
) -> dict[str, frozenset[str]]:
    """The hosts that the user has bound to names of indexes: in UV_INDEX and UV_DEFAULT_INDEX (`<name>=<url>`), in
    `[[index]]` of uv's configuration, in `[trusted-indexes]` of envspec's."""
    bindings = [text.partition("=") for key in ("UV_INDEX", "UV_DEFAULT_INDEX") for text in env.get(key, "").split()]
    pairs = [(name, host_of(url)) for name, mark, url in bindings if mark and "://" in url and "://" not in name]
    for table in files:
        listed = table.get("index")
        for index in listed if isinstance(listed, list) else ():
            if isinstance(index, dict) and isinstance(index.get("name"), str) and isinstance(index.get("url"), str):
                pairs.append((index["name"], host_of(index["url"])))
    pairs += own.items()
    names = {variable_name(name) for name, _ in pairs}
    return {
        own_name: frozenset(host for name, host in pairs if host and variable_name(name) == own_name)
        for own_name in names
    }


_NO_PYTHON = ("never", "manual", "false")
"""Values with which uv fetches no Python by itself."""


def _uv_setting(env: Mapping[str, str], variable: str, files: Iterable[Mapping[str, Any]], key: str) -> str:
    """One of uv's settings, in small letters: by its variable, else by the first file that has its key."""
    values = (str(table[key]) for table in files if key in table)
    return (env.get(variable, "").strip() or next(values, "")).lower()


# conda's own configuration: the `.condarc` files of this machine and their settings.


def condarc_files(env: Mapping[str, str]) -> list[Path]:
    """List the files that exist, in the order of conda's documentation ("Searching for .condarc"): later ones win."""
    home = home_of(env)
    folders = [Path(etc("conda"))]
    if env.get("CONDA_ROOT"):
        folders.append(Path(env["CONDA_ROOT"]))
    folders += [config_home(env, home) / "conda", home / ".conda"]
    paths = [folder / name for folder in folders for name in (".condarc", "condarc")]
    paths.append(home / ".condarc")
    if env.get("CONDA_PREFIX"):
        paths.append(Path(env["CONDA_PREFIX"]) / ".condarc")
    if env.get("CONDARC"):
        paths.append(expand_home(env["CONDARC"], env))
    return [path for path in paths if os.path.isfile(path)]


def read_condarc(path: Path) -> dict[str, Any]:
    """Read the settings of one file, none where it has no table.

    Raises InputError for a file that isn't YAML.
    """
    try:
        table = read_yaml(os.path.expandvars(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, Unreadable) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"conda's configuration can't be read: {reason}", place=Place(str(path))) from None
    return table if isinstance(table, dict) else {}
