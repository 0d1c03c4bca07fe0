"""From a spec's text to a `Spec`. A wrong spec gives every error in it, each with file, line and column."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from types import MappingProxyType
from typing import Any

from envspec.base.errors import Place, SpecError
from envspec.base.reader.document import decode, key_path, parse_toml, show
from envspec.base.reader.nodes import Text, table_of
from envspec.base.reader.positions import Path
from envspec.base.reader.structure import Checked
from envspec.base.texts import nearest
from envspec.packages.names import channel_name
from envspec.packages.python_range import parse_python
from envspec.packages.requirement import canonical_name
from envspec.spec import forms
from envspec.spec.advice import slug
from envspec.spec.cluster import KubernetesTable, SlurmTable
from envspec.spec.document import read_bytes
from envspec.spec.forms import BASES, ENV_NAME, PYTHONS, SERVICE_ALIASES
from envspec.spec.matrix import NO_TABLES, Lookups
from envspec.spec.model import (
    AskedProject,
    Audit,
    Base,
    CondaTable,
    Image,
    NewerFor,
    PipTable,
    ProjectParts,
    Smoke,
    Spec,
    Target,
)
from envspec.spec.newer import span_of
from envspec.spec.pip_terms import check_names, check_stated_metadata, flat_names, pip_terms
from envspec.spec.project import with_project
from envspec.spec.schema import FORMAT
from envspec.spec.targets import targets
from envspec.spec.times import utc_time
from envspec.spec.values import conda_dependencies, pip_dependencies

_KEY = "exclude-newer"


def newer_for(checked: Checked, whole: str | None) -> tuple[NewerFor, ...]:
    """Read the exceptions of the spec's own bound (`whole`), sorted. Problems go to `checked`: one of an index that
    [pip] doesn't have, and an age where the spec's own bound is none, because a lock holds that one's moment alone."""
    return tuple(sorted(_newer_for(checked, whole), key=lambda exception: (exception.of_index, exception.name)))


def _newer_for(checked: Checked, whole: str | None) -> Iterator[NewerFor]:
    for key in ("exclude-newer-package", "exclude-newer-index"):
        of_index = key.endswith("index")
        for path, _ in checked.children("env", key):
            name, bound = str(path[-1]), bound_in_time(checked, *path, _KEY)
            if not checked.has("env", _KEY):
                checked.problem(path, f"{key_path(path)}: the spec has no exclude-newer to be free of", "remove it")
            elif span_of(bound) is not None and span_of(whole) is None:
                hint = "write a date, or an age in both"
                checked.problem((*path, _KEY), f"{key_path(path)}: an age needs one in [env] exclude-newer, too", hint)
            elif of_index:
                _check_index(checked, path, name)
            until = checked.read(forms.UNTIL, *path, "until")
            reason = str(checked.value(*path, "reason") or "")
            yield NewerFor(name if of_index else canonical_name(name), of_index, bound, reason, until)


def _check_index(checked: Checked, path: tuple[str | int, ...], name: str) -> None:
    known = [
        str(index[-1]) for table in (("pip", "indexes"), ("pip", "find-links")) for index, _ in checked.children(*table)
    ]
    if name not in known and checked.sound_throughout("pip"):
        near = nearest(name, known)
        hint = f"did you mean {near!r}?" if near else "name one of [pip] indexes or find-links"
        checked.problem(path, f"{key_path(path)}: the spec has no index {show(name)}", hint)


_BOUND = Text(example="7 days", read=lambda value: value if span_of(str(value)) else utc_time(value))


def bound_in_time(checked: Checked, *path: str | int) -> str | None:
    """Read a moment, as RFC 3339 in UTC, or a duration."""
    bound: str | None = checked.read(_BOUND, *path)
    return bound


def slurm_of(checked: Checked) -> SlurmTable:
    """Read `[slurm]`. Problems go to `checked`."""
    table = checked.record(SlurmTable, "slurm")
    if (
        checked.sound("slurm", "min-nodes")
        and checked.has("slurm", "min-nodes")
        and not checked.has("slurm", "max-restarts")
    ):
        hint = "add for example: max-restarts = 3"
        checked.problem(
            ("slurm", "min-nodes"), "slurm.min-nodes needs max-restarts, with which torchrun is elastic", hint
        )
    by_srun = table.launch == "srun"
    for key, why in (("max-restarts", "torchrun's"), ("mpi", "srun's")):
        if checked.has("slurm", key) and checked.sound("slurm", "launch") and by_srun is (key == "max-restarts"):
            other = "torchrun" if by_srun else "srun"
            hint = f'leave one of them out, or: launch = "{other}"'
            checked.problem(("slurm", key), f'slurm.{key} is {why}, and launch is "{table.launch}"', hint)
    first = None if table.memory is None else f'slurm.mem = "{table.memory}"'
    for index, option in enumerate(table.options):
        if option.startswith("--mem-per-"):
            if first:
                hint = "leave out one of them: sbatch takes one way to ask for memory"
                checked.problem(("slurm", "options", index), f"slurm.options has {option} beside {first}", hint)
            first = first or option
    return table


def audit_of(checked: Checked, targets: Collection[str]) -> Audit:
    """Read `[audit]` of a spec with these targets. Problems go to `checked`."""
    waivers = [path for path, _ in checked.children("audit", "ignore")]
    accepted = [path for package, _ in checked.children("audit", "accept") for path, _ in checked.children(*package)]
    for path in (*waivers, *accepted):
        _check_targets(checked, (*path, "targets"), targets)
    taken = checked.read(table_of(Audit).keys["accept"], "audit", "accept") or {}
    by_code = {(package, code): waiver for package, codes in taken.items() for code, waiver in codes.items()}
    return checked.record(Audit, "audit", accept=_freeze(by_code))


def _check_targets(checked: Checked, path: Path, known: Collection[str]) -> None:
    for at, name in checked.children(*path):
        if name not in known and checked.sound_throughout("targets") and checked.sound_throughout("matrix"):
            near = nearest(name, known)
            hint = f"did you mean {near}?" if near else f"its targets: {', '.join(known)}"
            checked.problem(at, f"{key_path(path[:-1])}: the spec has no target {show(name)}", hint)


def load_spec(path: str | os.PathLike[str], lookups: Lookups = NO_TABLES) -> Spec:
    """Read and parse the spec at `path`; errors name the file by `path` as given.

    Raises SpecError as `parse_spec` does, also for a missing file, a folder, a file that isn't UTF-8, is larger than
    1 MiB (of which no more is read) or is another tool's, and for what is wrong with the pyproject.toml that it names;
    StorageError where a file can't be read.
    """
    file = os.fspath(path)
    text = decode(read_bytes(file), file)
    try:
        return load_text(text, file, lookups)
    except SpecError:
        _refuse_other_tools(file, text)
        raise


def _refuse_other_tools(file: str, text: str) -> None:
    """Raise SpecError for a file of another tool, by its name."""
    from envspec.packages.other_formats import BEGINS, TITLES, other_tools_file

    form = other_tools_file(file, text)
    if form is None:
        return
    if form in BEGINS:
        name = slug(os.path.basename(os.path.dirname(os.path.abspath(file)))) or ENV_NAME.example
        hint = f"begin a spec from it: `envspec init {name} --from {file}`"
    else:
        hint = "`envspec diff` compares it; begin a spec from what it was locked from: `envspec init NAME --from FILE`"
    raise SpecError(f"this is {TITLES[form]}, not a spec", hint=hint, place=Place(file)) from None


def load_text(text: str, path: str, lookups: Lookups = NO_TABLES) -> Spec:
    """Parse the text that the spec at `path` has, or is about to get; reads the pyproject.toml that it names."""
    spec = parse_spec(text, path, lookups)
    if spec.asked_project is None:
        return spec
    return with_project(spec, lookups)


def parse_spec(text: str, path: str, lookups: Lookups = NO_TABLES) -> Spec:
    """Parse a spec's text. Pure: `path` only names the file in errors, and the environment where `[env]` has no name.

    Raises SpecError for one problem and SpecErrors for several: all that the text shows. Raises ToolError
    for a match spec that needs py-rattler where that isn't installed.
    """
    checked = Checked(parse_toml(text, path), FORMAT)
    bound = bound_in_time(checked, "env", _KEY)
    parsed = targets(checked, lookups)
    python, python_range = _python(checked, lookups, None if span_of(bound) else bound)
    spec = Spec(
        path=path,
        name=_name(checked),
        python=python,
        python_range=python_range,
        targets=parsed,
        description=checked.value("env", "description") or "",
        exclude_newer=bound,
        newer_for=newer_for(checked, bound),
        asked_project=_project(checked),
        pip=_pip(checked),
        conda=_conda(checked),
        image=_image(checked),
        base=_base(checked, parsed),
        smoke=checked.record(Smoke, "smoke"),
        slurm=slurm_of(checked),
        kubernetes=checked.record(KubernetesTable, "kubernetes"),
        audit=audit_of(checked, tuple(target.name for target in parsed)),
        places=_places(checked),
    )
    _check_dependencies(checked)
    check_names(checked)
    dependencies = (*spec.pip.dependencies, *(dependency for target in spec.targets for dependency in target.pip))
    check_stated_metadata(checked, ("pip",), spec.pip.terms.metadata, dependencies)
    for target in spec.targets:
        check_stated_metadata(checked, ("targets", target.name, "pip"), target.terms.metadata, dependencies)
    checked.raise_problems()
    return spec


def _python(checked: Checked, lookups: Lookups, before: str | None) -> tuple[str, str | None]:
    """Read the minor version of Python, of a range that of its newest build, and what the spec asks beside that."""
    text = checked.value("env", "python")
    if text is None:
        return "", None
    choice = parse_python(text, PYTHONS)
    if choice is None:
        message = f"env.python: {show(text)} admits no Python of {PYTHONS[0]} to {PYTHONS[-1]}"
        checked.problem(("env", "python"), message, 'for example: python = "3.12"')
        return "", None
    python, bound = choice
    return (lookups.newest(bound, before) if bound else None) or python, bound


def _name(checked: Checked) -> str:
    if checked.has("env", "name"):
        return checked.value("env", "name") or ""
    stem = os.path.splitext(os.path.basename(checked.document.file))[0]
    if checked.has("env") and not ENV_NAME.allows(stem):
        hint = f'add for example: name = "{slug(stem) or ENV_NAME.example}"'
        checked.problem(("env",), f"[env] has no name, and the file's name {show(stem)} can't be one", hint)
    return stem


def _project(checked: Checked) -> AskedProject | None:
    path = ("env", "project")
    value = checked.value(*path)
    if value is None or isinstance(value, str):
        return AskedProject(value) if value else None
    return AskedProject(checked.value(*path, "path") or ".", checked.record(ProjectParts, *path))


def _pip(checked: Checked) -> PipTable:
    dependencies = pip_dependencies(checked, "pip", "dependencies")
    terms = pip_terms(checked, "pip")
    return checked.record(PipTable, "pip", dependencies=dependencies, sources=_sources(checked), terms=terms)


_NO_INDEX = (
    'add it: indexes = { NAME = "https://…" }, or for a single page with links: find-links = { NAME = "https://…" }'
)


def _sources(checked: Checked) -> MappingProxyType[str, str]:
    named = [str(path[-1]) for path in checked.document.positions if len(path) == 3 and path[:2] == ("pip", "indexes")]
    known = [*named, *flat_names(checked), "pypi"]
    sources: dict[str, str] = {}
    for path, index in checked.children("pip", "sources"):
        name = canonical_name(str(path[-1]))
        if index not in known:
            meant = nearest(index, known)
            hint = f"did you mean {meant!r}?" if meant else _NO_INDEX
            checked.problem(path, f"{key_path(path)}: there is no index {show(index)} in pip.indexes", hint)
        if name in sources:
            checked.problem(path, f"pip.sources names {name} twice", "remove one of them", at_key=True)
        sources[name] = index
    return _freeze(sources)


def _conda(checked: Checked) -> CondaTable:
    channels: dict[str, str] = {}
    for path, channel in checked.children("conda", "channels"):
        name = channel_name(channel)
        if name == "defaults":
            reason = "defaults means Anaconda's channels, others on each machine, so a lock can't name it"
            checked.problem(path, f"{key_path(path)}: {reason}", 'name the channel itself, for example "conda-forge"')
        elif name in channels:
            reason = f"two channels are called {show(name)}, by the last part of their address"
            checked.problem(path, f"{key_path(path)}: {reason}, as a lock names them", "remove one of them")
        channels[name] = channel
    return CondaTable(tuple(channels.values()), conda_dependencies(checked, "conda", "dependencies"))


def _image(checked: Checked) -> Image:
    named = (SERVICE_ALIASES.get(service, service) for _, service in checked.children("image", "services"))
    return checked.record(Image, "image", services=tuple(dict.fromkeys(named)))


_NOT_ON_A_BASE = (
    ("conda", "dependencies"),
    ("pip", "allow-source"),
    *(("image", key) for key in ("base", "python", "services", "apt", "build-apt", "snapshot", "nvcc")),
)
"""The keys of a spec that don't go with `[base]` yet."""


def _base(checked: Checked, targets: Collection[Target]) -> Base | None:
    if not checked.has("base"):
        return None
    given = [key for key in BASES if checked.has("base", key)]
    if len(given) != 1:
        hint = 'for example: image = "nvcr.io/nvidia/pytorch:25.09-py3"'
        message = f"[base] is one of {', '.join(BASES)}" + (f", not {' and '.join(given)}" if given else "")
        checked.problem(("base", given[1]) if given else ("base",), message, hint, at_key=True)
        return None
    for path in _NOT_ON_A_BASE:
        if checked.has(*path) and (path[0] == "image" or checked.value(*path)):
            hint = "leave it out: what the base has stays as it is, and wheels come on top"
            checked.problem(path, f"{key_path(path)} doesn't go with [base]", hint, at_key=True)
    for target in targets:
        if target.conda:
            message = f"{target.name} asks for conda packages, which don't go with [base]"
            checked.problem(("base",), message, "take them from PyPI, or give them a spec of their own", at_key=True)
    platforms = dict.fromkeys(target.platform for target in targets)
    if (given[0] != "image" and len(platforms) > 1) or any(
        not platform.startswith("linux-") for platform in platforms if platform
    ):
        message = f"a base of {', '.join(platforms)}: an image is for Linux, and any other for one platform"
        checked.problem(("base", given[0]), message, "give each platform a spec of its own", at_key=True)
    replaced = {canonical_name(str(path[-1])): str(why) for path, why in checked.children("base", "replace")}
    return Base(given[0], str(checked.value("base", given[0]) or ""), _freeze(replaced))


def _freeze(mapping: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(mapping)


def _check_dependencies(checked: Checked) -> None:
    arrays = [path for path in checked.document.positions if path[-1:] == ("dependencies",)]
    filled = [path for path in arrays if checked.has(*path, 0) or not checked.sound(*path)]
    if not filled and not checked.has("env", "project"):
        hint = 'add for example:\n  [pip]\n  dependencies = ["torch==2.9.*"]'
        checked.problem((), "the spec has no dependency: nothing to lock", hint)
    conda = [path for path in filled if path[-2:-1] == ("conda",)]
    if conda and not checked.has("conda", "channels", 0) and checked.sound("conda", "channels"):
        hint = 'add to [conda], for example: channels = ["conda-forge"]'
        checked.problem(conda[0], f"{key_path(conda[0])} needs a channel to come from", hint, at_key=True)


def _places(checked: Checked) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for path in checked.document.positions:
        if path and all(isinstance(part, str) for part in path):
            places.setdefault(".".join(map(str, path)), checked.place(*path))
    return places
