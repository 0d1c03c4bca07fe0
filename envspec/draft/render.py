"""A draft as the text of a spec."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import Place, SpecError, SpecErrors
from envspec.base.redact import redact
from envspec.base.texts import printable
from envspec.draft.claims import settle
from envspec.draft.gather import Gathered
from envspec.draft.model import Draft, NewTarget, Note
from envspec.lock.toml_text import inline_strings, key, string, value
from envspec.packages.requirement import canonical_name
from envspec.spec.model import Spec

_PARTS = ("extra", "group")
_LINE = 88
"""The longest array that stands on one line, in characters."""
_EXAMPLE = """
# A target for GPUs:
# [targets.cu128-hopper]
# platform = "linux-64"
# cuda = "12.8"
# gpus = ["H100", "H200"]
# driver = "550.54.15"                # what the machines have; checked against CUDA's floor
"""


class Heading(Struct, frozen=True):
    """The comments above a new spec's contents. `began` is the file that it began with; None for a blank one.
    `schema` is where editors find the JSON Schema, as a path from the spec. `why` has reasons for python and cuda."""

    path: str
    name: str
    python: str
    began: str | None = None
    schema: str | None = None
    why: Mapping[str, str] = field(default_factory=dict)


def make_parseable(render: Callable[[Draft], str], draft: Draft, parse: Callable[[str], Spec]) -> Draft:
    """Return a draft whose text parses: what the spec's parser refuses becomes a comment and a note.

    Raises SpecError where what is left can't be a spec.
    """
    while True:
        text = render(draft)
        try:
            parse(text)
        except SpecError as error:
            refused = error.errors if isinstance(error, SpecErrors) else (error,)
            less = _without(draft, text, refused)
            if less is None:
                raise
            draft = less
        else:
            return draft


def _without(draft: Draft, text: str, refused: Sequence[SpecError]) -> Draft | None:
    """Return the draft without what was refused; None where the parser points at nothing that could be left out."""
    lines = text.split("\n")
    reduced = draft
    for error in refused:
        place = error.place
        line = lines[place.line - 1].strip() if place and 0 < place.line <= len(lines) else ""
        if reduced.project and (line.startswith("project =") or (place and place.file.endswith("pyproject.toml"))):
            notes = [Note(f"the spec doesn't name the project, and lists what its file does: {error}")]
            if reduced.available:
                notes.append(Note(f"left out with the project's name: {', '.join(reduced.available)}"))
            listed = Gathered()
            for text in (*reduced.own, *reduced.pip):
                listed.requirement(text, Place(os.path.join(reduced.project[0], "pyproject.toml")))
            pip = tuple(listed.pip.values())
            reduced = replace(reduced, project=None, own=(), pip=pip, notes=(*reduced.notes, *notes, *listed.notes))
            # what else was refused may be of the project
            return reduced
        less = _less(reduced, line)
        if less is None:
            return None
        note = Note(f"{line.rstrip(',')} is left out: {error.message}")
        reduced = replace(less, notes=(*reduced.notes, note))
    return reduced


def _less(draft: Draft, line: str) -> Draft | None:
    """Return the draft without what stands in a line; None where nothing of it does."""
    for part in ("pip", "own", "conda", "channels", "constraints", "unisolated", "apt"):
        values: tuple[str, ...] = getattr(draft, part)
        rest = tuple(text for text in values if string(text) not in line)
        if len(rest) < len(values):
            return replace(draft, **{part: rest})  # its own kind of field
    for place, target in enumerate(draft.targets):
        less = replace(
            target,
            pip=tuple(text for text in target.pip if string(text) not in line),
            conda=tuple(text for text in target.conda if string(text) not in line),
        )
        if less != target:
            return replace(draft, targets=(*draft.targets[:place], less, *draft.targets[place + 1 :]))
    for part in ("indexes", "find_links", "sources", "variables"):
        named: Mapping[str, str] = getattr(draft, part)
        left = {name: setting for name, setting in named.items() if not line.startswith(f"{key(name)} =")}
        if len(left) < len(named):
            return replace(draft, **{part: left})  # its own kind of field
    if draft.exclude_newer and line.startswith("exclude-newer ="):
        return replace(draft, exclude_newer=None)
    overrides = tuple(override for override in draft.overrides if f"requirement = {string(override[0])}" not in line)
    return replace(draft, overrides=overrides) if len(overrides) < len(draft.overrides) else None


def render(draft: Draft, heading: Heading, targets: Iterable[NewTarget]) -> str:
    """Return the text of a spec, in the style of those that ship with envspec."""
    return "\n".join(_lines(draft, heading, targets)).rstrip() + "\n"


def _lines(draft: Draft, heading: Heading, targets: Iterable[NewTarget]) -> Iterator[str]:
    if heading.schema:
        yield f"#:schema {heading.schema}"
    if heading.began:
        yield f"# Began as {_comment(heading.began)}."
    if draft.notes:
        yield "# What is not as it was there:"
        yield from (f"# - {_comment(str(note))}" for note in draft.notes)
    yield "[env]"
    yield f"name = {string(heading.name)}"
    if draft.description:
        yield f"description = {string(' '.join(draft.description.split()))}"
    requires = settle(draft.claims).requires
    says = requires and f"the files: {requires}"
    yield f"python = {string(heading.python)}" + _aside("; ".join(filter(None, (says, heading.why.get("python")))))
    if draft.exclude_newer:
        yield f"exclude-newer = {string(draft.exclude_newer)}"
    if draft.project:
        yield from _project(draft, heading)
    yield ""
    yield from _pip(draft)
    if draft.conda or any(target.conda for target in draft.targets):
        yield "[conda]"
        yield from _array("channels", draft.channels or ("conda-forge",))
        yield from _array("dependencies", draft.conda)
        yield ""
    made = tuple(targets)
    for target in made:
        yield from render_target(target, heading.why.get("cuda"))
    if draft.apt or draft.user:
        yield "[image]"
        yield from ([f"user = {string(draft.user)}"] if draft.user else ())
        yield from _array("apt", draft.apt)
        yield ""
    if draft.variables:
        yield from _names("image.env", draft.variables)
    yield "[smoke]"
    yield 'workload = "basic"                    # or multimodal, llm, deit, dynamic'
    if not any(target.cuda for target in made):
        yield from _EXAMPLE.split("\n")


def _project(draft: Draft, heading: Heading) -> Iterator[str]:
    assert draft.project is not None
    folder, extras = draft.project
    path = Path(os.path.relpath(folder, Path(heading.path).absolute().parent)).as_posix()
    project = {"path": path, "extras": extras} if extras else path
    yield f"project = {value(project)}" + _aside("the dependencies of its pyproject.toml are the spec's")
    if draft.available:
        yield f"# It has more that can be taken: {_comment(', '.join(draft.available))}; for example:"
        kind, _, name = next(iter(draft.available)).partition(" ")
        yield f"# project = {{ path = {string(path)}, {kind}s = [{_comment(string(name))}] }}"


def _pip(draft: Draft) -> Iterator[str]:
    own = () if draft.project else draft.own
    dependencies = (*own, *draft.pip)
    listed = [
        *_array("dependencies", dependencies),
        *_array("constraints", draft.constraints),
        *_array("no-build-isolation", draft.unisolated),
    ]
    if draft.overrides:
        listed.append("overrides = [")
        listed += [
            f"  {{ requirement = {string(text)}, reason = {string(reason)} }}," for text, reason in draft.overrides
        ]
        listed.append("]")
    if listed or draft.indexes or draft.find_links:
        yield "[pip]"
        yield from listed
        yield ""
    yield from _names("pip.indexes", draft.indexes)
    yield from _names("pip.find-links", draft.find_links)
    yield from _names("pip.sources", {canonical_name(name): index for name, index in draft.sources.items()})


def render_target(target: NewTarget, why: str | None = None) -> Iterator[str]:
    """Yield the lines of a target's tables, an empty one last."""
    table = f"targets.{key(target.name) if '.' not in target.name else string(target.name)}"
    yield f"[{table}]"
    yield f"platform = {string(target.platform)}"
    if target.cuda:
        yield f"cuda = {string(target.cuda)}" + _aside(why)
    if target.gpus:
        yield f"gpus = {inline_strings(target.gpus)}"
    if target.driver:
        yield f"driver = {string(target.driver)}"
    if target.glibc:
        yield f"glibc = {string(target.glibc)}"
    if target.cpu:
        yield f"cpu = {string(target.cpu)}"
    parts = [(kind, [part.partition(" ")[2] for part in target.parts if part.startswith(kind)]) for kind in _PARTS]
    if target.parts:
        yield f"[{table}.project]"
        yield from (f"{kind}s = {inline_strings(names)}" for kind, names in parts if names)
    for half, requirements in (("pip", target.pip), ("conda", target.conda)):
        if requirements:
            yield f"[{table}.{half}]"
            yield from _array("dependencies", requirements)
    yield ""


def _array(name: str, values: Sequence[str]) -> Iterator[str]:
    if not values:
        return
    line = f"{name} = {inline_strings(values)}"
    # what the parser refuses is found by its line
    if len(values) == 1 and len(line) <= _LINE:
        yield line
        return
    yield f"{name} = ["
    yield from (f"  {string(text)}," for text in values)
    yield "]"


def _names(table: str, values: Mapping[str, str]) -> Iterator[str]:
    if values:
        yield f"[{table}]"
        yield from (f"{key(name)} = {string(text)}" for name, text in values.items())
        yield ""


def _aside(text: str | None) -> str:
    return f"  # {_comment(text)}" if text else ""


def _comment(text: str) -> str:
    """Return a text that stays in its comment and its line."""
    return re.sub(r"\s+", " ", printable(redact(text)))[:300]
