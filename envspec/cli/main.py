"""The command line: finds the command, runs it, and turns errors into a message and an exit code.

A command's module is imported when it is called, so that `envspec --help` costs little more than click.

Why it is so: docs/design/37-command-line.md.
"""

from __future__ import annotations

import _thread
import gc
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from click.formatting import wrap_text

from envspec import __version__
from envspec.app.observer import Observer, observe
from envspec.app.site_policy import site_variables
from envspec.base import redact
from envspec.base.errors import EnvspecError, InputError
from envspec.base.places import home_path
from envspec.base.storage import shortage
from envspec.cli.become import close_umask
from envspec.cli.console import (
    Failure,
    begin_output,
    has_printed_json,
    out_json,
    print_failure,
    say,
    say_traceback,
    silence,
)
from envspec.cli.progress import Terminal

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GROUPS = {
    "Begin": {
        "init": "Write a new spec: blank, or from another tool's file",
        "doctor": "Diagnose this machine, or a spec on given hardware",
        "gpus": "List GPUs, and the CUDA and drivers that support them",
    },
    "Lock": {
        "lock": "Resolve specs and write their locks",
        "add": "Add packages to a spec, and lock it again",
        "remove": "Remove packages from a spec, and lock it again",
        "upgrade": "Lock with the newest versions that a spec allows",
        "check": "Check locks against their specs, and name each difference",
        "outdated": "List newer releases, and the bounds that hold packages back",
    },
    "Review": {
        "diff": "Compare two locks: the changes, their meaning and their risk",
        "why": "Show the paths from a spec to a package",
        "tree": "Show which package requires which, as a tree",
        "audit": "Look for vulnerabilities and other risks in locked packages",
        "report": "Write a lock as one self-contained HTML page",
        "explain": "Explain a finding's code, with its remedy",
    },
    "Deliver": {
        "run": "Run a command in the environment of a lock, made if need be",
        "shell": "Start a shell in the environment of a lock",
        "install": "Install a locked target into a folder, every hash checked",
        "export": "Write a lock in another tool's format",
        "image": "Make an OCI image or a SIF straight from a lock",
        "bundle": "Put a target into one tar, for machines without internet",
    },
    "Prove": {
        "smoke": "Train in a locked environment, check it, and report",
        "link": "Check that a target's wheels can load their libraries",
        "verify": "Prove a lock by the indexes that publish its files",
        "sign": "Sign a lock with an SSH key",
    },
    "Less often": {
        "builds": "List the builds of torch, with their CUDA and GPUs",
        "inspect": "Read the GPU code compiled into a wheel or an environment",
        "base": "Show the contents of a vendor's image or a centre's prefix",
        "facts": "Show the facts' age, origin and reach",
        "cache": "Show envspec's cache, and make room",
        "schema": "Print the JSON Schema of specs, for editors",
        "git-setup": "Teach git to show and to merge locks",
        "completion": "Print the completion script of a shell",
    },
}
"""Every command and its line of help, in the order of the work; the rare ones are last. A command `x-y` is `command` in
the module `envspec.cli.x_y`."""

COMMANDS = {name: line for commands in GROUPS.values() for name, line in commands.items()}

POSIX = ("install", "run", "shell", "bundle", "image", "smoke", "link")
"""The commands that make, start or take apart environments: they run on Linux and macOS, and in WSL."""

ANYWHERE = ("lock", "check", "diff", "why", "export", "doctor", "report", "verify")
"""The commands that a Windows user is pointed to: with those that only read or write specs, they run everywhere."""

HIDDEN = ("git-textconv", "git-merge", "git-unreviewed")
"""The commands that programs call, not people."""

EXAMPLES = """\b
Examples:
  envspec lock specs/mm-v2.9.toml        resolve, and write locks/mm-v2.9/
  envspec check                          compare all locks with their specs, offline
  envspec why specs/mm-v2.9.toml numpy   which packages require numpy, and which version

Exit codes: 0 done, 1 the answer is no, 2 the input is wrong, 3 something outside failed, 130 interrupted.
"""


_EXAMPLE = re.compile(r"( +)(\S.*?)(?: {2,}(\S.*))?")


class _Help(click.HelpFormatter):
    """Help as wide as its terminal: an example that is too long goes on below itself, and its comment follows."""

    def write(self, string: str) -> None:
        super().write("\n".join(map(self._fit, string.split("\n"))))

    def _fit(self, line: str) -> str:
        match = _EXAMPLE.fullmatch(line) if len(line) > self.width else None
        if match is None:
            return line
        indent, command, comment = match.groups()
        if comment:
            below = f"{indent}    "
            return f"{self._fit(indent + command)}\n{wrap_text(comment, self.width, below, below)}"
        begin = len(indent)
        cut = line.rfind(" ", begin, self.width - 1)
        cut = cut if cut > 0 else line.find(" ", begin)
        # within quotes a shell takes the line's end for part of a word
        if cut < 0 or line.count("'", 0, cut) % 2 or line.count('"', 0, cut) % 2:
            return line
        return f"{line[:cut]} \\\n{self._fit(f'{indent}  {line[cut + 1 :]}')}"


click.Context.formatter_class = _Help


class Commands(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS and name not in HIDDEN:
            return None
        command: click.Command = import_module(f"envspec.cli.{name.replace('-', '_')}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = not args or args[0] in COMMANDS or args[0] in HIDDEN or args[0].startswith("-")
        if not known and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f"did you mean `envspec {near[0]}`?" if near else "`envspec --help` lists the commands"
            raise InputError(f"unknown command {args[0]!r}", hint=hint)
        if sys.platform == "win32" and args and args[0] in POSIX and not {"-h", "--help"} & {*args}:
            message = f"`envspec {args[0]}` runs on Linux and macOS, and this is Windows"
            raise InputError(message, hint=f"run it in WSL or in a container; here you can still {', '.join(ANYWHERE)}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with environment_of_command():
                return super().invoke(ctx)
        except BrokenPipeError:
            # Whoever reads stdout has seen enough. Past here, click would make it exit code 1: an answer of no.
            silence(sys.stdout)
            return 0

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        completions = [
            CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)
        ]
        return completions or click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, COMMANDS))
        for group, commands in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(name.ljust(width), line) for name, line in commands.items()])


@click.group(
    cls=Commands,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="envspec", message="%(prog)s %(version)s")
def cli() -> None:
    """Lock a GPU training environment, described in one TOML file, for every CUDA and GPU"""


def main(argv: list[str] | None = None) -> None:
    """Run the program `envspec`, and end the process with one of the exit codes of docs/cli.md."""
    # told to stop (a batch system's time limit, a closed terminal) is an interruption: children end, scratch goes
    # Windows has no SIGHUP; nohup has it ignored, and means it
    known = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    numbers = [number for number in known if signal.getsignal(number) != signal.SIG_IGN]
    for number in numbers:
        signal.signal(number, _interrupt)
    close_umask()
    _repeat_signals()
    status = run(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            # Python would try again, and end with a code of its own
            silence(stream)
    for number in numbers:
        # the answer stands; Python shows where an exception meets its last steps
        signal.signal(number, signal.SIG_DFL)
    # what lives now lives to the end: a last look for garbage is a twentieth of a small command's time
    gc.freeze()
    sys.exit(status)


def _repeat_signals() -> None:
    """From the first signal on, interrupt what the main thread waits for ten times a second.

    Python looks for signals between its own steps. One that comes after such a look, and before a wait without a time
    limit begins, would be seen only when that wait ends: with a peer that sends nothing, minutes later. Until a signal
    comes, a thread waits for it in the system and costs nothing.
    """
    if not hasattr(signal, "pthread_kill"):
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    # a program that takes this process over, and an interpreter that ends, ignore SIGURG
    signal.signal(signal.SIGURG, _look_again)
    sys.unraisablehook = _unraisable
    main_thread = _thread.get_ident()

    def repeat() -> None:
        os.read(reading, 1)
        while True:
            time.sleep(0.1)
            signal.pthread_kill(main_thread, signal.SIGURG)

    _thread.start_new_thread(repeat, ())


_interrupts: list[int] = []
"""The signals received so far. Code in C may turn a signal's exception into another, such as an ImportError."""


_lost: list[None] = []
"""The interruptions that Python dropped: one in the callback of a weak reference, or in a finaliser, has no caller."""


def _interrupt(signum: int, frame: object) -> None:
    _interrupts.append(signum)
    raise KeyboardInterrupt


def _unraisable(dropped: sys.UnraisableHookArgs) -> None:
    if dropped.exc_type is KeyboardInterrupt:
        _lost.append(None)
    else:
        sys.__unraisablehook__(dropped)


def _look_again(signum: int, frame: object) -> None:
    if _lost:
        _lost.clear()
        raise KeyboardInterrupt


def run(argv: list[str]) -> int:
    """Run a command line and give its exit code. Errors go to stderr, and where `--json` is asked and no document has
    been printed, as a document to stdout too.
    """
    redact.forget()
    redact.register_environment(os.environ)
    begin_output()
    observe(Terminal())
    try:
        failure = _attempt(argv)
        if isinstance(failure, int):
            return failure
        options = argv[: argv.index("--")] if "--" in argv else argv
        if "--json" in options and not has_printed_json():
            with suppress(OSError):
                out_json(failure.document())
        return failure.exit_code
    finally:
        # who called this in a process of its own has more to say
        begin_output()
        observe(Observer())


@contextmanager
def environment_of_command() -> Iterator[None]:
    """Give this process, and so all that it starts, the site's proxy and the variables of its fabric where the
    environment names none, and the account's home where HOME is empty or relative: libraries read it by themselves.
    Who called `main` in a process of its own gets the environment back."""
    home = home_path(os.environ)
    more = site_variables(os.environ, home)
    if os.environ.get("HOME", home) != home:
        more["HOME"] = home
    before = {name: os.environ[name] for name in more if name in os.environ}
    os.environ.update(more)
    try:
        yield
    finally:
        for name in more:
            os.environ.pop(name, None)
        os.environ.update(before)


def _attempt(argv: list[str]) -> int | Failure:
    """Run a command line; give its exit code, or what made it fail, which stands on stderr already."""
    try:
        _have_streams()
        # a locale of plain ASCII must not turn a package's author into a traceback
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        result: Any = cli.main(argv, prog_name="envspec", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except EnvspecError as error:
        return print_failure(Failure.of(error))
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        # click makes an Abort of an interruption, which knows what is done already
        return _interruption(str(error.__cause__ or error))
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return print_failure(_misuse(error))
    except BrokenPipeError:
        # whoever reads stdout has seen enough
        silence(sys.stdout)
        return 0
    except Exception as error:  # noqa: BLE001 - it ends in a message and an exit code
        if _interrupts:
            return _interruption("")
        if os.environ.get("ENVSPEC_TRACEBACK"):
            say_traceback()
            return 1
        # what closes a file for want of memory fails by another error
        causes = (shortage("envspec", f"{type(cause).__name__}: {cause}") for cause in _chain_of(error))
        if short := next(filter(None, causes), None):
            # what its frames hold, and those of what it came from, is needed for the message
            error.__traceback__ = error.__context__ = error.__cause__ = None
            return print_failure(Failure.of(short))
        if isinstance(error, FileNotFoundError) and not _here():
            return print_failure(
                Failure.of_text("the current folder doesn't exist any more", hint="change to one that exists")
            )
        if isinstance(error, OSError) and error.filename is None and error.strerror:
            # no file of ours: these are opened where errors are expected
            silence(sys.stdout)
            return print_failure(Failure.of_text(f"the output can't be written: {error.strerror}"))
        return print_failure(
            Failure.of_text(
                f"envspec has a fault: {type(error).__name__}: {error}",
                hint="please report this; with ENVSPEC_TRACEBACK=1 envspec shows where it happened",
            )
        )


def _chain_of(error: BaseException) -> Iterator[BaseException]:
    """Give an error, and those in whose handling it came about."""
    following: BaseException | None = error
    while following is not None:
        yield following
        following = following.__cause__ or following.__context__


def _interruption(what: str) -> Failure:
    message = f"interrupted: {what or 'nothing was changed'}"
    say(message, always=True)
    return Failure.of_text(message, exit_code=130)


def _have_streams() -> None:
    """Open closed descriptors (`>&-`) to the null device, so that commands can write to them."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - open as long as the process


def _here() -> bool:
    try:
        return bool(os.getcwd())
    except FileNotFoundError:
        return False


def _misuse(error: click.ClickException) -> Failure:
    """A click error in envspec's form: an unknown option, a missing or wrong value."""
    message = error.format_message()
    context = error.ctx if isinstance(error, click.UsageError) else None
    return Failure.of_text(
        f"{message[:1].lower()}{message[1:].rstrip('.')}",
        hint=f"`{context.command_path} --help` shows its usage" if context else None,
        exit_code=error.exit_code,
    )
