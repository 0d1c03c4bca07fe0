"""The cases to check: one target of one lock, its choices, and the places of its files. Frozen values."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import IO

from envspec.export.plan import SLICE
from envspec.export.target_json import dumps, reference_row, target_document
from envspec.lock.inputs import fingerprint
from envspec.lock.judge import SoundLock
from envspec.lock.model import Lock, LockedTarget
from envspec.net.file_store import ARTIFACTS
from envspec.prove.smoke.run.command import Files
from envspec.spec.cluster import SlurmTable
from envspec.spec.model import Reference, Spec

_MOST = 64 << 20
"""The longest RECORD that is read, in bytes: torch's has 2 MB."""
_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")
_AMONG_PACKAGES = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")
_ELSEWHERE = re.compile(r"[^/]+\.data/|\.\./|/")
_MADE_BY_INSTALLERS = re.compile(r"[^/]+\.dist-info/(?:RECORD|INSTALLER|REQUESTED|direct_url\.json|uv_)")


def record_digests(artifacts: Path, wheels: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Give the digest of the RECORD of each of these wheels, by the wheel's sha256, as far as the cache of files has
    them. `wheels` are (sha256, file)."""
    found = ((sha256, record_digest(artifacts / sha256 / file)) for sha256, file in wheels)
    return {sha256: digest for sha256, digest in found if digest is not None}


def record_digest(wheel: Path | IO[bytes] | io.RawIOBase) -> str | None:
    """Give the digest of what a wheel's RECORD says of its files that lie among the packages, however it's installed.
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
    kept = sorted(
        f"{path} {digest}\n"
        for path, digest in hashed
        if digest.startswith("sha256=") and not _ELSEWHERE.match(path) and not _MADE_BY_INSTALLERS.match(path)
    )
    return f"sha256:{hashlib.sha256(''.join(kept).encode('utf-8', 'surrogateescape')).hexdigest()}"


CONFIG = SLICE
MULTI_NODE = "multi_node.py"
TIMEOUT = 180
"""Seconds that the check gives each of its checks where no option says otherwise."""
REPORT = "check.json"
"""The file that the check writes in the folder of its run."""

_NO_FILES: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class CheckOptions:
    """The options of the checks. None leaves one to the spec (`workload`, `steps`) or to the check (`timeout`)."""

    device: str = "auto"
    workload: str | None = None
    steps: int | None = None
    quick: bool = False
    only: tuple[str, ...] = ()
    timeout: int | None = None
    deep: bool = False

    def arguments(self) -> tuple[str, ...]:
        """The same options as the check's arguments."""
        words = ["--device", self.device]
        words += ["--workload", self.workload] if self.workload else []
        words += ["--steps", str(self.steps)] if self.steps else []
        words += ["--quick"] if self.quick else []
        words += ["--deep"] if self.deep else []
        for group in self.only:
            words += ["--only", group]
        words += ["--timeout", str(self.timeout)] if self.timeout else []
        return tuple(words)


@dataclass(frozen=True)
class SmokeCase:
    """One target of one lock.

    path      the spec's file; `locks_dir` where its lock was found, for `envspec install`
    key       a short digest of everything that defines its environment: the key in the cache
    carried   the files that a run needs beside the environment, by name
    recipe    the files of the recipe folder that an image is built from, by path; empty where none is built
    wants_gpu the runner passes the machine's GPUs in
    wheels    the sha256 and the file of each locked wheel
    runs_on   the architectures that the target is for, and its driver floor
    slurm     what the spec asks Slurm for
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


@dataclass(frozen=True)
class Folders:
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
    for name, one in references.items():
        config["references"][name] = reference_row(one)
    carried = {**programs, CONFIG: dumps(config)}
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
        slurm=spec.slurm,
    )


def _key(lock: Lock, target: LockedTarget, recipe: Mapping[str, str]) -> str:
    """Compute the key in the cache from a target's fingerprint (its inputs), its pins and the recipe (the results)."""
    pins = [
        [pin.kind, pin.name, pin.version, pin.build, pin.index, pin.artifact and pin.artifact.sha256]
        for pin in target.pins
    ]
    whole = [fingerprint(lock.inputs, target.inputs), sorted(pins, key=repr), sorted(recipe.items())]
    return hashlib.sha256(json.dumps(whole).encode()).hexdigest()[:16]
