"""`envspec completion`, and the completions that a shell asks for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from envspec.app import inputs
from envspec.base.errors import EnvspecError
from envspec.cli.console import out_file
from envspec.lock.model import Lock
from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec completion bash > ~/.local/share/bash-completion/completions/envspec
  envspec completion zsh > ~/.zfunc/_envspec       (with `fpath+=~/.zfunc` before compinit in ~/.zshrc)
  envspec completion fish > ~/.config/fish/completions/envspec.fish
"""

SHELLS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(list(SHELLS)), metavar="bash|zsh|fish")
def command(shell: str) -> None:
    """Print the completion script of a shell

    The script completes commands, options, specs, GPUs, codes, and the targets and packages of the spec on the line.
    """
    root = click.get_current_context().find_root()
    script = SHELLS[shell](root.command, {}, "envspec", "_ENVSPEC_COMPLETE")
    # Not `script.source()`: bash's starts a bash to learn its version, and it need not be installed here.
    out_file(f"{ShellComplete.source(script)}\n")


def spec_paths(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the specs in specs/, or whatever files the shell finds."""
    found = _items((str(path) for path in sorted(Path("specs").glob("*.toml"))), incomplete)
    return found or [CompletionItem(incomplete, type="file")]


def target_names(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the targets of the specs on the line, as the specs name them now."""
    return _items(sorted({target.name for spec in _specs(ctx) for target in spec.targets}), incomplete)


def package_names(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the packages in the locks of the specs on the line."""
    return _items(sorted({pin.name for lock in _locks(ctx) for target in lock for pin in target.pins}), incomplete)


def gpu_names(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the GPUs that the tables have, and their architectures."""
    from envspec.facts import gpus

    known = gpus.known()
    names = dict.fromkeys([*(gpu.architecture.lower() for gpu in known), *(gpu.name for gpu in known)])
    # a space would end the word on the line, and a hyphen is read as one; people say "RTX 5090"
    words = (one.removeprefix("GeForce ").replace(" ", "-") for one in names)
    return [CompletionItem(word) for word in words if word.lower().startswith(incomplete.lower())]


def codes(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the codes of findings, each with its meaning, and the names of corrections."""
    from envspec.base.codes import meanings
    from envspec.facts.corrections import table

    known = {row.name: f"{row.package} needs {row.requirement}" for row in table()}
    known |= {one.code: one.means for one in meanings().values()}
    return [CompletionItem(code, help=means) for code, means in known.items() if code.startswith(incomplete)]


def _items(values: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    return [CompletionItem(value) for value in values if value.startswith(incomplete)]


def _specs(ctx: click.Context) -> list[Spec]:
    # where a spec comes by an option, the argument is something else
    names = ("spec_path",) if "spec_path" in ctx.params else ("path", "paths", "specs")
    given = next((value for name in names if (value := ctx.params.get(name))), ())
    # While an option's value is being typed, click leaves the arguments as they are.
    unsorted = (argument for argument in ctx.args if argument.endswith(".toml"))
    found = []
    for path in ((given,) if isinstance(given, str) else given) or unsorted:
        try:
            found.append(inputs.read_spec(path))
        except EnvspecError:
            # A spec that is just being edited completes nothing, and a prompt is no place to tell why.
            continue
    return found


def _locks(ctx: click.Context) -> list[Lock]:
    found = []
    for spec in _specs(ctx):
        try:
            lock = inputs.folder_of(spec, ctx.params.get("locks_dir")).read()
        except EnvspecError:
            continue
        found += [lock] if lock else []
    return found
