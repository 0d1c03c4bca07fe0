"""A site's settings in builds of exported recipes: arguments and files beside them, as recipes name no host.

Read from the recipes' own text, which says what can be given: for each target, and also for one exported elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from envspec.base.errors import InputError
from envspec.base.redact import without_credentials
from envspec.configuration.settings import Settings, split_credentials
from envspec.configuration.user_config import PROXY_VARIABLES, SlurmSite, apt_mirrors as mirrors_of_apt
from envspec.export import apt_mirrors
from envspec.export.dockerfile_steps import index_argument
from envspec.export.quote import definition_word
from envspec.facts import compute_capability as cc
from envspec.facts.gpus import find, nearest
from envspec.net.connections import index_fetcher
from envspec.net.registry import image_address
from envspec.packages.version_numbers import numbers
from envspec.spec.cluster import SlurmTable


def constraint(site: SlurmSite, architectures: Iterable[str], driver_floor: str | None) -> str | None:
    """Give sbatch's constraint for nodes with a lock's GPUs and a driver not below its floor; None where the site
    has named no such feature. Raises InputError for a GPU that no table has.
    """
    capabilities_of_lock = {cc.capability_of(architecture) for architecture in architectures}
    of_gpus = [feature for name, feature in site.features.items() if capabilities(site, name) <= capabilities_of_lock]
    floor = numbers(driver_floor or "0")
    of_drivers = [feature for version, feature in site.drivers.items() if numbers(version) >= floor]
    if not capabilities_of_lock:
        return None
    parts = [_any(names) for names in (of_gpus, of_drivers if driver_floor else []) if names]
    return "&".join(part if len(parts) > 1 else part.strip("()") for part in parts) or None


def missing_features(site: SlurmSite, architectures: Iterable[str], driver_floor: str | None) -> tuple[str, ...]:
    """Name the requirements of a lock that the site's features don't cover, though they cover others of the kind."""
    capabilities_of_lock = {cc.capability_of(architecture) for architecture in architectures}
    missing = (
        capabilities_of_lock.difference(*(capabilities(site, name) for name in site.features))
        if site.features
        else set()
    )
    messages = []
    if missing:
        messages.append(f"features names no GPU of compute capability {', '.join(sorted(missing, key=cc.order))}")
    newest = max(map(numbers, site.drivers), default=None)
    if capabilities_of_lock and driver_floor and newest and newest < numbers(driver_floor):
        messages.append(f"drivers names none from {driver_floor} on")
    return tuple(messages)


def capabilities(site: SlurmSite, name: str) -> frozenset[str]:
    """Give the compute capabilities of a GPU that the site names. Raises InputError for one that no table has."""
    known = frozenset(gpu.capability for gpu in find(name))
    if not known and (own := cc.parse(name)):
        known = frozenset({own.capability})
    if not known:
        near = nearest(name)
        hint = f"did you mean {', '.join(near)}?" if near else "`envspec gpus` lists the known ones"
        raise InputError(
            f"[site.slurm] features names an unknown GPU: {name!r}", hint=hint, place=site.places.get(name)
        )
    return known


def variables(
    site: SlurmSite, table: SlurmTable, architectures: Iterable[str], driver_floor: str | None
) -> dict[str, str]:
    """Give sbatch's variables for what a spec leaves to the site. They would win over the job's own options, so there
    is none for what the spec says.
    """
    of_lock = None if table.constraint else constraint(site, architectures, driver_floor)
    values = {
        "SBATCH_ACCOUNT": None if table.account else site.account,
        "SBATCH_PARTITION": None if table.partition else site.partition,
        "SBATCH_CONSTRAINT": of_lock,
    }
    return {name: value for name, value in values.items() if value}


def _any(names: Iterable[str]) -> str:
    distinct = sorted(dict.fromkeys(names))
    return distinct[0] if len(distinct) == 1 else f"({'|'.join(distinct)})"


_IMAGE = re.compile(r'^ARG (\w+_IMAGE)="([^"\\]+)"$', re.MULTILINE)
_INDEX = re.compile(r'^ARG (INDEX_\w+)="((?:[^"\\]|\\.)+)"$', re.MULTILINE)
_FROM = re.compile(r"^From: (?!.*/\S+\.sif$)(\S+)$", re.MULTILINE)
UV_SETTINGS = "uv.toml"
OwnIndex = tuple[str, str, bool]
"""An index of the spec's own: its name, its address or that of its page, and whether it's a flat one."""
_BACKEND = re.compile(r"--torch-backend[ =](\w+)")


def image_here(name: str, mirrors: Mapping[str, str]) -> str:
    """Give an image's name at the mirror that `[mirrors]` has of its registry, else the name. A login stays out."""
    image = image_address(name)
    mirror = mirrors.get(image.registry)
    if not mirror:
        return name
    parts = urlsplit(without_credentials(mirror))
    path = "/".join(part for part in (parts.netloc, parts.path.strip("/"), image.path) if part)
    # a digest says more than a tag, and some builders refuse both together
    return f"{path}@{image.digest}" if image.digest else f"{path}:{image.tag}"


def build_arguments(dockerfile: str, settings: Settings) -> dict[str, str]:
    """Give the build arguments by which a Dockerfile takes this site's images, its index of torch, and mirrors of the
    spec's own indexes."""
    images = {name: image_here(image, settings.mirrors) for name, image in _IMAGE.findall(dockerfile)}
    moved = {name: here for name, image in _IMAGE.findall(dockerfile) if (here := images[name]) != image}
    torch = _torch(dockerfile, settings)
    own = {index_argument(name): name for name in settings.mirrors}
    arguments = ((argument, own[argument], url) for argument, url in _INDEX.findall(dockerfile) if argument in own)
    indexes = {
        argument: index_here(name, url, settings, flat=f'--find-links "${argument}"' in dockerfile)
        for argument, name, url in arguments
    }
    return {**moved, **({"PYTORCH_INDEX": torch} if torch else {}), **indexes}


def index_here(name: str, url: str, settings: Settings, *, flat: bool) -> str:
    """Give the address at this site of a spec's own index, or of its page where it's a flat one. A login stays out: it
    is the builder's, in a uv.toml."""
    return without_credentials(settings.flat_url(name, url) if flat else settings.mirrors.get(name) or url)


def proxy_variables(env: Mapping[str, str]) -> tuple[str, ...]:
    """List the variables of a proxy that an environment has: builders take them over by name, so that no password
    stands in a command.
    """
    return tuple(name for variable in PROXY_VARIABLES for name in (variable, variable.upper()) if env.get(name))


def images_of(definition: str) -> tuple[str, ...]:
    """List the images that a definition is built from."""
    return tuple(dict.fromkeys(_FROM.findall(definition)))


def words_here(indexes: Iterable[OwnIndex], settings: Settings) -> dict[str, str]:
    """Give the line ends by which a definition names a spec's own indexes that have a mirror here → those for it."""
    addresses = ((index_argument(name), url, index_here(name, url, settings, flat=flat)) for name, url, flat in indexes)
    return {
        f" {name}={definition_word(url)}": f" {name}={definition_word(here)}"
        for name, url, here in addresses
        if here != url
    }


def definition_here(definition: str, settings: Settings, indexes: Iterable[OwnIndex] = ()) -> str:
    """Give a definition with this site's images in its headers, and mirrors of the spec's own indexes."""
    moved = _FROM.sub(lambda match: f"From: {image_here(match[1], settings.mirrors)}", definition)
    for word, here in words_here(indexes, settings).items():
        moved = moved.replace(f"{word}\n", f"{here}\n")
    return moved


def build_files(recipe: str, settings: Settings) -> dict[str, str]:
    """Give the files that builds of a recipe get beside it: what a definition reads in `/mnt`, and a Dockerfile by
    secrets. Without logins: those are the builder's own.
    """
    lines = []
    if python := settings.mirrors.get("python"):
        lines.append(f"python-install-mirror = {json.dumps(without_credentials(python))}")
    if not settings.fetches_python:
        lines.append('python-downloads = "never"')
    if settings.default_index:
        lines += ["[[index]]", f"url = {json.dumps(without_credentials(settings.default_index))}", "default = true"]
    torch, apt = _torch(recipe, settings), mirrors_of_apt(settings.mirrors)
    files = {UV_SETTINGS: "\n".join(lines), "pytorch-index": torch or "", apt_mirrors.FILE: apt}
    return {name: f"{text}\n" for name, text in files.items() if text}


def build_secrets(
    recipe: str, settings: Settings, indexes: Iterable[OwnIndex], env: Mapping[str, str]
) -> dict[str, str]:
    """Give those files of a recipe's build that hold logins: a uv.toml for the default index and mirrors of PyTorch's
    and of Python builds, a netrc for the spec's own indexes. A login goes where `lock` would send it. Raises InputError
    as `lock` does, for a login that the spec's address would get."""
    places = {
        name: settings.flat_url(name, url) if flat else settings.mirrors.get(name) or url for name, url, flat in indexes
    }
    fetcher = index_fetcher(settings, places, env)
    secrets = {}
    logins = {urlsplit(url).hostname: fetcher.login(split_credentials(url)[0]) for url in places.values()}
    lines = [
        f"machine {host} login {entry.username} password {entry.password}" for host, entry in logins.items() if entry
    ]
    if lines and "netrc" in recipe:
        secrets["netrc"] = "\n".join(lines)
    plain = uv = build_files(recipe, settings).get(UV_SETTINGS, "")
    for url in filter(None, (settings.default_index, settings.mirrors.get("python"))):
        bare = split_credentials(url)[0]
        if login := fetcher.login(bare):
            uv = uv.replace(json.dumps(bare), json.dumps(login.within(bare)))
    if (torch := _torch(recipe, settings)) and (login := fetcher.login(torch)):
        # uv asks an explicit index for nothing, and sends its login wherever the argument names its host
        uv += f'[[index]]\nname = "pytorch-mirror"\nurl = {json.dumps(login.within(torch))}\nexplicit = true\n'
    return secrets if uv == plain else {**secrets, UV_SETTINGS: uv}


def _torch(recipe: str, settings: Settings) -> str | None:
    match = _BACKEND.search(recipe)
    mirror = settings.pytorch_mirror(match[1]) if match else None
    return without_credentials(mirror) if mirror else None
