"""`envspec completion`, and the completions that a shell asks for."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ShellComplete, ZshComplete

from envspec.app import completion
from envspec.cli.console import out_file

EPILOG = """\b
Examples:
  envspec completion bash > ~/.local/share/bash-completion/completions/envspec
  envspec completion zsh > ~/.zfunc/_envspec       (with `fpath+=~/.zfunc` before compinit in ~/.zshrc)
  envspec completion fish > ~/.config/fish/completions/envspec.fish
"""

_WORDS = ("packages", "package")
"""The arguments of commands that take `[SPEC] PKG...`."""
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
    specs = _items(map(str, _specs()), incomplete)
    return specs or [CompletionItem(incomplete, type="file")]


def _specs() -> list[Path]:
    return sorted(Path("specs").glob("*.toml"))


def target_names(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the targets of the specs on the line."""
    return _items(sorted(completion.target_names(_paths(ctx))), incomplete)


def package_names(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the packages in the locks of the specs on the line."""
    return _items(sorted(completion.package_names(_paths(ctx), ctx.params.get("locks_dir"))), incomplete)


def spec_or_package(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the words of `[SPEC] PKG...`: a spec at first, and packages of its lock, or of the only spec's."""
    first = [] if any(ctx.params.get(name) for name in _WORDS) else _items(map(str, _specs()), incomplete)
    return [*first, *package_names(ctx, incomplete)]


def gpu_names(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the GPUs that the tables have, and their architectures."""
    return [CompletionItem(word) for word in completion.gpu_names() if word.lower().startswith(incomplete.lower())]


def codes(ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
    """Complete the codes of findings, each with its meaning, and the names of corrections."""
    known = completion.codes().items()
    return [CompletionItem(code, help=means) for code, means in known if code.startswith(incomplete)]


def _items(values: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    return [CompletionItem(value) for value in values if value.startswith(incomplete)]


def _paths(ctx: click.Context) -> Iterable[str]:
    """Find the specs on the line."""
    # where a spec comes by an option, the argument is something else
    names = ("spec_path",) if "spec_path" in ctx.params else ("path", "paths", "specs")
    given = next((value for name in names if (value := ctx.params.get(name))), ())
    # While an option's value is being typed, click leaves the arguments as they are.
    unsorted = [argument for argument in ctx.args if argument.endswith(".toml")]
    words = [word for name in _WORDS for word in ctx.params.get(name) or () if word.endswith(".toml")]
    only = map(str, _specs()) if any(name in ctx.params for name in _WORDS) and len(_specs()) == 1 else ()
    return ([given] if isinstance(given, str) else given) or words[:1] or unsorted or only
