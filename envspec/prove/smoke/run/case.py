"""The cases to check: one target of one lock, its choices, and the places of its files. Frozen values."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import shlex
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import IO, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.base.errors import InputError
from envspec.base.places import OF_OTHER_PYTHONS
from envspec.base.programs import HERE
from envspec.configuration.settings import Settings
from envspec.export import apt_mirrors
from envspec.export.images import base_reference, on_base
from envspec.export.plan import CHECK, ENVIRONMENT, SLICE, encode
from envspec.export.site_build import (
    UV_SETTINGS,
    OwnIndex,
    build_arguments,
    build_files,
    build_secrets,
    definition_here,
    proxy_variables,
)
from envspec.export.target_json import dumps, reference_row, target_document
from envspec.lock.inputs import fingerprint
from envspec.lock.model import Lock, LockedTarget, SoundLock
from envspec.net.file_store import ARTIFACTS
from envspec.spec.cluster import SlurmTable
from envspec.spec.model import ON_MACHINES, Reference, Spec

# This site's part in builds of recipes: its mirrors and its proxy. The recipes themselves name no host.


_BINDS = ("APPTAINER_BIND", "APPTAINER_BINDPATH", "SINGULARITY_BIND", "SINGULARITY_BINDPATH")


class SiteBuilds(Struct, frozen=True):
    """settings  the user's; None: builds get nothing
    env       the environment of builds, whose proxy they take over
    """

    settings: Settings | None = None
    env: Mapping[str, str] | None = None

    def files(self, recipe: str, secrets: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """List the files that a build gets beside a recipe with this text, by name, but for those with logins."""
        given = build_files(recipe, self.settings) if self.settings else {}
        return tuple(sorted((name, text) for name, text in given.items() if name not in secrets))

    def secrets(self, recipe: str, indexes: Sequence[OwnIndex]) -> dict[str, str]:
        """Give those with logins, which no file keeps. Raises InputError."""
        return build_secrets(recipe, self.settings, indexes, self.env or {}) if self.settings else {}

    def options(self, dockerfile: str, folder: Path, hidden: Mapping[str, str]) -> tuple[str, ...]:
        """List the options of a build of a Dockerfile; its files lie in `folder`, `hidden` are those with logins.
        Variables go by name alone, as their values may hold a password.
        """
        if self.settings is None:
            return ()
        arguments = [f"{name}={value}" for name, value in build_arguments(dockerfile, self.settings).items()]
        secrets = {UV_SETTINGS: "uv", apt_mirrors.FILE: apt_mirrors.FILE, "netrc": "netrc"}
        sources = {name: f"src={folder / name}" for name, _ in self.files(dockerfile, hidden) if name in secrets}
        sources |= {name: f"env={secret_variable(name)}" for name in hidden}
        return (
            *(
                word
                for argument in (*arguments, *proxy_variables(self.env or {}))
                for word in ("--build-arg", argument)
            ),
            *(word for name, source in sources.items() for word in ("--secret", f"id={secrets[name]},{source}")),
        )

    def binds(self, place: str) -> bool:
        """Return whether the user binds a folder of their own at `place` in every container."""
        given = (value for name, value in (self.env or {}).items() if name in _BINDS)
        return any(bind.split(":")[1:2] == [place] for value in given for bind in value.split(","))

    def definition(self, text: str, indexes: Sequence[OwnIndex] = ()) -> str:
        """Give a definition with the site's images, and mirrors of the spec's own indexes."""
        return definition_here(text, self.settings, indexes) if self.settings else text


def secret_variable(name: str) -> str:
    """Name the variable by which a build's program gets a file with logins."""
    return f"ENVSPEC_{name.partition('.')[0].upper()}"


# Commands and files as values: a runner's steps, which `envspec.prove.smoke.run.process` runs.
#
# A word may contain a `Variable`'s mark, for values that only a job's shell knows. Everything else is quoted.


_MARK = re.compile("\x02([A-Za-z_]+)\x03")


def variable(name: str) -> str:
    """Return a mark that becomes `"$name"` in a script. Only scripts' commands can have it."""
    return f"\x02{name}\x03"


def quote(word: str) -> str:
    """Quote a word for a POSIX shell, with the marks of variables expanded."""
    pieces = _MARK.split(word)
    if len(pieces) == 1:
        return shlex.quote(word)
    return "".join(
        f'"${piece}"' if index % 2 else shlex.quote(piece) if piece else "" for index, piece in enumerate(pieces)
    )


def join(words: Iterable[str]) -> str:
    return " ".join(quote(word) for word in words)


class Command(Struct, frozen=True):
    """A program to run.

    note    its purpose, for people
    unless  a program that ends with 0 when this one isn't needed any more; empty: it always runs
    cwd     its working folder, `HERE` for words with paths that the user gave; None: `/`
    hidden  variables that it alone gets, and that nothing shows
    """

    argv: tuple[str, ...]
    note: str
    unless: tuple[str, ...] = ()
    cwd: Path | None = None
    hidden: Mapping[str, str] = field(default_factory=lambda: _NO_FILES)

    @property
    def shell(self) -> str:
        """The command as a line for a POSIX shell."""
        line = join(self.argv)
        if self.cwd not in (None, HERE):
            line = f"(cd {quote(str(self.cwd))} && {line})"
        return f"{join(self.unless)} >/dev/null 2>&1 || {line}" if self.unless else line


class Files(Struct, frozen=True):
    """Texts to write below a folder, each whole or not at all. `shown`: a dry run prints them."""

    folder: Path
    texts: tuple[tuple[str, str], ...]
    note: str
    shown: bool = False


Step = Command | Files


def dry(steps: Sequence[Step]) -> str:
    """Render the steps as lines for people and shells: notes and hidden files become comments."""
    lines: list[str] = []
    for step in steps:
        lines.append(f"# {_comment(step.note)}")
        if isinstance(step, Command):
            lines.append(step.shell)
            continue
        for name, text in step.texts:
            path = quote(str(step.folder / name))
            if step.shown:
                end = _end_mark(text)
                lines.append(f"mkdir -p {quote(str((step.folder / name).parent))}")
                lines += [f"cat > {path} <<'{end}'", text.rstrip("\n"), end]
            else:
                lines.append(f"# writes {path} ({len(encode(text))} bytes)")
    return "\n".join(lines)


def _comment(text: str) -> str:
    """Make a text safe inside a comment."""
    return " ".join(text.split())


def _end_mark(text: str) -> str:
    """Choose a word that isn't a line of `text`."""
    mark = "END"
    while mark in text.splitlines():
        mark += "_"
    return mark


_MOST = 64 << 20
"""The longest RECORD that is read, in bytes: torch's has 2 MB."""
_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_AMONG_PACKAGES = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")
_ELSEWHERE = re.compile(r"[^/]+\.data/|\.\./|/")
_MADE_BY_INSTALLERS = re.compile(r"[^/]+\.dist-info/(?:RECORD|INSTALLER|REQUESTED|direct_url\.json|uv_)")


def record_digests(artifacts: Path, wheels: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Give the digest of the RECORD of each of these wheels, by the wheel's sha256, as far as the cache of files has
    them. `wheels` are (sha256, file)."""
    digests = ((sha256, record_digest(artifacts / sha256 / file)) for sha256, file in wheels)
    return {sha256: digest for sha256, digest in digests if digest is not None}


def record_digest(wheel: Path | IO[bytes] | io.RawIOBase) -> str | None:
    """Return the digest of a wheel's RECORD in its part about files among the packages, however it's installed.
    A wheel is a path, or a file that can be read anywhere in it. None where there is no such wheel, or its RECORD can't
    be read. `static.distributions` of the check has the twin.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            name = next(name for name in archive.namelist() if _RECORD.fullmatch(name))
            with archive.open(name) as file:
                content = file.read(_MOST + 1)
    except (OSError, StopIteration, ValueError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error):
        return None
    if len(content) > _MOST:
        return None
    try:
        rows = list(csv.reader(content.decode("utf-8", "surrogateescape").splitlines()))
    except csv.Error:
        return None
    hashed = ((_AMONG_PACKAGES.sub("", row[0], count=1), row[1]) for row in rows if len(row) == 3)
    lines = sorted(
        f"{path} {digest}\n"
        for path, digest in hashed
        if digest.startswith("sha256=") and not _ELSEWHERE.match(path) and not _MADE_BY_INSTALLERS.match(path)
    )
    return f"sha256:{hashlib.sha256(''.join(lines).encode('utf-8', 'surrogateescape')).hexdigest()}"


CONFIG = SLICE
MULTI_NODE = "multi_node.py"
TIMEOUT = 180
"""Seconds that the check gives each of its checks where no option says otherwise."""
REPORT = "check.json"
"""The file that the check writes in the folder of its run."""

_NO_FILES: Mapping[str, str] = MappingProxyType({})


class CheckOptions(Struct, frozen=True):
    """The options of the checks. None leaves one to the spec (`workload`, `steps`) or to the check (`timeout`)."""

    device: str = "auto"
    workload: str | None = None
    steps: int | None = None
    quick: bool = False
    only: tuple[str, ...] = ()
    timeout: int | None = None
    deep: bool = False

    def arguments(self) -> tuple[str, ...]:
        """Return the same options as the check's arguments."""
        words = ["--device", self.device]
        words += ["--workload", self.workload] if self.workload else []
        words += ["--steps", str(self.steps)] if self.steps else []
        words += ["--quick"] if self.quick else []
        words += ["--deep"] if self.deep else []
        for group in self.only:
            words += ["--only", group]
        words += ["--timeout", str(self.timeout)] if self.timeout else []
        return tuple(words)


class SmokeCase(Struct, frozen=True):
    """One target of one lock.

    path      the spec's file; `locks_dir` where its lock was found, for `envspec install`
    key       a short digest of everything that defines its environment: the key in the cache
    carried   the files that a run needs beside the environment, by name
    recipe    the files of the recipe folder that an image is built from, by path; empty where none is built
    wants_gpu the runner passes the machine's GPUs in
    wheels    the sha256 and the file of each locked wheel
    runs_on   the architectures that the target is for, and its driver floor
    slurm     what the spec asks Slurm for
    indexes   the spec's own
    files     the sha256 and the size in bytes of each locked file; 0 for an unknown one
    python    the environment's Python in an image
    base      the SIF that an image comes on top of, and its digest; None without
    """

    spec: str
    target: str
    path: str
    locks_dir: str
    platform: str
    cuda: str | None
    key: str
    carried: Mapping[str, str]
    recipe: Mapping[str, str] = field(default_factory=lambda: _NO_FILES)
    wants_gpu: bool = False
    wheels: tuple[tuple[str, str], ...] = ()
    runs_on: tuple[tuple[str, ...], str | None] = ((), None)
    slurm: SlurmTable = field(default_factory=SlurmTable)
    indexes: tuple[OwnIndex, ...] = ()
    files: frozenset[tuple[str, int]] = frozenset()
    python: str = f"{ENVIRONMENT}/bin/python"
    base: tuple[str, str] | None = None

    @property
    def name(self) -> str:
        return f"{self.spec} × {self.target}"

    @property
    def title(self) -> str:
        """The spec and the target in one word. The lock's reader has checked both names."""
        return f"{self.spec}-{self.target}"

    @property
    def slug(self) -> str:
        """The name of its environment or image in the cache."""
        return f"{self.title}-{self.key}"


class Folders(Struct, frozen=True):
    """The folders of a command: `cache` keeps environments and images, `results` has the output of its runs."""

    cache: Path
    results: Path

    def carried_folder(self, case: SmokeCase) -> Path:
        return self.results / "carried" / case.title

    def run(self, name: str) -> Path:
        return self.results / "runs" / name

    def recipe(self, case: SmokeCase) -> Path:
        return self.cache / "recipes" / case.slug

    def site(self, case: SmokeCase) -> Path:
        return self.cache / "site" / case.slug

    def prefix(self, case: SmokeCase) -> Path:
        return self.cache / "environments" / case.slug

    def sif(self, case: SmokeCase) -> Path:
        return self.cache / "images" / f"{case.slug}.sif"

    def carry(self, case: SmokeCase) -> Files:
        """Write the carried files."""
        return Files(
            self.carried_folder(case), tuple(sorted(case.carried.items())), f"the files for the checks of {case.title}"
        )

    def carry_with_records(self, case: SmokeCase) -> Files:
        """Write the carried files again, with what the locked wheels say of their files: of those that envspec's cache
        has, which is where its installations take them from."""
        records = record_digests(self.cache.parent / ARTIFACTS, case.wheels)
        config = {**json.loads(case.carried[CONFIG]), "records": records}
        return self.carry(replace(case, carried={**case.carried, CONFIG: dumps(config)}))


def make_case(
    spec: Spec,
    lock: SoundLock,
    target: LockedTarget,
    *,
    locks_dir: str,
    programs: Mapping[str, str],
    references: Mapping[str, Reference],
    recipe: Mapping[str, str] = _NO_FILES,
    wants_gpu: bool = False,
) -> SmokeCase:
    """Make a case. `programs` are the stand-alone programs by path (`CHECK`); `references` win over the spec's own."""
    config = target_document(spec, lock, target)
    for name, reference in references.items():
        config["references"][name] = reference_row(reference)
    carried = {**programs, CONFIG: dumps(config)}
    base = on_base(spec, lock, target) if spec.base and spec.base.kind not in ON_MACHINES else None
    of_base = base_reference(spec, lock, target) if base and base.kind == "sif" else None
    return SmokeCase(
        spec=spec.name,
        target=target.name,
        path=spec.path,
        locks_dir=locks_dir,
        platform=target.inputs.platform,
        cuda=target.inputs.cuda,
        key=_key(lock, target, recipe),
        carried=carried,
        recipe=recipe,
        wants_gpu=wants_gpu,
        wheels=tuple(
            sorted({(pin.artifact.sha256, pin.artifact.file) for pin in target.pins if pin.is_wheel and pin.artifact})
        ),
        runs_on=(target.architectures, target.driver_floor),
        files=frozenset((pin.artifact.sha256, pin.artifact.size or 0) for pin in target.pins if pin.artifact),
        slurm=spec.slurm,
        indexes=(
            *((name, url, False) for name, url in spec.indexes.items()),
            *((name, page, True) for name, pages in spec.flat_pages.items() for page in pages),
        ),
        python=base.python if base else f"{ENVIRONMENT}/bin/python",
        base=(os.path.abspath(os.path.join(os.path.dirname(spec.path), of_base.name)), of_base.digest or "")
        if of_base
        else None,
    )


def _key(lock: Lock, target: LockedTarget, recipe: Mapping[str, str]) -> str:
    """Compute the key in the cache from a target's fingerprint (its inputs), its pins and the recipe (the results)."""
    pins = [
        [pin.kind, pin.name, pin.version, pin.build, pin.index, pin.artifact and pin.artifact.sha256]
        for pin in target.pins
    ]
    whole = [fingerprint(lock.inputs, target.inputs), sorted(pins, key=repr), sorted(recipe.items())]
    whole += [target.provided] if target.provided else []
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:16]


# Runners: how an environment is made, and how a Python program runs inside it.
#
# A runner only describes `Step`s; `envspec.prove.smoke.run.foreground` and `envspec.prove.smoke.run.slurm` have them
# run.


class Places(Struct, frozen=True):
    """The folder of the carried files and the folder for results, as a program inside the environment sees them."""

    carried: PurePath
    results: PurePath


class Runner(Protocol):
    """One way to run the checks.

    `carried` and `results` are paths of the machine that the program runs on; `results` may be a shell variable's mark.
    """

    @property
    def name(self) -> str:
        """The runner's name in reports."""

    def prepare(self, case: SmokeCase) -> tuple[Step, ...]:
        """List the steps that make the environment. Repeating them is cheap: they use existing results."""

    def places(self, carried: str, results: str) -> Places:
        """Give the paths of these two folders inside the environment."""

    def python(self, case: SmokeCase, carried: str, results: str, arguments: tuple[str, ...]) -> Command:
        """Make the command that runs the environment's Python with these arguments."""


def check(runner: Runner, case: SmokeCase, options: CheckOptions, carried: str, results: str) -> Command:
    """Make the command that runs the checks of a case; their report is `check.json` in `results`."""
    inside = runner.places(carried, results)
    arguments = (
        "-I",
        str(inside.carried / CHECK),
        "--config",
        str(inside.carried / CONFIG),
        *options.arguments(),
        "--json",
        str(inside.results / REPORT),
    )
    return runner.python(case, carried, results, arguments)


SCRUBBED = (*OF_OTHER_PYTHONS, "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "CONDA_SHLVL")
"""The variables that another Python in the shell would leave. LD_LIBRARY_PATH and LD_PRELOAD stay: trainings on this
machine have them too, and the static checks report what they break.
"""

_ACTIVATED = '. "$0/bin/activate" && exec "$0/bin/python" "$@"'


class Local(Struct, frozen=True):
    """envspec  the command that starts this envspec; `offline`: use no network."""

    folders: Folders
    envspec: tuple[str, ...]
    offline: bool = False
    name: str = "local"

    def prepare(self, case: SmokeCase) -> tuple[Step, ...]:
        prefix = str(self.folders.prefix(case))
        words = ["install", case.path, "--locks-dir", case.locks_dir, "--target", case.target, "--prefix", prefix]
        words += ["--offline"] if self.offline else []
        return (Command((*self.envspec, *words), f"the environment of {case.title}", cwd=HERE),)

    def places(self, carried: str, results: str) -> Places:
        return Places(PurePath(carried), PurePath(results))

    def python(self, case: SmokeCase, carried: str, results: str, arguments: tuple[str, ...]) -> Command:
        return with_activation(self.folders.prefix(case), case, arguments)


def with_activation(prefix: Path, case: SmokeCase, arguments: tuple[str, ...]) -> Command:
    """Make the command of a program under a prefix's Python, with the prefix activated: conda packages set variables
    then.
    """
    unset = [word for name in SCRUBBED for word in ("-u", name)]
    argv = ("env", *unset, "PYTHONNOUSERSITE=1", "bash", "-c", _ACTIVATED, str(prefix), *arguments)
    return Command(argv, f"the checks of {case.title}")


Skipped = tuple[str, str, str]
"""A spec, a target, and the reason why this machine can't run it."""


def leave_out_cpu(cases: Sequence[SmokeCase], *, named: bool) -> tuple[list[SmokeCase], list[Skipped]]:
    """Skip targets for CPUs. Raises InputError for a named one, or where none is left."""
    without = [case for case in cases if not case.cuda]
    if without and (named or len(without) == len(cases)):
        names = ", ".join(case.title for case in without)
        raise InputError(
            f"--device cuda needs CUDA, and {names} has none", hint="leave --device out, or choose a CUDA target"
        )
    more = [(case.spec, case.target, "the target is for CPUs, and --device asks for cuda") for case in without]
    return [case for case in cases if case.cuda], more


def refuse_twins(cases: Sequence[SmokeCase]) -> None:
    """Refuse two specs with the same name, which would share folders of results."""
    seen: dict[str, str] = {}
    for case in cases:
        if case.title in seen:
            hint = "run them one after the other"
            raise InputError(f"{seen[case.title]} and {case.path} both have runs called {case.title}", hint=hint)
        seen[case.title] = case.path
