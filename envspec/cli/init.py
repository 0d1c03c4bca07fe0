"""`envspec init`."""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envspec.app import inputs
from envspec.base.errors import InputError, Place
from envspec.base.texts import printable
from envspec.cli import console, options
from envspec.cli.console import out, say, warn
from envspec.packages.other_formats import PINS

if TYPE_CHECKING:
    from envspec.draft.model import Draft, Note
    from envspec.prove.doctor.hardware import Hardware

EPILOG = """\b
Examples:
  envspec init demo --gpu H100 --driver 550.54.15
  envspec init demo --from requirements.txt --gpu A100
  envspec init demo --from environment.yml --cuda 12.6 -o specs/demo.toml
  envspec init demo --from-prefix ~/venvs/demo --gpu A100
"""

SCHEMA = "spec.schema.json"
"""The file beside a spec that its first line names, for editors."""

_PYTHONS = ("3.12", "3.11", "3.13", "3.10", "3.14", "3.9", "3.8")
"""Which Python a spec gets where a file allows several: the one that most packages have wheels for first."""


@click.command(epilog=EPILOG)
@click.argument("name", metavar="NAME")
@click.option(
    "--from",
    "begun",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Begin with a requirements.txt or .in, environment.yml, pyproject.toml, pixi.toml, cog.yaml or Dockerfile.",
)
@click.option(
    "--from-prefix",
    "prefix",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Begin with what is installed in a virtual environment or a conda prefix. None of its code runs.",
)
@options.gpu('A GPU of the target: "H100", "hopper". Repeatable.')
@click.option("--cuda", metavar="X.Y", help="The target's CUDA, or cpu [default: the file's, or what suits the GPUs].")
@click.option("--driver", metavar="VERSION", help="The NVIDIA driver on the machines.")
@click.option("--python", metavar="X.Y", help="The Python version [default: what the file says, else 3.12].")
@click.option("--platform", "platforms", multiple=True, metavar="PLATFORM", help="The platform [default: linux-64].")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The spec's file [default: specs/NAME.toml].")
@click.option("--force", is_flag=True, help="Overwrite a file that exists.")
@options.as_json
def command(
    name: str,
    begun: Path | None,
    prefix: Path | None,
    gpus: tuple[str, ...],
    cuda: str | None,
    driver: str | None,
    python: str | None,
    platforms: tuple[str, ...],
    output: Path | None,
    force: bool,
    as_json: bool,
) -> int:
    """Write a new spec: a blank one, what another tool's file asks for, or what an environment was made for

    What a spec can't hold stands in it as a comment, and on stderr. Nothing is locked yet.
    """
    from envspec.app.gpu_names import known_gpus
    from envspec.draft.render import Heading, render, settled
    from envspec.draft.targets import CPU, Machines, new_targets, on_machines
    from envspec.spec.edit import write_text

    name = name.removesuffix(".toml") if "/" not in name else name
    path = _path(name, output, force)
    gpus = tuple(dict.fromkeys(gpus))
    known_gpus(gpus)
    _refuse_odd(python=python, platforms=platforms, cuda=None if cuda == "cpu" else cuda, driver=driver)
    draft = _draft(begun, prefix, name)
    if not (gpus or cuda or driver or draft.cuda or draft.targets or as_json):
        gpus, driver = _asked()
    machines = Machines(tuple(dict.fromkeys(platforms)), cuda, gpus, driver)
    draft = on_machines(draft, machines)
    begun = begun or prefix
    parse = partial(inputs.read_edited, path)
    heading = Heading(path, name, _python(draft), str(begun) if begun else None, f"./{SCHEMA}")
    # what of the file no spec can hold is told apart from what is wrong with the command line
    draft = settled(lambda one: render(one, heading, one.targets or (CPU,)), draft, parse)
    heading = replace(heading, python=python or heading.python)
    targets, against = new_targets(draft, machines, lambda made: parse(render(draft, heading, made)))
    text = render(draft, heading, targets)
    parse(text)
    write_text(path, text)
    _place_schema(path)
    for note in draft.notes:
        warn(printable(str(note)))
    for finding in against:
        warn(f"{path}: {printable(finding.message)}")
    names = [target.name for target in targets]
    if as_json:
        options.print_json("init", {"spec": path, "targets": names, "notes": [_note_json(one) for one in draft.notes]})
        return 0
    out(f"wrote {path}: {', '.join(names)}")
    if not any(target.cuda for target in targets) and cuda is None:
        _offer(path, name)
    say(f"hint: `envspec lock {path}{_first_pins(begun)}`")
    return 0


def _first_pins(begun: Path | None) -> str:
    """Return the option that begins with the versions of the lock beside a file, where its tool left one."""
    found = (begun.with_name(lock) for lock, of in PINS.items() if begun is not None and begun.name == of)
    lock = next((one for one in found if one.is_file()), None)
    return f" --pins-from {shlex.quote(str(lock))}" if lock else ""


def _place_schema(path: str) -> None:
    """Put the JSON Schema that the spec's first line names beside the spec, unless one lies there already."""
    schema = Path(path).with_name(SCHEMA)
    if not os.path.lexists(schema):
        from envspec.spec.edit import write_text
        from envspec.spec.schema import rendered_json_schema

        write_text(str(schema), rendered_json_schema())
        say(f"note: editors complete and check the spec by {printable(str(schema))}")


def _draft(begun: Path | None, prefix: Path | None, name: str) -> Draft:
    """Return what the spec begins with. Raises InputError for a file or a prefix that asks for nothing."""
    if begun and prefix:
        raise InputError("--from and --from-prefix both say what the spec begins with", hint="give one of them")
    if prefix is not None:
        from envspec.draft.prefix import read_prefix

        draft = read_prefix(prefix)
        if not (draft.pip or draft.conda):
            raise InputError("nothing is installed there", place=Place(str(prefix)))
        return draft
    if begun is None:
        from envspec.draft.model import Draft

        return Draft(pip=("torch",))
    from envspec.draft.read import read_draft

    draft = read_draft(begun)
    if not (draft.pip or draft.own or draft.conda or draft.project or draft.targets):
        hint = f"a blank spec: `envspec init {name}`"
        raise InputError("it asks for no package", hint=hint, place=Place(str(begun)))
    return draft


def _asked() -> tuple[tuple[str, ...], str | None]:
    """Ask for GPUs and driver, where a terminal is there."""
    if not console.has_terminal():
        return (), None
    from envspec.app.gpu_names import known_gpus
    from envspec.cli import init_questions
    from envspec.prove.doctor.gather import gather_hardware
    from envspec.prove.doctor.hardware import hardware_of

    return init_questions.gpus_and_driver(
        hardware_of(gather_hardware()),
        lambda names: known_gpus(names, ""),
        lambda driver: _refuse_odd(python=None, platforms=(), cuda=None, driver=driver),
    )


def _offer(path: str, name: str) -> None:
    """Say which GPUs and driver this machine has, where a target for CPUs was written."""
    from envspec.prove.doctor.gather import gather_hardware
    from envspec.prove.doctor.hardware import hardware_of

    if words := options_of(hardware_of(gather_hardware())):
        say(f"hint: for this machine's GPUs: `envspec init {name} {words} -o {path} --force`")


def options_of(hardware: Hardware) -> str:
    """Return the options that say what a machine has; nothing for one without a GPU."""
    words = [f"--gpu {shlex.quote(gpu)}" for gpu in hardware.gpus]
    return " ".join([*words, f"--driver {hardware.driver}"] if words and hardware.driver else words)


def _note_json(note: Note) -> dict[str, Any]:
    place = note.place
    return {
        "text": note.text,
        "file": place.file if place else None,
        "line": place.line or None if place else None,
    }


def _refuse_odd(*, python: str | None, platforms: tuple[str, ...], cuda: str | None, driver: str | None) -> None:
    """Refuse values that no spec can have, by the options that gave them. Raises InputError."""
    from envspec.base.reader.messages import dotted
    from envspec.base.reader.structure import violations
    from envspec.spec.schema import FORMAT

    for platform in platforms or ("linux-64",):
        given = {"platform": platform, "cuda": cuda, "driver": driver}
        target = {key: value for key, value in given.items() if value is not None}
        for found in violations({"env": {"python": python or _PYTHONS[0]}, "targets": {"new": target}}, FORMAT):
            message = found.message.replace(dotted(found.path), f"--{found.path[-1]}")
            raise InputError(message, hint=found.hint() if callable(found.hint) else found.hint)


def _path(name: str, output: Path | None, force: bool) -> str:
    from envspec.spec.advice import slug
    from envspec.spec.schema import ENV_NAME

    if not ENV_NAME.allows(name):
        better = slug(name.removesuffix(".toml").rpartition("/")[2])
        hint = f"for example: {better or ENV_NAME.example}; -o says where the spec goes"
        raise InputError(f"{printable(name)!r} is not {ENV_NAME.says}", hint=hint)
    path = output or Path("specs") / f"{name}.toml"
    if path.is_dir():
        path = path / f"{name}.toml"
    if path.exists() and not force:
        raise InputError(
            "it exists already", hint="choose another name, or overwrite it with --force", place=Place(str(path))
        )
    return str(path)


def _python(draft: Draft) -> str:
    if draft.python or not draft.requires_python:
        return draft.python or _PYTHONS[0]
    from envspec.packages.requirement import parse_specifier

    text = re.sub(r"(?<![=<>!~])=(?=\d)", "==", draft.requires_python.replace(" ", ""))
    try:
        asked = parse_specifier(text)
    except ValueError:
        return _PYTHONS[0]
    return next((one for one in _PYTHONS if asked.contains(f"{one}.99") or asked.contains(f"{one}.0")), _PYTHONS[0])
