"""Options that several commands share: specs, targets, places and `--json`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from envspec.base.errors import NotPlain, Place
from envspec.base.places import KEEP_PYTHONPATH
from envspec.cli.console import ask_json, ask_verbose, hush, out, out_json, wants_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from click.decorators import FC
    from click.shell_completion import CompletionItem


def complete(what: str) -> Any:
    """Make a callback for click's shell completion, whose module is loaded only when a shell asks."""

    def answer(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        from envspec.cli import completion

        items: list[CompletionItem[str]] = getattr(completion, what)(ctx, incomplete)
        return items

    return answer


class Folder(click.Path):
    """A folder, which may not exist yet unless `exists`, as a `Path`, whose module is loaded only where one is given.
    click takes a pipe, a device and a socket for one."""

    def __init__(self, *, exists: bool = False) -> None:
        super().__init__(exists=exists, file_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        from pathlib import Path

        folder = Path(os.fsdecode(super().convert(value, param, ctx)))
        if folder.exists() and not folder.is_dir():
            from envspec.base.open_folder import kind_of

            hint = "name a folder"
            raise NotPlain(f"this is {kind_of(folder.stat())}, not a folder", place=Place(str(folder)), hint=hint)
        return folder


locks_dir = click.option(
    "--locks-dir",
    type=Folder(),
    help="The folder of the locks [default: locks/ beside the spec's folder].",
)


def _telling(ask: Callable[[], None]) -> Any:
    """Make a callback that tells the console of a flag."""

    def answer(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        if value:
            ask()

    return answer


as_json = click.option(
    "--json",
    is_flag=True,
    expose_value=False,
    callback=_telling(ask_json),
    help="Print JSON on stdout (schema in docs/json.md).",
)
offline = click.option("--offline", is_flag=True, envvar="UV_OFFLINE", help="Use no network, only the caches.")
target = click.option(
    "--target",
    "-t",
    "targets",
    multiple=True,
    metavar="NAME",
    shell_complete=complete("target_names"),
    help="Only this target; may be given several times.",
)


def target_option(help_text: str) -> Callable[[FC], FC]:
    """Make the option that names a target; the command's text says its use."""
    return click.option("--target", "-t", metavar="NAME", shell_complete=complete("target_names"), help=help_text)


run_target = target_option("The target [default: by this machine's GPU and driver].")


quiet = click.option(
    "--quiet",
    "-q",
    is_flag=True,
    expose_value=False,
    callback=_telling(hush),
    help="Print only errors and questions.",
)
keep_pythonpath = click.option(
    "--keep-pythonpath",
    is_flag=True,
    help=f"Leave PYTHONPATH as it is ({KEEP_PYTHONPATH}=1 does the same). Its modules come before the lock's.",
)


verbose = click.option(
    "--verbose",
    "-v",
    is_flag=True,
    expose_value=False,
    callback=_telling(ask_verbose),
    help="List everything, not only the first ten items, each download, and the last lock's notes again.",
)
edited_target = target_option("Only in this target's own list.")
dry_run = click.option("--dry-run", is_flag=True, help="Show the changes, and write nothing.")
no_lock = click.option("--no-lock", is_flag=True, help="Edit the spec alone; the lock is stale then.")
imports = click.option(
    "--imports", is_flag=True, help="Check that the lock has the imports of the project's own sources. No code runs."
)
allow_needed = click.option(
    "--allow-needed",
    is_flag=True,
    help="Add packages without a fitting wheel to the spec's allow-source, and go on: building runs their code.",
)


def gpu(help_text: str) -> Callable[[FC], FC]:
    """Make the option that names any number of GPUs; the command's text says their use."""
    return click.option(
        "--gpu", "gpus", multiple=True, metavar="GPU", shell_complete=complete("gpu_names"), help=help_text
    )


def _find_spec(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
    if value not in (None, ()) or ctx.resilient_parsing:
        return value
    from envspec.app.find_specs import only_spec

    return (only_spec(),) if param.nargs == -1 else only_spec()


def default_spec(metavar: str, nargs: int = 1) -> Callable[[FC], FC]:
    """Make the argument that is the only spec here where none is given."""
    return click.argument(
        "path" if nargs == 1 else "paths",
        nargs=nargs,
        required=False,
        metavar=metavar,
        callback=_find_spec,
        shell_complete=complete("spec_paths"),
    )


def spec_and(name: str, metavar: str) -> Callable[[FC], FC]:
    """Make the arguments `[SPEC] PKG...`: `path`, the only spec where the first word means none, and packages: one for
    `PKG`, any number for `[PKG...]`."""

    def split(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Any:
        from envspec.app.find_specs import split_spec

        if ctx.resilient_parsing:
            return value
        if metavar == "PKG" and value[2:]:
            raise click.UsageError(f"Got unexpected extra argument ({value[2]})", ctx)
        is_pair = metavar == "PKG" and len(value) == 2
        ctx.params["path"], words = (
            (value[0], value[1:]) if is_pair else split_spec(value, optional=metavar == "[PKG...]")
        )
        if metavar != "[PKG...]" and not words:
            raise click.UsageError(f"Missing argument '{metavar}'.", ctx)
        return words[0] if metavar == "PKG" else words

    return click.argument(
        name, nargs=-1, metavar=f"[SPEC] {metavar}", callback=split, shell_complete=complete("spec_or_package")
    )


spec = default_spec("[SPEC]")
specs = click.argument("paths", nargs=-1, metavar="[SPEC...]", shell_complete=complete("spec_paths"))


evidence = click.option(
    "--evidence",
    type=Folder(),
    metavar="DIR",
    help="Store a record of each proved target in this folder, for `envspec report`.",
)


def print_json(command: str, value: dict[str, Any]) -> None:
    """Print one JSON document on stdout, with its schema's name and version first."""
    out_json({"schema": f"envspec/{command}/1", **value})


def answer(command: str, document: dict[str, Any], lines: Iterable[str]) -> None:
    """Print a command's answer on stdout: the document where `--json` asked for one, else the lines."""
    if wants_json():
        print_json(command, document)
        return
    for line in lines:
        out(line)
