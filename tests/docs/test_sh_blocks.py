"""Every command in a `sh` block is one that its program knows, and each program that isn't run here has its reason.

The blocks of docs/how-to are run: test_how_tos.py. So are other pages' lines that start envspec: test_page_blocks.py.
"""

from importlib import import_module

import click
from sh_blocks import HOW_TOS, Command, blocks, commands, pages

from envspec.cli.main import COMMANDS, cli

ELSEWHERE = {
    "apptainer": "tests/e2e/test_apptainer_image.py, where Apptainer is",
    "condor_submit": "needs a pool: tests/e2e/test_cluster_judges.py asks HTCondor's own reader",
    "diff": "two unpacked checks: tests/export/test_check_archive.py compares archives",
    "docker": "needs a daemon: tests/e2e/test_docker_heads.py has one",
    "git": "tests/review/git has repositories",
    "kubectl": "needs a cluster: tests/export/test_clusters.py runs what stands before it",
    "ln": "a modulefile's link: tests/export/test_lmod.py",
    "make": "it is what runs these tests",
    "mkdir": "a bundle's folder: tests/cli/test_bundle.py",
    "nix": "tests/e2e/test_nix_flakes.py, where Nix is",
    "pip": "the user's own environment: tests/test_package.py installs envspec, tests/e2e the locks",
    "pytest": "envspec's plugin: tests/prove/smoke/test_smoke_pytest_plugin.py",
    "python": "the check itself: tests/prove/smoke",
    "python3": "with kubectl: tests/export/test_clusters.py",
    "sbatch": "needs a cluster: tests/e2e/test_smoke_slurm.py, where Slurm is",
    "sha256sum": "a bundle's digest: tests/cli/test_bundle.py",
    "sh": "a bundle's installer: tests/cli/test_bundle.py",
    "ssh-keygen": "tests/lock/signing",
    "tar": "a bundle: tests/cli/test_bundle.py",
    "uv": "as pip",
}
"""What blocks start besides envspec, and where it is tested. What the how-tos start, test_how_tos.py runs."""


def test_envspec_has_every_command_and_option_and_other_programs_are_known() -> None:
    started = [command for page in pages() for command in commands(page)]
    others = {command.program for command in started if not command.page.startswith("docs/how-to/")} - {"envspec"}
    assert others == ELSEWHERE.keys()
    ours = [command for command in started if command.program == "envspec"]
    assert {f"{command.page}: {command.line}: {why}" for command in ours if (why := misread(command))} == set()


def misread(command: Command) -> str | None:
    """Say what click finds wrong in the words of a command; None if nothing. Files needn't be there."""
    name, *arguments = command.words[1:]
    if name == "--help":
        return None
    if name not in COMMANDS:
        return "unknown command"
    program: click.Command = import_module(f"envspec.cli.{name.replace('-', '_')}").command
    try:
        parser = program.make_parser(click.Context(program, info_name=name, **cli.context_settings))
        parser.parse_args(list(arguments))
    except click.UsageError as error:
        return error.format_message()
    return None


def test_no_page_has_a_shell_block_by_another_name() -> None:
    for page in pages():
        text = page.read_text("utf-8")
        assert not any(f"```{name}\n" in text for name in ("bash", "shell", "sh-session", "zsh")), page


def test_every_how_to_has_blocks() -> None:
    assert [page.name for page in sorted(HOW_TOS.glob("*.md")) if not blocks(page)] == []
