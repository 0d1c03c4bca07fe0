"""`envspec cache`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from envspec.app.cache_size import environments_at, looked_at, removed
from envspec.base.errors import InputError
from envspec.base.settings import Settings, load_settings
from envspec.base.texts import byte_size, bytes_of, nearest, printable
from envspec.cli import options
from envspec.cli.console import out, say, warn
from envspec.cli.table import aligned

if TYPE_CHECKING:
    from envspec.base.cache.model import CacheContents, Entry

EPILOG = """\b
Examples:
  envspec cache size
  envspec cache prune --older-than 30d
  envspec cache prune --max-size "20 GB"
  envspec cache clean metadata

\b
To have it pruned after each lock and install, in ~/.config/envspec/config.toml:
  [cache]
  max-size = "20 GB"
"""

_AGE = re.compile(r"([0-9]{1,6}) ?(h|d|w)")
_SECONDS = {"h": 3600, "d": 86400, "w": 7 * 86400}


@click.group(epilog=EPILOG)
def command() -> None:
    """Show envspec's cache, and make room

    What is removed is fetched, made or found out again when it's needed. Results of smoke runs aren't: they go only by
    age or with `clean`. The environments of `envspec run` have a folder of their own, and go by age or by name: `clean
    environments`. One in which a program runs stays. uv's own cache is uv's: `uv cache dir`, `uv cache prune`.
    """


@command.command("dir")
@options.as_json
def directory(as_json: bool) -> int:
    """Print the cache's folder"""
    cache = load_settings().cache_dir
    if as_json:
        options.print_json("cache", {"cache": str(cache)})
    else:
        out(str(cache))
    return 0


@command.command()
@options.as_json
def size(as_json: bool) -> int:
    """Show what is in the cache, by kind and size"""
    settings = load_settings()
    contents = _everything(settings)
    if as_json:
        options.print_json("cache", _document(settings, contents))
        return 0
    from envspec.base.cache.model import KINDS

    found = contents.by_kind().items()
    rows = [(kind, byte_size(total), f"{count:,}", KINDS[kind]) for kind, (count, total) in found]
    for line in aligned(rows, right="12"):
        out(line)
    environments = contents.by_kind().get("environments", (0, 0))[1]
    out(f"{byte_size(contents.size - environments)} in {settings.cache_dir}")
    if "environments" in contents.by_kind():
        out(f"{byte_size(environments)} in {settings.environments}, besides what is shared with caches")
    _tell_foreign(contents)
    return 0


@command.command()
@click.option("--older-than", metavar="AGE", help="What wasn't used for so long: 12h, 30d, 8w.")
@click.option("--max-size", metavar="SIZE", help='What was used longest ago, until so much is left: "20 GB".')
@options.as_json
def prune(older_than: str | None, max_size: str | None, as_json: bool) -> int:
    """Remove what wasn't used for long, or what is too much, the oldest use first

    Without options, the bound is `[cache] max-size` of envspec's configuration.
    """
    from envspec.base.cache.model import Bound, to_prune

    settings = load_settings()
    most = settings.cache_size if max_size is None and older_than is None else _size(max_size)
    if most is None and older_than is None:
        raise InputError(
            "`envspec cache prune` isn't told what may go",
            hint='envspec cache prune --older-than 30d; or set [cache] max-size = "20 GB" in envspec\'s configuration',
        )
    contents = _everything(settings)
    now, age = time.time(), _age(older_than)
    of_cache = [one for one in contents.entries if one.kind != "environments"]
    environments = [one for one in contents.entries if one.kind == "environments" and not one.busy]
    gone = (*to_prune(of_cache, Bound(age, most), now), *to_prune(environments, Bound(age), now))
    return _removed(settings, contents, gone, as_json)


@command.command()
@click.argument("kinds", nargs=-1, metavar="[KIND...]")
@options.as_json
def clean(kinds: tuple[str, ...], as_json: bool) -> int:
    """Remove everything that envspec put into the cache, or the kinds named. What a run is at stays, and environments
    go only by name.
    """
    from envspec.base.cache.model import KINDS

    for kind in kinds:
        if kind not in KINDS:
            near = nearest(kind, KINDS)
            hint = f"did you mean {near}?" if near else f"the kinds: {', '.join(KINDS)}"
            raise InputError(f"the cache has no {printable(kind)}", hint=hint)
    settings = load_settings()
    contents = _everything(settings)
    wanted = kinds or tuple(kind for kind in KINDS if kind != "environments")
    gone = [one for one in contents.entries if not one.busy and one.kind in wanted]
    return _removed(settings, contents, gone, as_json)


def _everything(settings: Settings) -> CacheContents:
    """What is in the cache, and the environments."""
    from envspec.base.cache.model import CacheContents

    contents = looked_at(settings)
    return CacheContents((*contents.entries, *environments_at(settings)), contents.foreign)


def _removed(settings: Settings, contents: CacheContents, entries: Iterable[Entry], as_json: bool) -> int:
    gone, kept = removed(settings, entries)
    for line in kept:
        warn(line)
    freed = sum(entry.size for entry in gone)
    if as_json:
        told = {"entries": len(gone), "size": freed, "kept": list(kept)}
        options.print_json("cache", _document(settings, _everything(settings)) | {"removed": told})
    else:
        out(f"removed {byte_size(freed)}, {byte_size(contents.size - freed)} left")
        _tell_foreign(contents)
    return 3 if kept else 0


def _document(settings: Settings, contents: CacheContents) -> dict[str, Any]:
    return {
        "cache": str(settings.cache_dir),
        "environments": str(settings.environments),
        "size": contents.size,
        "kinds": [
            {"kind": kind, "entries": count, "size": total} for kind, (count, total) in contents.by_kind().items()
        ],
        "foreign": list(contents.foreign),
    }


def _tell_foreign(contents: CacheContents) -> None:
    if contents.foreign:
        more = f" and {len(contents.foreign) - 5} more" if len(contents.foreign) > 5 else ""
        names = ", ".join(printable(name) for name in contents.foreign[:5])
        say(f"note: not envspec's, and left alone: {names}{more}", style="cyan")


def _age(text: str | None) -> float | None:
    if text is None:
        return None
    found = _AGE.fullmatch(text)
    if found is None:
        raise InputError(f"--older-than: {printable(text)!r} is no age", hint="for example 12h, 30d or 8w")
    return float(int(found[1]) * _SECONDS[found[2]])


def _size(text: str | None) -> int | None:
    if text is None:
        return None
    found = bytes_of(text)
    if found is None:
        raise InputError(f"--max-size: {printable(text)!r} is no size", hint='for example "20 GB"')
    return found
