"""`envspec cache`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import click
from msgspec import to_builtins

from envspec.app.cache_contents import KINDS
from envspec.app.cache_size import CacheView, clean_cache, count_inodes, look_at_cache, prune_cache
from envspec.app.fill import fill as fill_shared_folders
from envspec.app.mirror import fill_mirror
from envspec.base.errors import InputError
from envspec.base.reader.document import key_path
from envspec.base.texts import byte_size, bytes_of, nearest, plural, printable
from envspec.cli import options
from envspec.cli.console import out, say, wants_json
from envspec.cli.table import align
from envspec.configuration.settings import load_settings

EPILOG = """\b
Examples:
  envspec cache size
  envspec cache prune --older-than 30d
  envspec cache prune --max-size "20 GB"
  envspec cache clean metadata
  envspec cache fill specs/mm-v2.9.toml
  envspec cache fill specs/mm-v2.9.toml --mirror /srv/mirror

\b
To have it pruned after each lock and install, in ~/.config/envspec/config.toml:
  [cache]
  max-size = "20 GB"
"""

_NOTHING: Mapping[str, object] = MappingProxyType({})
_AGE = re.compile(r"([0-9]{1,6}) ?(h|d|w)")
_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}


@click.group(epilog=EPILOG)
def command() -> None:
    """Show envspec's cache, and make room

    envspec fetches or makes removed entries again when it needs them. It can't remake results of smoke runs: only age
    or `clean` removes them. The environments of `envspec run` have their own folder; age or `clean environments`
    removes unused ones. For uv's own cache: `uv cache dir`, `uv cache prune`.
    """


@command.command("dir")
@options.as_json
def directory() -> int:
    """Print the cache's folder"""
    cache = load_settings().cache_dir
    options.answer("cache", {"cache": cache}, [str(cache)])
    return 0


@command.command()
@options.as_json
def size() -> int:
    """Show the cache's contents, by kind and size"""
    view = look_at_cache()
    places = (view.settings.cache_dir, view.settings.environments)
    of_cache, of_environments = map(count_inodes, places)
    if wants_json():
        return _print(view, {"inodes": {"cache": of_cache, "environments": of_environments}})
    kinds = view.contents.by_kind()
    rows = [(kind, byte_size(total), f"{count:,}", KINDS[kind]) for kind, (count, total) in kinds.items()]
    for line in align(rows, right="12"):
        out(line)
    environments = kinds.get("environments", (0, 0))[1]
    out(f"{byte_size(view.contents.size - environments)}, {of_cache:,} inodes, in {places[0]}")
    if "environments" in kinds:
        summary = f"{byte_size(environments)} besides what is shared with caches, {of_environments:,} inodes"
        out(f"{summary}, in {places[1]}")
    _tell_foreign(view)
    return 0


@command.command()
@click.option("--older-than", metavar="AGE", help="Only entries unused for this time: 12h, 30d, 8w.")
@click.option("--max-size", metavar="SIZE", help='Remove the oldest use first, down to this size: "20 GB".')
@options.as_json
def prune(older_than: str | None, max_size: str | None) -> int:
    """Remove old entries, or entries beyond a size, the oldest use first

    Without options, the bound is `[cache] max-size` of envspec's configuration.
    """
    return _tell(prune_cache(_age(older_than), _size(max_size)))


@command.command()
@click.argument("kinds", nargs=-1, metavar="[KIND...]")
@options.as_json
def clean(kinds: tuple[str, ...]) -> int:
    """Remove envspec's cache entries, or only the named kinds. Entries in use stay; environments go only by name."""
    for kind in kinds:
        if kind not in KINDS:
            near = nearest(kind, KINDS)
            hint = f"did you mean {near}?" if near else f"the kinds: {', '.join(KINDS)}"
            raise InputError(f"the cache has no {printable(kind)}", hint=hint)
    return _tell(clean_cache(kinds))


@command.command()
@click.argument("specs", nargs=-1, required=True, metavar="SPEC...", shell_complete=options.complete("spec_paths"))
@options.target
@options.locks_dir
@click.option(
    "--mirror",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Fill this folder instead. Any web server serves it as the mirror of all indexes of the locks.",
)
@options.as_json
def fill(specs: tuple[str, ...], targets: tuple[str, ...], locks_dir: Path | None, mirror: Path | None) -> int:
    """Fill the cache and the environments that all users of this machine share

    For administrators. The files of the locks go to `[cache] shared`, and the environments for this machine to
    `[run] shared`, as /etc/envspec/config.toml names them. Users read both, and write to neither.
    """
    if mirror is None:
        filled = fill_shared_folders(specs, targets, locks_dir)
    else:
        filled = fill_mirror(specs, targets, locks_dir, mirror)
    if wants_json():
        shown = {"files": filled.files, "size": filled.size, "environments": filled.environments}
        if mirror is not None:
            shown["mirrors"] = filled.mirrors
        options.print_json("cache", {"cache": filled.cache or load_settings().cache_dir, "filled": shown})
        return 0
    if filled.cache is not None:
        out(f"{plural(filled.files, 'file')} of {byte_size(filled.size)} in {filled.cache}")
    for prefix in filled.environments:
        out(str(prefix))
    if filled.mirrors:
        lines = " ".join(f'{key_path((key,))} = "URL/{key}"' for key in filled.mirrors)
        say(f"hint: serve it at a URL, and name it in /etc/envspec/config.toml, [mirrors]: {lines}", style="cyan")
    return 0


def _tell(view: CacheView) -> int:
    """Print what was removed. Return the exit code."""
    assert view.removed is not None
    if wants_json():
        _print(view)
    else:
        out(f"removed {byte_size(view.removed.size)}, {byte_size(view.contents.size)} left")
        _tell_foreign(view)
    return 3 if view.removed.reasons else 0


def _print(view: CacheView, more: Mapping[str, object] = _NOTHING) -> int:
    kinds = view.contents.by_kind().items()
    document = {
        "cache": view.settings.cache_dir,
        "environments": view.settings.environments,
        "size": view.contents.size,
        "kinds": [{"kind": kind, "entries": count, "size": total} for kind, (count, total) in kinds],
        "foreign": view.contents.foreign,
    }
    options.print_json(
        "cache", document | dict(more) | ({"removed": to_builtins(view.removed)} if view.removed else {})
    )
    return 0


def _tell_foreign(view: CacheView) -> None:
    if foreign := view.contents.foreign:
        more = f" and {len(foreign) - 5} more" if len(foreign) > 5 else ""
        names = ", ".join(printable(name) for name in foreign[:5])
        say(f"note: not envspec's, and left alone: {names}{more}", style="cyan")


def _age(text: str | None) -> float | None:
    if text is None:
        return None
    match = _AGE.fullmatch(text)
    if match is None:
        raise InputError(f"--older-than: {printable(text)!r} is no age", hint="for example 12h, 30d or 8w")
    return float(int(match[1]) * _SECONDS[match[2]])


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    size_in_bytes = bytes_of(text)
    if size_in_bytes is None:
        raise InputError(f"--max-size: {printable(text)!r} is no size", hint='for example "20 GB"')
    return size_in_bytes
