"""envspec's own configuration: what belongs to a user or a site and not to a spec.

Three files say it, merged key by key: the site's `/etc/envspec/config.toml`, the user's `~/.config/envspec/config.toml`
over it, and the one that `ENVSPEC_CONFIG` names over both. What the site's `final` names is the site's alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

import tomli
from msgspec import Struct, field

from envspec.base.errors import InputError, Place
from envspec.base.places import config_paths, read_site_file
from envspec.base.reader.document import Document, decode, key_path, merge, parse_toml, show
from envspec.base.reader.nodes import CONTROL, Array, Names, Node, Number, Table, Text, table_of
from envspec.base.reader.structure import Checked
from envspec.base.redact import has_credentials, redact, register_url
from envspec.base.texts import bytes_of

# `[site]` of the user's own configuration: what belongs to a site and to no spec. Its mirrors are in `[mirrors]`.
#
# A lock and a recipe never hold any of it: it reaches builds as arguments and variables, and jobs through their
# command.

ARCHIVES = ("debian", "debian-security", "debian-snapshot", "ubuntu", "ubuntu-ports")
"""The keys of `[mirrors]` for archives that apt reads: the paths that these have on every public mirror.
`debian-snapshot` is the archive of snapshots, which has `debian/20261101T000000Z/`."""
PROXY_VARIABLES = ("http_proxy", "https_proxy", "no_proxy")
"""The variables by which programs learn of a proxy, in the form that all of them read."""
PROXIES = tuple(spelled for name in ("http_proxy", "https_proxy", "all_proxy") for spelled in (name, name.upper()))
"""All that name one."""

_FEATURE = Text(
    doc="A feature of nodes.", example="h100", says="a feature's name", pattern="[A-Za-z0-9_][A-Za-z0-9_.:=-]{0,99}"
)
_DRIVER = Text(
    doc="A driver's version.", example="550", says="a driver's version", pattern=r"[1-9][0-9]{2,3}(?:\.[0-9]+)*"
)
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,99}"
_CRAY = "/opt/cray/libfabric/1.22.0/lib64"
_HOST_PATH = Text(
    doc="A path of the host.",
    example=_CRAY,
    says="an absolute path without blanks, colons and commas",
    pattern=r"/[A-Za-z0-9._/+@-]*",
)
_PARTITIONS = Text(example="gpu", says="a list of Slurm partitions", pattern=f"{_NAME}(?:,{_NAME})*")
_VARIABLE = Text(
    doc="One.",
    example="NCCL_IB_HCA",
    says="a variable of NCCL, libfabric or UCX",
    pattern="(?:NCCL|OFI_NCCL|FI|UCX)_[A-Z0-9_]+",
)
_VARIABLES = Names(names=_VARIABLE, values=Text(doc="Its value.", example="mlx5", says="a value", pattern=r"[ -!#-~]*"))
_PROXY = Text(example="http://proxy.example:3128", says="an HTTP proxy's address", pattern="[!-~]+", secret=True)
_NEAR = Array(
    items=Text(doc="A host.", example="10.1.2.3", says="a host or a domain", pattern=r"[A-Za-z0-9.*:\[\]/_-]+"),
    example=("example.org", "10.1.2.3"),
)
_FEATURES = Names(names=Text(doc="A GPU.", example="H100"), values=_FEATURE)


class SlurmSite(Struct, frozen=True):
    """Its cluster, for jobs whose spec doesn't say.

    account    An account.
    partition  Partitions.
    features   A GPU as specs name it ("H100", "hopper", "sm_90") → the feature that its nodes have in this cluster.
    drivers    A driver's version → the feature of the nodes that have it, or a newer one.

    `places` has the place of each of those names.
    """

    account: Annotated[str | None, Text(example="proj-vision", says="a Slurm account", pattern=_NAME)] = None
    partition: Annotated[str | None, _PARTITIONS] = None
    features: Annotated[Mapping[str, str], _FEATURES] = field(default_factory=dict)
    drivers: Annotated[Mapping[str, str], Names(names=_DRIVER, values=_FEATURE)] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)


FABRICS = ("infiniband", "roce", "efa", "slingshot")
"""The networks between nodes that `envspec.facts.fabrics` knows."""


class FabricSite(Struct, frozen=True):
    """The network between its nodes.

    kind       One of FABRICS; None for none.
    libraries  The host's folders of libfabric and NCCL's plugin: containers get them, and programs look into them.
    binds      Further paths of the host that containers need.
    variables  Of NCCL and libfabric, over those that envspec knows; an empty one takes one of these out.
    """

    kind: Annotated[str | None, Text(example="slingshot", choices=FABRICS)] = None
    libraries: Annotated[tuple[str, ...], Array(items=_HOST_PATH, example=(_CRAY,), unique=True)] = ()
    binds: Annotated[tuple[str, ...], Array(items=_HOST_PATH, example=("/opt/cray",), unique=True)] = ()
    variables: Annotated[Mapping[str, str], _VARIABLES] = field(default_factory=dict)

    @property
    def paths(self) -> tuple[str, ...]:
        """The host's paths that a container gets, each once."""
        return tuple(dict.fromkeys((*self.libraries, *self.binds)))


class Site(Struct, frozen=True):
    """A site.

    proxy     The web proxy for all that isn't near, credentials and all; None for none.
    no_proxy  Hosts and domains that are reached without it.
    """

    proxy: Annotated[str | None, _PROXY] = None
    no_proxy: Annotated[tuple[str, ...], _NEAR] = ()
    slurm: Annotated[SlurmSite, table_of(SlurmSite)] = field(default_factory=SlurmSite)
    fabric: Annotated[FabricSite, table_of(FabricSite)] = field(default_factory=FabricSite)

    def variables(self, env: Mapping[str, str]) -> dict[str, str]:
        """Give the variables of the proxy that an environment lacks: none where it names a proxy, or none, itself."""
        if self.proxy is None or any(name in env for name in PROXIES):
            return {}
        direct = {} if "no_proxy" in env or "NO_PROXY" in env else {"no_proxy": ",".join(self.no_proxy)}
        return {"http_proxy": self.proxy, "https_proxy": self.proxy, **(direct if self.no_proxy else {})}


def apt_mirrors(mirrors: Mapping[str, str]) -> str:
    """Give the mirrors of apt's archives as builds take them: words NAME=URL."""
    return " ".join(f"{name}={mirrors[name].rstrip('/')}" for name in ARCHIVES if mirrors.get(name))


def site_of(checked: Checked) -> Site:
    """Read the sound parts of `[site]`."""
    named = [*checked.children("site", "slurm", "features"), *checked.children("site", "slurm", "drivers")]
    places = {str(path[-1]): checked.place(*path, at_key=True) for path, _ in named}
    slurm = checked.record(SlurmSite, "site", "slurm", places=places)
    return checked.record(Site, "site", slurm=slurm)


_HOST_AND_PORT = r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?"
BINDING = re.compile(rf"([A-Za-z0-9][A-Za-z0-9._-]*)=({_HOST_AND_PORT})")
"""An index's name and its host, with a port or without."""

_INDEX = Text(doc="An index, a channel or a registry.", example="internal")
_MIRRORS = Names(names=_INDEX, values=Text(doc="Its address.", example="https://mirror.example/simple", secret=True))
_SECONDS = Number(doc="Seconds: who waits longer for a byte waits for ever.", example=120, minimum=0.001, maximum=3600)
_SIZE = Text(
    example="20 GB",
    says="a size with its unit",
    pattern=r"[0-9]{1,15}(?:\.[0-9]{1,3})? ?(?:[KkMmGgTt][Ii]?)?[Bb]",
    read=bytes_of,
)
_FOLDER = Text(example="/scratch/$USER/environments", says="an absolute path", pattern=rf"[/~$][^{CONTROL}]*")
_TARGETS = Array(
    items=Text(doc="A name or a pattern.", example="cu128-*", says="a target's name", pattern=rf"[^{CONTROL}]+"),
    example=("cu128-hopper", "cu128-*"),
)
_HOSTS = Names(
    names=_INDEX,
    values=Text(
        doc="Its host.",
        example="packages.example.org",
        says="a host, or host:port",
        pattern=_HOST_AND_PORT,
        read=str.lower,
    ),
)
_KEYS = Array(
    items=Text(doc="A key, or a table.", example="mirrors.pypi", says="a key", pattern=rf"[^{CONTROL}]+"),
    example=("mirrors.pypi", "site.proxy"),
    unique=True,
)

_ADMIN = "tell who runs this machine: its configuration says which addresses to ask"


class UserConfig(Struct, frozen=True):
    """The configuration of a user or a site.

    mirrors              Index, channel or registry name → URL.
    [cache]              The cache.
    cache_size           Bytes that the cache may have; None for any.
    scratch              The folder of what commands write for a while, as written; None for one in the cache.
    shared_cache         The folder of a cache that all users read, as written; None for none.
    timeouts             Index name → seconds to wait for bytes of it.
    [run]                What `envspec run` begins with.
    environments         The folder of environments that have no prefix of their own, as written; None for the usual.
    shared_environments  The same of environments that all users read.
    run_targets          Patterns of targets for `envspec run`, where the machine doesn't tell.
    trusted_indexes      Index name → the host, with its port if it isn't the scheme's, that may get its login.
    final                The keys and tables that the site alone sets → the place that says so.
    """

    mirrors: Annotated[Mapping[str, str], _MIRRORS] = field(default_factory=dict)
    cache_size: Annotated[int | None, _SIZE] = field(name="cache.max-size", default=None)
    scratch: Annotated[str | None, _FOLDER] = field(name="cache.scratch", default=None)
    shared_cache: Annotated[str | None, _FOLDER] = field(name="cache.shared", default=None)
    timeouts: Annotated[Mapping[str, float], Names(names=_INDEX, values=_SECONDS)] = field(default_factory=dict)
    environments: Annotated[str | None, _FOLDER] = field(name="run.environments", default=None)
    shared_environments: Annotated[str | None, _FOLDER] = field(name="run.shared", default=None)
    run_targets: Annotated[tuple[str, ...], _TARGETS] = field(name="run.targets", default=())
    site: Annotated[Site, table_of(Site)] = field(default_factory=Site)
    trusted_indexes: Annotated[Mapping[str, str], _HOSTS] = field(default_factory=dict)
    final: Annotated[Mapping[str, Place], _KEYS] = field(default_factory=dict)

    def refuse_other(self, key: str, mine: object, value: object, where: str) -> None:
        """Raise InputError where a variable, or another program's file (`where`), says something else of a key that is
        the site's alone. Nothing said is None."""
        by = _final_place(key, self.final)
        if by is not None and value is not None and value != mine:
            hint = f"take it out; `envspec doctor` shows the site's {key}"
            raise InputError(f"{where} says otherwise than {key}, which {by} leaves to the site", hint=hint)


FORMAT = table_of(UserConfig)


def _final_place(key: str, final: Mapping[str, Place]) -> Place | None:
    return next((place for name, place in final.items() if key == name or key.startswith(f"{name}.")), None)


def read_layers(env: Mapping[str, str], home: str) -> Document:
    """Read the configuration's files, merged. Raises InputError for one that is broken or can't be trusted, for one
    that `ENVSPEC_CONFIG` names and isn't there, and for what the site keeps for itself."""
    site, *own = config_paths(env, home)
    text = read_site_file(site, "the site's configuration", _ADMIN)
    merged = parse_toml(text or "", site)
    final = merged.data.get("final")
    named = enumerate(final) if isinstance(final, list) else ()
    places = {key: merged.place(("final", index)) for index, name in named if (key := _known_key(name))}
    for path in own:
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            if path == env.get("ENVSPEC_CONFIG"):
                message = f"ENVSPEC_CONFIG names {path}, which can't be read: {error.strerror}"
                raise InputError(message, hint="correct it, or unset it") from None
            continue
        layer = parse_toml(decode(content, path), path)
        _refuse_final(layer, merged, places)
        merged = merge(merged, layer)
    return merged


def _known_key(name: object) -> str | None:
    """Give a key or a table's name as messages spell it, None where the format has none such: a typo would fix
    nothing."""
    try:
        value: Any = tomli.loads(f"{name} = 0")
    except tomli.TOMLDecodeError:
        return None
    path: list[str] = []
    node: Node = FORMAT
    while isinstance(value, dict) and len(value) == 1:
        (key, value), *_ = value.items()
        child = node.keys.get(key) if isinstance(node, Table) else node.values if isinstance(node, Names) else None
        if child is None or key == "final":
            return None
        path, node = [*path, key], child
    return key_path(path)


def _refuse_final(layer: Document, site: Document, final: Mapping[str, Place]) -> None:
    known = dict(site.leaves())
    for where, value in layer.leaves():
        if where[0] == "final":
            raise InputError(
                f"`final` stands in {site.file} alone: a user's file fixes nothing",
                hint="take it out", place=layer.place(where),
            )  # fmt: skip
        by = _final_place(key_path(where), final)
        if by is not None and known.get(where) != value:
            raise InputError(
                f"{key_path(where)} is the site's alone: {by} says so",
                hint="take it out, or ask who runs this machine", place=layer.place(where),
            )  # fmt: skip


def load_site_config() -> UserConfig:
    """Read the site's file alone. Raises InputError as `load_user_config`."""
    return load_user_config({}, os.devnull)


def load_user_config(env: Mapping[str, str], home: str) -> UserConfig:
    """Read the configuration. Raises InputError as `read_layers`, and for values that are wrong."""
    checked = Checked(read_layers(env, home), FORMAT)
    final = {where: _known_key(name) for where, name in checked.children("final")}
    for where in (where for where, key in final.items() if key is None):
        message = f"final: {show(checked.value(*where))} is no key of this file"
        checked.problem(where, message, 'write it as it stands in its table, for example "cache.max-size"')
    for where, url in checked.children("mirrors"):
        _judge_mirror(checked, where, str(where[-1]), url)
    site = site_of(checked)
    if fault := site.proxy and address_fault(site.proxy, ("http", "https")):
        checked.problem(("site", "proxy"), f"site.proxy is {fault}", 'for example: proxy = "http://proxy.example:3128"')
    checked.raise_problems()
    places = {str(key): checked.place(*where) for where, key in final.items()}
    return checked.record(UserConfig, site=site, final=places)


def _judge_mirror(checked: Checked, path: tuple[str | int, ...], name: str, url: str) -> None:
    register_url(url)
    of_apt = name in ARCHIVES
    fault = address_fault(url)
    # a conda channel's may be of another kind: a folder, a name, an object store
    if fault and (of_apt or name in ("pypi", "pytorch") or name.startswith("pytorch/") or not _can_be_split(url)):
        checked.problem(path, f"{key_path(path)} is {fault}", _ADDRESS)
    elif of_apt and has_credentials(url):
        # a build's arguments are seen by whoever looks at the image
        message = f"{key_path(path)} has a login, and builds show what they are given"
        checked.problem(path, message, "take the login out, or let the site's proxy log in")
    elif of_apt and not re.fullmatch(r"https?://[A-Za-z0-9._~:/@%+\[\]-]+", url):
        message = f"{key_path(path)} is {redact(url)!r}, which apt can't be given"
        checked.problem(path, message, "give an http or https address without blanks, quotes and queries")


_ADDRESS = "give the whole address, for example https://mirror.example/simple"


def refuse_no_address(url: str, where: str) -> None:
    """Raises InputError, credentials removed, unless it is an address that an index may have."""
    if fault := address_fault(url):
        raise InputError(f"{where} is {fault}", hint=_ADDRESS)


def address_fault(url: str, schemes: Collection[str] = ("http", "https", "file")) -> str | None:
    """Give a text that is no address of these schemes, credentials removed, and what it isn't; None for an address."""
    try:
        url.encode()  # bytes of a variable that aren't UTF-8 are in no address
        parts = urlsplit(url.strip())
        if parts.scheme in schemes and (parts.scheme == "file" or (parts.hostname and parts.port != 0)):
            return None
    except ValueError:
        pass
    # what can't be taken apart may hold a password anywhere before the last @
    register_url(url)
    *rest, last = schemes
    return f"{redact(url).rpartition('@')[2]!r}, which isn't an {', '.join(rest)} or {last} address"


def _can_be_split(url: str) -> bool:
    """Return whether whoever takes a URL apart later gets through: `http://[` isn't even wrong."""
    try:
        urlsplit(url)
    except ValueError:
        return False
    return True
