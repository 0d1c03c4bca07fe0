"""A new spec: blank, from another tool's file, or from an environment."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from envspec.app import inputs
from envspec.app.gpu_names import known_gpus
from envspec.app.observer import say, warn
from envspec.base.errors import InputError, Place
from envspec.base.reader.messages import key_path
from envspec.base.reader.structure import violations
from envspec.base.texts import printable
from envspec.draft.model import Draft, NewTarget
from envspec.draft.render import Heading, make_parseable, render
from envspec.draft.targets import CPU, Machines, new_targets, on_machines
from envspec.packages.other_formats import PINS
from envspec.packages.requirement import parse_specifier
from envspec.prove.doctor.feasibility import Hardware, hardware_of
from envspec.prove.doctor.gather import gather_hardware
from envspec.spec.advice import slug
from envspec.spec.edit import write_text
from envspec.spec.schema import ENV_NAME, FORMAT, rendered_json_schema

SCHEMA = "spec.schema.json"
"""The file beside a spec that its first line names, for editors."""

_PYTHONS = ("3.12", "3.11", "3.13", "3.10", "3.14", "3.9", "3.8")
"""Which Python a spec gets where a file allows several: the one that most packages have wheels for first."""

Machine = tuple[tuple[str, ...], str | None]
"""GPUs, and their driver."""


@dataclass(frozen=True)
class InitRequest:
    """A new spec. `begun` is another tool's file, `prefix` an environment; a value that is None or empty comes from
    these, or is chosen."""

    name: str
    begun: Path | None
    prefix: Path | None
    gpus: tuple[str, ...]
    cuda: str | None
    driver: str | None
    python: str | None
    platforms: tuple[str, ...]
    output: Path | None
    force: bool


@dataclass(frozen=True)
class NewSpec:
    """A spec that was written, and the file or the prefix that it began with."""

    path: str
    name: str
    draft: Draft
    targets: tuple[NewTarget, ...]
    begun: Path | None

    @property
    def lock(self) -> str:
        """The command that locks it, with the versions of the lock beside its file, where that one's tool left one."""
        found = (self.begun.with_name(lock) for lock, of in PINS.items() if self.begun and self.begun.name == of)
        lock = next((one for one in found if one.is_file()), None)
        return f"envspec lock {self.path}" + (f" --pins-from {shlex.quote(str(lock))}" if lock else "")

    def for_this_machine(self) -> str | None:
        """Give the command that writes it for this machine's GPUs; None for a spec with CUDA or a machine without."""
        words = "" if any(one.cuda for one in self.targets) else options_of(hardware_of(gather_hardware()))
        return f"envspec init {self.name} {words} -o {self.path} --force" if words else None


def write_spec(asked: InitRequest, ask: Callable[[tuple[str, ...], str | None], Machine] | None) -> NewSpec:
    """Write a spec, and warn of what it can't hold. `ask` lets the user name GPUs and driver where nothing does, and
    is given what this machine has. Raises InputError, SpecError."""
    name = asked.name if "/" in asked.name else asked.name.removesuffix(".toml")
    path = _path(name, asked.output, asked.force)
    gpus, driver, cuda = tuple(dict.fromkeys(asked.gpus)), asked.driver, asked.cuda
    known_gpus(gpus)
    refuse_odd(asked.python, asked.platforms, None if cuda == "cpu" else cuda, driver)
    draft = _draft(asked.begun, asked.prefix, name)
    if ask and not (gpus or cuda or driver or draft.cuda or draft.targets):
        here = hardware_of(gather_hardware())
        gpus, driver = ask(here.gpus, here.driver)
    machines = Machines(tuple(dict.fromkeys(asked.platforms)), cuda, gpus, driver)
    draft = on_machines(draft, machines)
    begun = asked.begun or asked.prefix
    parse = partial(inputs.read_edit, path)
    heading = Heading(path, name, _python(draft), str(begun) if begun else None, f"./{SCHEMA}")
    # what of the file no spec can hold is told apart from what is wrong with the command line
    draft = make_parseable(lambda one: render(one, heading, one.targets or (CPU,)), draft, parse)
    heading = replace(heading, python=asked.python or heading.python)
    targets, against = new_targets(draft, machines, lambda made: parse(render(draft, heading, made)))
    text = render(draft, heading, targets)
    parse(text)
    write_text(path, text)
    schema = Path(path).with_name(SCHEMA)
    if not os.path.lexists(schema):
        write_text(str(schema), rendered_json_schema())
        say(f"note: editors complete and check the spec by {printable(str(schema))}")
    for note in draft.notes:
        warn(printable(str(note)))
    for finding in against:
        warn(f"{path}: {printable(finding.message)}")
    return NewSpec(path, name, draft, targets, begun)


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
        return Draft(pip=("torch",))
    from envspec.draft.read import read_draft

    draft = read_draft(begun)
    if not (draft.pip or draft.own or draft.conda or draft.project or draft.targets):
        hint = f"a blank spec: `envspec init {name}`"
        raise InputError("it asks for no package", hint=hint, place=Place(str(begun)))
    return draft


def options_of(hardware: Hardware) -> str:
    """Return the options that say what a machine has; nothing for one without a GPU."""
    words = [f"--gpu {shlex.quote(gpu)}" for gpu in hardware.gpus]
    return " ".join([*words, f"--driver {hardware.driver}"] if words and hardware.driver else words)


def refuse_odd(
    python: str | None = None, platforms: tuple[str, ...] = (), cuda: str | None = None, driver: str | None = None
) -> None:
    """Refuse values that no spec can have, by the options that gave them. Raises InputError."""
    for platform in platforms or ("linux-64",):
        given = {"platform": platform, "cuda": cuda, "driver": driver}
        target = {key: value for key, value in given.items() if value is not None}
        for found in violations({"env": {"python": python or _PYTHONS[0]}, "targets": {"new": target}}, FORMAT):
            message = found.message.replace(key_path(found.path), f"--{found.path[-1]}")
            raise InputError(message, hint=found.hint() if callable(found.hint) else found.hint)


def _path(name: str, output: Path | None, force: bool) -> str:
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
    text = re.sub(r"(?<![=<>!~])=(?=\d)", "==", draft.requires_python.replace(" ", ""))
    try:
        asked = parse_specifier(text)
    except ValueError:
        return _PYTHONS[0]
    return next((one for one in _PYTHONS if asked.contains(f"{one}.99") or asked.contains(f"{one}.0")), _PYTHONS[0])
