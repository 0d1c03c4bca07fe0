"""`envspec run`."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click

from envspec.app.run import RunRequest, enter, look, program_in, variables
from envspec.base.errors import InputError
from envspec.cli import options
from envspec.cli.become import become
from envspec.cli.console import wants_json

EPILOG = """\b
Examples:
  envspec run -- python train.py                        the only spec of specs/, the target by this machine
  envspec run specs/mm-v2.9.toml --target cu128-hopper -- torchrun --nproc-per-node 8 train.py
  envspec run --dry-run -- python train.py              which target, which folder, what is still to be installed

Exit codes: the command's own. If envspec refuses or fails before the command starts, the code is 1, 2 or 3, with an
`error:` on stderr.
"""

_COMMAND = "envspec.command"


class _WithCommand(click.Command):
    """A command whose line ends in another one, behind `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            ctx.meta[_COMMAND] = tuple(args[at + 1 :])
            return super().parse_args(ctx, args[:at])
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption:
            if args[0].startswith("-"):
                raise
            # an option of a command that stands behind no `--`
            _refuse(tuple(args), ())
            raise

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "-- CMD..."]


@click.command(cls=_WithCommand, epilog=EPILOG)
@click.argument("paths", nargs=-1, metavar="[SPEC]", shell_complete=options.complete("spec_paths"))
@options.run_target
@options.offline
@options.keep_pythonpath
@options.quiet
@options.dry_run
@options.locks_dir
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    paths: tuple[str, ...],
    target: str | None,
    offline: bool,
    keep_pythonpath: bool,
    dry_run: bool,
    locks_dir: Path | None,
) -> int:
    """Run a command in the environment of a lock; envspec makes it if need be

    Each state of the lock has its own environment, shared by all runs. This machine's GPU and driver choose the target.
    A machine without a GPU gets a CPU target only by --target or your settings.
    """
    words: tuple[str, ...] = ctx.meta.get(_COMMAND, ())
    if len(paths) > 1 or not words:
        _refuse(paths, words)
    request = RunRequest(paths[0] if paths else None, target, locks_dir, offline)
    if dry_run:
        return _show(request, words)
    if wants_json():
        raise InputError("stdout is the command's own, so --json needs --dry-run", hint="add --dry-run")
    ready = enter(request)
    env = variables(ready, keep_pythonpath=keep_pythonpath)
    become(*program_in(ready, words, env), env)


def _refuse(paths: tuple[str, ...], words: tuple[str, ...]) -> None:
    if len(paths) > 1:
        given = shlex.join(paths if not paths[0].endswith(".toml") else paths[1:])
        raise InputError("the command stands behind `--`", hint=f"envspec run -- {given}")
    hint = f"envspec run {paths[0]} -- python" if paths else "envspec run -- python"
    if paths and not paths[0].endswith(".toml") and not os.path.exists(paths[0]):
        hint = f"envspec run -- {shlex.quote(paths[0])}"
    raise InputError("`envspec run` is given no command: it stands behind `--`", hint=hint)


def _show(request: RunRequest, words: tuple[str, ...]) -> int:
    """Print the command that would run, and the changes that its environment needs."""
    planned, outcome = look(request)
    document = {
        "spec": planned.path,
        "target": planned.target.name,
        "because": planned.because or None,
        "prefix": planned.prefix,
        "status": _STATUS[outcome.status],
        "packages": len(planned.target.pins),
        "changes": len(outcome.changes),
        "variables": planned.variables,
        "command": words,
    }
    lines = (
        f"target   {planned.target.name}{f' ({planned.because})' if planned.because else ''}",
        f"prefix   {planned.prefix} ({_STATUS[outcome.status]})",
        f"command  {shlex.join(words)}",
    )
    options.answer("run", document, lines)
    return 0


_STATUS = {"unchanged": "ready", "installed": "to be made", "updated": "to be updated"}
"""The states of an environment by `Installation.look`, and their names for a run."""
