"""`envspec init`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from envspec.app.gpu_names import known_gpus
from envspec.app.init import InitRequest, Machine, refuse_odd, write_spec
from envspec.base.errors import InputError
from envspec.base.texts import few
from envspec.cli import console, options
from envspec.cli.console import out, say, tell

EPILOG = """\b
Examples:
  envspec init demo --gpu H100 --driver 550.54.15
  envspec init demo --from . --gpu H100
  envspec init demo --from . --as-of HEAD
  envspec init demo --from requirements.txt --gpu A100
  envspec init demo --from environment.yml --cuda 12.6 -o specs/demo.toml
  envspec init demo --from-prefix ~/venvs/demo --gpu A100
"""

_GPUS = "GPUs of the target, such as H100, A100 (empty: none, for CPUs)"
_DRIVER = "the oldest driver on these machines, such as 550.54.15 (empty: not known)"

_T = TypeVar("_T")


@click.command(epilog=EPILOG)
@click.argument("name", metavar="NAME")
@click.option(
    "--from",
    "begun",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE|FOLDER",
    help="Read the environment's files in a repository's folder, or a file of another tool:"
    " requirements.txt or .in, environment.yml, pyproject.toml, setup.py, pixi.toml, Dockerfile, cog.yaml, README."
    " Repeatable: what several ask for is joined. None of their code runs.",
)
@click.option(
    "--prefer",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="The file that counts if files contradict each other about a package. Repeatable.",
)
@click.option(
    "--as-of",
    metavar="DATE|REV",
    help="Take releases, Python and CUDA as of a day, or of a commit of the repository.",
)
@click.option(
    "--from-prefix",
    "prefix",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Read the packages of a virtual environment or a conda prefix. None of its code runs.",
)
@options.gpu('A GPU of the target: "H100", "hopper". Repeatable.')
@click.option("--cuda", metavar="X.Y", help="The target's CUDA, or cpu [default: the file's, else one for the GPUs].")
@click.option("--driver", metavar="VERSION", help="The NVIDIA driver on the machines.")
@click.option("--glibc", metavar="VERSION", help="The glibc of the machines, or of the image [default: 2.28].")
@click.option("--python", metavar="X.Y", help="The Python version [default: the file's, else 3.12].")
@click.option("--platform", "platforms", multiple=True, metavar="PLATFORM", help="The platform [default: linux-64].")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The spec's file [default: specs/NAME.toml].")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@options.offline
@click.option("--dry-run", is_flag=True, help="Print the spec, and write nothing.")
@options.as_json
def command(**arguments: Any) -> int:
    """Write a new spec: blank, or from a repository, a file or an environment

    Settings that a spec can't hold become comments in it and lines on stderr. Nothing is locked yet.
    """
    made = write_spec(InitRequest(**arguments), None if console.wants_json() or not console.has_terminal() else _ask)
    names = [target.name for target in made.targets]
    if console.wants_json():
        notes = [
            {"text": note.text, "file": place and place.file, "line": (place and place.line) or None}
            for note in made.draft.notes
            for place in [note.place]
        ]
        sources = [{"file": source.file, "gives": source.gives, "aside": source.aside} for source in made.sources]
        options.print_json("init", {"spec": made.path, "targets": names, "sources": sources, "notes": notes})
        return 0
    if arguments["dry_run"]:
        out(made.text.rstrip())
        return 0
    out(f"wrote {made.path}: {', '.join(names)}")
    if made.unread:
        files = f"{few(made.unread, 3)} of this folder {'is' if len(made.unread) == 1 else 'are'} not read"
        say(f"hint: {files}: begin with `envspec init {made.name} --from . --force`")
    if arguments["cuda"] is None and (again := made.for_this_machine()):
        say(f"hint: for this machine's GPUs: `{again}`")
    say(f"hint: `{made.lock}`")
    return 0


def _ask(here_gpus: tuple[str, ...], here_driver: str | None) -> Machine:
    """Ask for the target's GPUs and driver; this machine's are offered first. An answer that no spec can have
    is refused, and the question is put again."""
    if here_gpus:
        with_driver = f" with driver {here_driver}" if here_driver else ""
        if click.confirm(f"this machine has {', '.join(here_gpus)}{with_driver}: a target for these?", True, err=True):
            return here_gpus, here_driver
    gpus = _answer(
        _GPUS,
        lambda text: tuple(filter(None, map(str.strip, text.split(",")))),
        lambda names: known_gpus(names, ""),
    )
    driver = _answer(_DRIVER, str, lambda text: refuse_odd(driver=text or None)) if gpus else ""
    return gpus, driver or None


def _answer(question: str, read: Callable[[str], _T], check: Callable[[_T], object]) -> _T:
    while True:
        given = read(click.prompt(question, default="", show_default=False, err=True).strip())
        try:
            check(given)
        except InputError as error:
            tell(error)
        else:
            return given
