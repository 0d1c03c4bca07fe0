"""`envspec shell`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from envspec.app.run import RunRequest, enter, variables
from envspec.cli import options
from envspec.cli.become import become
from envspec.cli.console import say

EPILOG = """\b
Examples:
  envspec shell                                    the only spec of specs/, the target by this machine
  envspec shell mm-v2.9 --target cu128-hopper
"""


@click.command(epilog=EPILOG)
@click.argument("path", metavar="[SPEC]", required=False, shell_complete=options.complete("spec_paths"))
@options.run_target
@options.offline
@options.keep_pythonpath
@options.quiet
@options.locks_dir
def command(path: str | None, target: str | None, offline: bool, keep_pythonpath: bool, locks_dir: Path | None) -> int:
    """Start a shell in the environment of a lock; envspec makes it if need be

    envspec starts your own shell ($SHELL) with its settings, and the spec's name in the prompt. `exit` leaves it.
    """
    from envspec.install.environments.shells import shell_command, shell_of

    ready = enter(RunRequest(path, target, locks_dir, offline))
    shell = shell_of(os.environ)
    env = variables(ready, keep_pythonpath=keep_pythonpath)
    say(f"{ready.spec} ({ready.target}) in {os.path.basename(shell)}: `exit` or Ctrl-D leaves it")
    program, words, more = shell_command(shell, ready, env)
    become(words, program, {**env, **more})
