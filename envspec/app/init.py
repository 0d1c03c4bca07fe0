"""A new spec: blank, from a repository or another tool's files, or from an environment."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from envspec.app import inputs
from envspec.app.gpu_names import known_gpus
from envspec.app.observer import observer, say, warn
from envspec.base.errors import EnvspecError, InputError, Place, SpecError, together
from envspec.base.reader.document import key_path
from envspec.base.reader.structure import violations
from envspec.base.texts import few, plural, printable
from envspec.draft.claims import settle
from envspec.draft.imports import declarations, find_declaration, is_brought, read_imports
from envspec.draft.join import PART, Contradiction, Declaration, contradictions, join, without
from envspec.draft.model import Draft, NewTarget, Note
from envspec.draft.render import Heading, make_parseable, render
from envspec.draft.repository import files_beside, read_draft, read_repository
from envspec.draft.targets import (
    CPU,
    ChosenMachines,
    Machines,
    SpecOfDraft,
    bounds_torch,
    choose,
    on_machines,
    torch_of_triton,
    with_sources,
)
from envspec.facts.python_builds import newest_minor
from envspec.packages.names import requirement_name
from envspec.packages.other_formats import PINS, format_of
from envspec.packages.python_range import bound_of, parse_python, releases_of
from envspec.packages.requirement import canonical_name
from envspec.prove.doctor.feasibility import Hardware, hardware_of
from envspec.prove.doctor.gather import gather_hardware
from envspec.review.git.program import git_output
from envspec.spec.advice import slug
from envspec.spec.edit import write_text
from envspec.spec.forms import ENV_NAME, PYTHONS
from envspec.spec.model import Spec
from envspec.spec.schema import FORMAT, rendered_json_schema

SCHEMA = "spec.schema.json"
"""The file beside a spec that its first line names, for editors."""

_OFFERED = 3
"""The files that aren't taken and have a line each on the screen; more are counted there."""

_PYTHONS = {
    "3.12": "2023-10-02", "3.11": "2022-10-24", "3.13": "2024-10-07", "3.10": "2021-10-04", "3.14": "2025-10-07",
    "3.9": "2020-10-05", "3.8": "2019-10-14",
}  # fmt: skip
"""The Pythons that a spec gets where files allow several, those with the most wheels first. Each with the
day of its release (PEP 569, 596, 619, 664, 693, 719, 745)."""

Machine = tuple[tuple[str, ...], str | None]
"""GPUs, and their driver."""


class InitRequest(Struct, frozen=True):
    """A new spec. `begun` has a repository's folder or other tools' files, `prefix` an environment; a value that is
    None or empty comes from these, or is chosen.

    prefer  files that count, the first first, where files contradict each other
    as_of   a day, or a revision of the repository: releases after it don't count
    """

    name: str
    begun: tuple[Path, ...]
    prefix: Path | None
    prefer: tuple[Path, ...]
    as_of: str | None
    gpus: tuple[str, ...]
    cuda: str | None
    driver: str | None
    glibc: str | None
    python: str | None
    platforms: tuple[str, ...]
    output: Path | None
    force: bool
    offline: bool
    dry_run: bool


class NewSpec(Struct, frozen=True):
    """A spec that was written, or shown, and the files that it began with, those among them that were only offered.
    `unread` has the current folder's files that a blank spec doesn't begin with."""

    path: str
    name: str
    draft: Draft
    targets: tuple[NewTarget, ...]
    sources: tuple[Declaration, ...]
    text: str = ""
    unread: tuple[str, ...] = ()

    @property
    def lock(self) -> str:
        """The command that locks it, with the versions of the lock beside its file, where that one's tool left one."""
        begun = [Path(source.file) for source in self.sources if source.aside is None]
        locks = (path.with_name(lock) for lock, of in PINS.items() for path in begun if path.name == of)
        lock = next((path for path in locks if path.is_file()), None)
        return f"envspec lock {self.path}" + (f" --pins-from {shlex.quote(str(lock))}" if lock else "")

    def for_this_machine(self) -> str | None:
        """Give the command that writes it for this machine's GPUs; None for a spec with CUDA or a machine without."""
        words = "" if any(target.cuda for target in self.targets) else options_of(hardware_of(gather_hardware()))
        return f"envspec init {self.name} {words} -o {self.path} --force" if words else None


def write_spec(request: InitRequest, ask: Callable[[tuple[str, ...], str | None], Machine] | None) -> NewSpec:
    """Write a spec, and warn of what it can't hold. `ask` lets the user name GPUs and driver where nothing does, and
    is given what this machine has. Raises InputError, SpecError."""
    name = request.name if "/" in request.name else request.name.removesuffix(".toml")
    path = _path(name, request.output, request.force or request.dry_run)
    gpus, driver, cuda = tuple(dict.fromkeys(request.gpus)), request.driver, request.cuda
    known_gpus(gpus)
    refuse_odd(request.python, request.platforms, None if cuda == "cpu" else cuda, driver, request.glibc)
    sources = _sources(request)
    draft = _draft(sources, request)
    settled = settle(draft.claims)
    if ask and not (gpus or cuda or driver or settled.cuda or settled.cuda_bounds or draft.targets):
        here = hardware_of(gather_hardware())
        gpus, driver = ask(here.gpus, here.driver)
    machines = Machines(tuple(dict.fromkeys(request.platforms)), cuda, gpus, driver, request.glibc)
    draft = on_machines(draft, machines)
    parse = partial(inputs.read_edit, path)
    began = ", ".join(source.file for source in sources if source.aside is None) or (
        request.prefix and str(request.prefix)
    )
    pythons = [request.python] if request.python else _pythons(draft)
    heading = Heading(path, name, pythons[0], began or None, f"./{SCHEMA}")
    # what of the file no spec can hold is told apart from what is wrong with the command line
    draft = make_parseable(lambda candidate: render(candidate, heading, candidate.targets or (CPU,)), draft, parse)

    def spec_of(candidate: Draft, made: tuple[NewTarget, ...]) -> Spec:
        return parse(render(candidate, heading, made))

    chosen = _choose(draft, machines, pythons, spec_of, offline=request.offline)
    draft = with_sources(draft, chosen.targets)
    draft = replace(draft, notes=(*draft.notes, *settled.notes, *chosen.notes, *_of_build(chosen.python, draft)))
    says = {
        key: f"{source.file} says so"
        for source in reversed(sources)
        for key in ("python", "cuda")
        if source.aside is None and getattr(settle(source.draft.claims), key)
    }
    text = render(draft, replace(heading, python=chosen.python, why={**says, **chosen.why}), chosen.targets)
    parse(text)
    schema = Path(path).with_name(SCHEMA)
    if not request.dry_run:
        write_text(path, text)
    if not (request.dry_run or os.path.lexists(schema)):
        write_text(str(schema), rendered_json_schema())
        say(f"note: editors complete and check the spec by {printable(str(schema))}")
    for note in draft.notes:
        if not note.is_counted:
            warn(printable(str(note)))
    if counted := sum(note.is_counted for note in draft.notes):
        warn(f"{counted} more files aren't taken: the head of {printable(path)} lists them, each with its --from")
    unread = () if request.begun or request.prefix else files_beside(Path())
    return NewSpec(path, name, draft, chosen.targets, sources, text, unread)


def _choose(
    draft: Draft, machines: Machines, pythons: Sequence[str], spec_of: SpecOfDraft, *, offline: bool
) -> ChosenMachines:
    """Choose targets and Python by the facts, where a CUDA is to be chosen and no file names a torch, by the torch that
    the requirements lead to. Raises Infeasible."""
    settled = settle(draft.claims)
    wants_cuda = machines.gpus or machines.driver or settled.cuda_bounds
    stated = (
        machines.cuda
        or settled.cuda
        or draft.targets
        or bounds_torch(draft)
        or torch_of_triton(draft)
        or not (draft.pip or draft.own)
    )
    if stated or not wants_cuda:
        return choose(draft, machines, pythons, spec_of)
    from envspec.app.torch_solve import choose_by_answers

    return choose_by_answers(draft, machines, pythons, spec_of, offline=offline)


def _sources(request: InitRequest) -> tuple[Declaration, ...]:
    """Read what the spec begins with, the files that count first. Raises InputError."""
    if request.begun and request.prefix:
        raise InputError("--from and --from-prefix both say what the spec begins with", hint="give one of them")
    declarations_by_file: dict[str, Declaration] = {}
    for path in request.begun:
        if path.is_dir():
            new = {declaration.file: declaration for declaration in read_repository(path)}
            # a file that counts in one folder does, whatever another one says
            declarations_by_file |= {
                file: declaration
                for file, declaration in new.items()
                if declaration.aside is None or file not in declarations_by_file
            }
        else:
            declarations_by_file[str(path)] = Declaration(str(path), read_draft(path))
    itself = {
        canonical_name(declaration.draft.name)
        for declaration in declarations_by_file.values()
        if declaration.draft.name and declaration.aside != PART
    }
    return tuple(_without_itself(declaration, itself) for declaration in declarations_by_file.values())


def _without_itself(source: Declaration, names: Iterable[str]) -> Declaration:
    """Return a README's declaration without the repository's own projects, which its users install by name or URL."""
    if format_of(Path(source.file).name, "") != "readme":
        return source
    draft = source.draft
    for name in names:
        draft = without(draft, name, "it's the repository itself", source.file)
    return replace(source, draft=draft)


def _draft(sources: Sequence[Declaration], request: InitRequest) -> Draft:
    """Return what the spec begins with. Raises InputError for files or a prefix that ask for nothing, and for files
    that contradict each other."""
    if request.prefix is not None:
        from envspec.draft.prefix import read_prefix

        draft = read_prefix(request.prefix)
        if not (draft.pip or draft.conda):
            raise InputError("nothing is installed there", place=Place(str(request.prefix)))
        return _of_day(draft, request)
    if not request.begun:
        return _of_day(Draft(pip=("torch",)), request)
    counting = [declaration for declaration in sources if declaration.aside is None]
    if len(sources) > 1:
        for declaration in counting:
            say(f"from {printable(declaration.file)}: {declaration.gives or 'nothing'}")
    draft = join(counting, _files_that_count(counting, request))
    projects = {canonical_name(declaration.draft.name) for declaration in sources if declaration.draft.name}
    offered = [
        declaration
        for declaration in sources
        if declaration.aside is not None and _adds(declaration.draft, draft, projects)
    ]
    folder = next((path for path in request.begun if path.is_dir()), None)
    if not (draft.pip or draft.own or draft.conda or draft.project or draft.targets):
        imports = _of_imports(folder, sources, draft) if folder and not offered else []
        for note in (*draft.notes, *imports):
            warn(printable(str(note)))
        place = Place(str(request.begun[0]))
        raise InputError("it asks for no package", hint=_ways_to_begin(request, offered), place=place)
    notes = [
        Note(
            f"not taken, since {declaration.aside}: {declaration.gives} (--from {shlex.quote(declaration.file)})",
            Place(declaration.file),
            is_counted=len(offered) > _OFFERED,
        )
        for declaration in offered
    ]
    if folder:
        notes += [*_of_imports(folder, sources, draft), *_of_age(folder, draft, request)]
    return _of_day(replace(draft, notes=(*draft.notes, *notes)), request)


def _ways_to_begin(request: InitRequest, offered: Sequence[Declaration]) -> str:
    """Return what a user whose files ask for nothing may begin with: a part of the repository with all its files (one
    that bears its name first), a file that is only offered, nothing."""
    parts = {
        str(folder / Path(declaration.file).relative_to(folder).parts[0])
        for folder in request.begun
        for declaration in offered
        if declaration.aside == PART and Path(declaration.file).is_relative_to(folder)
    }
    names = {folder.resolve().name.lower() for folder in request.begun}
    suggestions = sorted(parts, key=lambda path: (Path(path).name.lower() not in names, path)) or [
        declaration.file for declaration in offered
    ]
    listed = ", or ".join(f"--from {shlex.quote(path)}" for path in suggestions)
    if listed:
        return f"begin with a part of it: {listed}" if parts else f"take what is only offered: {listed}"
    return f"a blank spec: `envspec init {request.name}`, then `envspec add`"


def _of_imports(folder: Path, sources: Sequence[Declaration], draft: Draft) -> list[Note]:
    """Report the imports of a repository's own sources that the new spec doesn't ask for."""
    names = {
        requirement_name(requirement.rpartition("::")[2]) for requirement in (*draft.pip, *draft.own, *draft.conda)
    }
    known, notes, nowhere = declarations(sources), [], []
    for imported in read_imports(folder):
        if not imported.files or is_brought(imported.module, names):
            continue
        by = f"{imported.module} is imported by {plural(len(imported.files), 'file')} ({imported.files[0]})"
        if declared := find_declaration(imported.module, known):
            notes.append(
                Note(f"{by} and the spec doesn't ask for it; {declared[0]} is declared in {few(declared[1], 3)}")
            )
        else:
            nowhere.append(f"{imported.module} ({plural(len(imported.files), 'file')})")
    if nowhere:
        text = f"imported, and declared nowhere: {few(nowhere, 30)}; another package may bring it"
        notes.append(Note(f"{text}: `envspec check --imports` says so after `envspec lock`"))
    return notes


def _files_that_count(sources: Sequence[Declaration], request: InitRequest) -> tuple[str, ...]:
    """Return the files that count where files contradict each other: those that the user names, and chooses at a
    terminal. Raises SpecError for each contradiction that nothing decides."""
    preferred = [str(path) for path in request.prefer]
    files = {source.file: source.draft for source in sources}
    if unknown := [path for path in preferred if path not in files]:
        raise InputError(f"--prefer {unknown[0]}: the spec doesn't begin with it", hint=f"one of {', '.join(files)}")
    decided = {"--python": request.python, "--cuda": request.cuda}
    left: dict[tuple[str, ...], list[Contradiction]] = {}
    for contradiction in contradictions(files):
        if not decided.get(contradiction.option) and not any(path in contradiction.claims for path in preferred):
            left.setdefault((contradiction.option, *contradiction.claims), []).append(contradiction)
    errors = []
    for (option, *between), alike in left.items():
        listed = few([printable(str(contradiction)) for contradiction in alike], 8)
        if len(between) == 1:
            hint = f"correct one of these lines in {shlex.quote(between[0])}"
            errors.append(SpecError(f"{printable(between[0])} contradicts itself: {listed}", hint=hint))
            continue
        message = f"{' and '.join(map(printable, between))} contradict each other: {listed}"
        stated = dict.fromkeys(alike[0].claims.values())
        # a target has one CUDA, and no bound
        single = [value for value in stated if option != "--cuda" or re.fullmatch(r"[0-9]+\.[0-9]+", value)] or [
            "VERSION"
        ]
        values = between if option == "--prefer" else single
        choices = {file: alike[0].claims[file] for file in between} if option == "--prefer" else {}
        if choices and (answer := observer().choose(f"{message}; which file counts?", choices)):
            preferred.append(answer)
            continue
        errors.append(SpecError(message, hint=", or ".join(f"{option} {shlex.quote(value)}" for value in values)))
    if errors:
        raise together(errors)
    return tuple(preferred)


def _adds(offered: Draft, draft: Draft, projects: Collection[str]) -> bool:
    """Return whether a file that is only offered asks for a package that the spec doesn't have. The repository's own
    `projects` are none: members of a workspace require one another."""
    known = {*projects, *(requirement_name(requirement) for requirement in (*draft.pip, *draft.own, *draft.conda))}
    return any(
        requirement_name(requirement) not in known for requirement in (*offered.pip, *offered.own, *offered.conda)
    )


def _of_day(draft: Draft, request: InitRequest) -> Draft:
    """Return the draft with the day that --as-of means. Raises InputError, ToolError."""
    if request.as_of is None:
        return draft
    if re.match(r"\d{4}-\d{2}-\d{2}", request.as_of):
        return replace(draft, exclude_newer=request.as_of)
    folder = next((path if path.is_dir() else path.parent for path in request.begun), Path())
    if request.as_of.startswith("-"):
        raise InputError(
            f"--as-of {request.as_of} is neither a day nor a revision", hint="for example 2024-02-15, HEAD"
        )
    moment = _commit_moment(request.as_of, folder)
    if not moment:
        raise InputError(f"{folder} has no revision {request.as_of}", hint="name a day, such as 2024-02-15")
    return replace(draft, exclude_newer=moment.strftime("%Y-%m-%dT%H:%M:%SZ"))


def _commit_moment(revision: str, folder: Path) -> datetime | None:
    """Find when a revision of a folder's repository was committed. Raises InputError, ToolError."""
    seconds = git_output(["log", "-1", "--format=%ct", revision, "--"], folder)
    return datetime.fromtimestamp(int(seconds), timezone.utc) if seconds else None


def _of_age(folder: Path, draft: Draft, request: InitRequest) -> list[Note]:
    """Report, of a repository without a commit for a year that today's releases may not be its own."""
    moment = None
    if not (request.as_of or draft.exclude_newer):
        with suppress(EnvspecError):
            moment = _commit_moment("HEAD", folder)
    if moment is None or datetime.now(timezone.utc) - moment < timedelta(days=365):
        return []
    day = moment.date()
    return [Note(f"the last commit is of {day}: --as-of HEAD leaves out what was released after it")]


def _pythons(draft: Draft) -> list[str]:
    """List the Pythons that the files allow, as a spec writes them. Pythons with known builds, and with wheels of most
    packages, lead: they were out for a year on the last day whose releases count. Raises InputError where there are
    none."""
    day = draft.day or "9999"
    year_before = f"{int(day[:4]) - 1:04}{day[4:]}"
    out = [minor for minor, released in _PYTHONS.items() if released < day] or list(_PYTHONS)
    every = sorted(out, key=lambda minor: _PYTHONS[minor] > year_before)
    settled = settle(draft.claims)
    exact = settled.python and (f"=={settled.python}" if settled.python.count(".") > 1 else f"=={settled.python}.*")
    requirement = ",".join(filter(None, (settled.requires, exact)))
    fitting = {
        minor: releases
        for minor in (*every, *_PYTHONS, *PYTHONS)
        if (releases := releases_of(minor, requirement or None))
    }
    if not fitting:
        hint = "choose one with --python, or correct the files"
        raise InputError(f"no Python is what the files ask for: {printable(requirement)}", hint=hint)
    bounds = {minor: bound_of(releases) for minor, releases in fitting.items()}
    unknown = {minor: bound is not None and newest_minor(bound) is None for minor, bound in bounds.items()}
    return [(bounds[minor] or minor).removeprefix("==") for minor in sorted(fitting, key=lambda minor: unknown[minor])]


def _of_build(python: str, draft: Draft) -> list[Note]:
    """Report a Python of which envspec has no build, where conda doesn't bring one."""
    _, bound = parse_python(python, PYTHONS) or (python, None)
    if bound is None or newest_minor(bound) or draft.conda:
        return []
    ways = 'add [conda] dependencies = ["python"], or choose one with --python'
    return [Note(f"envspec knows no build of Python {python}, so `lock` refuses it: {ways}")]


def options_of(hardware: Hardware) -> str:
    """Return the options that say what a machine has; nothing for one without a GPU."""
    words = [f"--gpu {shlex.quote(gpu)}" for gpu in hardware.gpus]
    return " ".join([*words, f"--driver {hardware.driver}"] if words and hardware.driver else words)


def refuse_odd(
    python: str | None = None,
    platforms: tuple[str, ...] = (),
    cuda: str | None = None,
    driver: str | None = None,
    glibc: str | None = None,
) -> None:
    """Refuse values that no spec can have, by the options that gave them. Raises InputError."""
    for platform in platforms or ("linux-64",):
        given = {"platform": platform, "cuda": cuda, "driver": driver, "glibc": glibc}
        target = {key: value for key, value in given.items() if value is not None}
        for violation in violations(
            {"env": {"python": python or next(iter(_PYTHONS))}, "targets": {"new": target}}, FORMAT
        ):
            message = violation.message.replace(key_path(violation.path), f"--{violation.path[-1]}")
            raise InputError(message, hint=violation.hint() if callable(violation.hint) else violation.hint)


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
