"""The command line: finds the command, runs it, and turns what goes wrong into a message and an exit code.

A command's module is imported when it is called, so that `envspec --help` costs little more than click.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import click

from envspec import __version__
from envspec.errors import EnvspecError, SpecErrors

COMMANDS = {
    "lock": "Resolve specs and write their locks.",
    "check": "Say whether locks still fit their specs, and why not.",
    "why": "Show what pulls a package in.",
    "tree": "Show what depends on what.",
    "export": "Write a lock in another tool's format.",
    "inspect": "Read the GPU code compiled into a wheel or an environment.",
    "completion": "Print the completion script of a shell.",
}
"""Every command and its one line of help. A command `x` is `command` in the module `envspec.cli.x`."""

EXAMPLES = """\b
Examples:
  envspec lock specs/mm-v2.9.toml        resolve, and write locks/mm-v2.9/
  envspec check                          are all locks fresh? (no network)
  envspec why specs/mm-v2.9.toml numpy   who asks for numpy, and for which version

\b
Exit codes: 0 done, 1 the answer is no, 2 the input is wrong, 3 something outside failed, 130 interrupted.
"""


class Commands(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = import_module(f"envspec.cli.{name}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else "`envspec --help` lists the commands"
            raise click.UsageError(f"unknown command '{args[0]}'. hint: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=Commands, epilog=EXAMPLES, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="envspec", message="%(prog)s %(version)s")
def cli() -> None:
    """One TOML file says what a GPU training environment needs; envspec locks it for every CUDA and GPU it is to run on."""


def main(argv: list[str] | None = None) -> None:
    """The program `envspec`. Ends the process with one of the exit codes of DESIGN §5."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: list[str]) -> int:
    """Run a command line and give its exit code. Everything that goes wrong has been told on stderr."""
    try:
        # a locale of plain ASCII must not turn a package's author into a traceback
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        result: Any = cli.main(argv, prog_name="envspec", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except EnvspecError as error:
        tell(error)
        return error.exit_code
    except click.exceptions.Abort:
        return _interrupted()
    except KeyboardInterrupt:
        return _interrupted()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except BrokenPipeError:
        # whoever reads stdout has seen enough; keep Python from complaining again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("ENVSPEC_TRACEBACK"):
            raise
        say(f"error: envspec has a fault: {type(error).__name__}: {error}", style="red")
        say("hint: please report it; ENVSPEC_TRACEBACK=1 shows where it happened")
        return 3


def tell(error: EnvspecError) -> None:
    """An error as people read it: `error: file:line:column: message`, then its hint. No credentials."""
    from envspec.redact import redact

    for one in error.errors if isinstance(error, SpecErrors) else (error,):
        say(redact(f"error: {one}"), style="red")
        if one.hint:
            say(redact(f"hint: {one.hint}"))


def say(text: str, *, style: str | None = None) -> None:
    """A line of talk on stderr. The first word before a colon gets the colour, where colour is wanted."""
    if style and sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        head, colon, rest = text.partition(":")
        text = click.style(head + colon, fg=style, bold=True) + rest
    click.echo(text, err=True)


def _interrupted() -> int:
    say("interrupted: nothing was changed")
    return 130
