"""Bundles for machines without internet: one tar with a target's slice of the lock, its wheels and `install.sh`.

The tar is uncompressed, since wheels are compressed already, and the same inputs give the same bytes: sorted names, no
times, no owners.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import BinaryIO

from msgspec.structs import replace

from envspec.base.errors import InputError, InternalError, Place
from envspec.base.plain_files import open_plain
from envspec.binaries.wheel import paths_of_wheel
from envspec.export.environment import build_variables, refuse_unknown_gpus
from envspec.export.quote import shell
from envspec.install.build import BuildRules
from envspec.install.collect import Paths, folder_of, is_folder, plain_name
from envspec.lock.conda_files import artifact_of, channel_of, conda_pins, in_link_order
from envspec.lock.formats.requirements import build_constraints, requirements_txt
from envspec.lock.model import Artifact, Lock, LockedPython, LockedTarget, Pin
from envspec.lock.read import load
from envspec.lock.shared_paths import overwrites, pip_order, shared_paths, waves
from envspec.net import limits
from envspec.net.file_store import sha256_of
from envspec.packages.archive_entries import TarMember

INSTALLER = "install.sh"
SUMS = "SHA256SUMS"
"""The hashes of all other files: what `sha256sum -c` reads. Its own is the bundle's digest."""
NEEDED = "NEEDED"
"""The same of packages' files that an earlier bundle holds; there where the bundle was made with `--since`."""
LOOK = "archive_entries.py"
"""The program with which `install.sh` looks through wheels: `envspec.packages.archive_entries`, as it is."""
ON_BASE = "ON_BASE"
"""The Python and the folders of the base that the packages come on top of."""
LIMITS = "LIMITS"
"""The limits that it holds them to."""
REQUIREMENTS = "requirements.txt"
"""The requirements file of the pip packages, which `install.sh` reads."""
LATER = "later"
"""The folder of what overwrites a file of another package's: requirements files, installed again in the order of their
names, since uv installs side by side, and pip without dependencies by the name alone."""
BUILDS = "builds"
"""The folder of what is compiled against the environment: requirements files, a package each, in the order of their
names, and `VARIABLES`."""
VARIABLES = "variables.sh"
SOURCES = "sources"
"""The folder of the other sources: requirements files, a package each, and beside it what its build gets: by hash for
uv, by version for pip."""
BUILT_WITH = "built-with"
VERSIONS = "versions"
PROJECT = "project"
"""The folder with the wheel of the spec's own project."""
WHEELS = "wheels"
CONDA = "conda"
PYTHON = "python"
"""The folder with the build of Python that the lock names, or that a base lacks which the bundle brings."""
DATES = "dates.json"
"""The facts about packages that its maker's policy needs, as `envspec.review.audit.store` keeps them: when their files
were published, and what OSV reports. envspec reads them where the user's settings name `wheels/`."""
BASE = "base"
"""The folder of the base that images stand on, an OCI layout."""
BASE_SUMS = "BASE"
"""The hashes of its files. They aren't in `SUMS`, which `install.sh` compares where the base isn't."""
DEFINITION = "apptainer.def"
Known = tuple[str, str]
"""A package's file by its sha256 and its place in a bundle."""
_LINE = re.compile(r"^([0-9a-f]{64})  (\S.*)$", re.MULTILINE)
_MOST = 64 << 20
_SINCE = "give --since an earlier bundle, its SHA256SUMS, or the envspec.lock that it was made from"


def write_bundle(
    file: BinaryIO,
    target: LockedTarget,
    carried: Mapping[str, str | bytes],
    artifacts: Paths,
    known: Collection[Known] = (),
    python: tuple[LockedPython, Path] | None = None,
    base: Mapping[str, Path] = MappingProxyType({}),
    on_bytes: Callable[[int], None] = lambda count: None,
) -> str:
    """Write the tar into an open file, and give the bundle's digest, `sha256:…`.

    `carried` has contents by their path in the bundle, `artifacts` the packages' files, `python` the build of Python,
    `base` the base's files by their path in it. Files of packages and Python that are `known` stay out. `on_bytes` gets
    the bytes written, file by file. Raises OSError.
    """
    listed = {(artifact_of(pin).sha256, place_of(pin)): artifacts.get(_key(pin)) for pin in target.fetched}
    if python is not None:
        listed[python_entry(python[0])] = python[1]
    members: dict[str, Path | bytes] = {
        name: text.encode() if isinstance(text, str) else text for name, text in carried.items()
    }
    members[INSTALLER] = files("envspec.install").joinpath(f"data/{INSTALLER}").read_bytes()
    members[LOOK] = files("envspec.packages").joinpath(LOOK).read_bytes()
    bounds = limits.LIMITS
    members[LIMITS] = f"{bounds.archive_entries} {bounds.unpacked_bytes} {bounds.unpacked_ratio}\n".encode()
    if needed := sorted(entry for entry in listed if entry in known):
        members[NEEDED] = _sums(needed)
    if base:
        members[BASE_SUMS] = _sums({(sha256_of(file), f"{BASE}/{path}") for path, file in base.items()})
    texts = {name: text for name, text in members.items() if isinstance(text, bytes)}
    hashes = {(hashlib.sha256(text).hexdigest(), name) for name, text in texts.items()}
    sums = _sums(hashes | {entry for entry in listed if entry not in known})
    members[SUMS] = sums
    members |= {f"{BASE}/{path}": file for path, file in base.items()}
    for entry, path in listed.items():
        if entry not in known:
            if path is None:
                raise InternalError(f"nothing was collected for {entry[1]}")
            members[entry[1]] = path
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for name, content in sorted(members.items()):
            on_bytes(_add(tar, name, content))
    return f"sha256:{hashlib.sha256(sums).hexdigest()}"


def python_entry(build: LockedPython) -> Known:
    """Give the hash and the place of a build of Python in a bundle."""
    return build.sha256, f"{PYTHON}/{build.file}"


def earlier_files(old: Path, target: str) -> frozenset[Known]:
    """List the packages' files that an earlier bundle holds, or needs itself: `old` is its tar, its `SHA256SUMS`, or
    the lock that it was made from, with its `target`. Raises InputError, LockError."""
    try:
        with open_plain(old) as file:
            earlier = frozenset(known for text in _texts_of(file) for known in _read_sums(text))
        if not earlier:
            earlier = _of_lock(old, target)
    except (OSError, tarfile.TarError) as error:
        raise InputError(f"can't be read: {error}", place=Place(str(old)), hint=_SINCE) from None
    if not earlier:
        raise InputError("this is no bundle of envspec's", place=Place(str(old)), hint=_SINCE)
    return earlier


def _of_lock(path: Path, name: str) -> frozenset[Known]:
    lock = load(path)
    target = lock.target(name)
    if target is None:
        raise InputError(f"this lock has no target {name}", place=Place(str(path)), hint=_SINCE)
    return frozenset((artifact_of(pin).sha256, place_of(pin)) for pin in target.fetched if pin.artifact)


def _read_sums(text: str) -> Iterator[Known]:
    for digest, place in _LINE.findall(text):
        if place.startswith((f"{WHEELS}/", f"{CONDA}/", f"{PYTHON}/")):
            yield digest, place


def _texts_of(file: BinaryIO) -> list[str]:
    if not tarfile.is_tarfile(file):
        file.seek(0)
        return [file.read(_MOST).decode("utf-8", "replace")]
    file.seek(0)
    with tarfile.open(fileobj=file, tarinfo=TarMember) as tar:
        return [_text_of(tar, name) for name in (SUMS, NEEDED)]


def _text_of(tar: tarfile.TarFile, name: str) -> str:
    try:
        file = tar.extractfile(name)
    except KeyError:
        return ""
    return file.read(_MOST).decode("utf-8", "replace") if file else ""


def _sums(lines: Iterable[Known]) -> bytes:
    return "".join(f"{digest}  {name}\n" for digest, name in sorted(lines, key=lambda line: line[1])).encode()


def _key(pin: Pin) -> tuple[str, str]:
    return pin.index, artifact_of(pin).file


def place_of(pin: Pin) -> str:
    """Give the path of a package's file in a bundle: `wheels/FILE`, or `conda/CHANNEL/SUBDIR/FILE`."""
    file = artifact_of(pin).file
    if pin.kind == "conda":
        channel, subdir = channel_of(pin)
        return str(PurePosixPath(CONDA, channel, subdir, file))
    # a variant's under the name of a plain wheel: `install.sh` has whatever installer there is
    return f"{WHEELS}/{plain_name(pin)}"


def build_files(lock: Lock, target: LockedTarget, rules: BuildRules) -> dict[str, str]:
    """Render `requirements.txt` without the packages that are built, and the files of those. Raises InputError where
    something would be compiled for unknown GPUs."""
    compiled = [pin for pin in target.pins if rules.concerns(pin)]
    for pin in compiled:
        refuse_unknown_gpus(pin.name, target)
    sources = [pin for pin in target.pins if pin.built_with is not None]
    rest = tuple(pin for pin in target.pins if pin not in compiled and pin not in sources)
    made = {REQUIREMENTS: requirements_txt(lock, replace(target, pins=rest))}
    for pin in sources:
        made[f"{SOURCES}/{pin.name}.txt"] = requirements_txt(lock, replace(target, pins=(pin,)))
        made[f"{SOURCES}/{pin.name}.{BUILT_WITH}"] = build_constraints([pin])
        versions = sorted(f"{build_pin.name}=={build_pin.version}\n" for build_pin in pin.built_with or ())
        made[f"{SOURCES}/{pin.name}.{VERSIONS}"] = "".join(versions)
    for number, pin in enumerate(rules.in_order(compiled)):
        made[f"{BUILDS}/{number:03}-{pin.name}.txt"] = requirements_txt(lock, replace(target, pins=(pin,)))
    if compiled:
        variables = sorted(build_variables(target).items())
        # where CUDA is, the machine may know better
        lines = [
            f"export {name}={f'${{{name}:-{shell(text)}}}' if name == 'CUDA_HOME' else shell(text)}\n"
            for name, text in variables
        ]
        made[f"{BUILDS}/{VARIABLES}"] = "".join(lines)
    return made


def later_files(lock: Lock, target: LockedTarget, artifacts: Paths) -> dict[str, str]:
    """Render the lists in `LATER`, as far as the wheels are at hand."""
    wheels = {pin.name: pin for pin in target.pins if pin.kind == "pip" and pin.is_wheel and _key(pin) in artifacts}
    order = [name for name in pip_order(target) if name in wheels]
    parts = waves(
        order, overwrites(shared_paths((name, paths_of_wheel(artifacts[_key(wheels[name])])) for name in order))
    )
    return {
        f"{LATER}/{number:03}.txt": requirements_txt(lock, replace(target, pins=tuple(wheels[name] for name in names)))
        for number, names in enumerate(parts)
        if number
    }


def explicit_list(target: LockedTarget) -> dict[str, str]:
    """Render `conda/explicit.txt`, by its path: an explicit list (CEP 23) with paths below `conda/` in place of URLs;
    empty without conda packages. `install.sh` puts the bundle's own folder before each path.
    """
    pins = in_link_order(conda_pins(target))
    lines = [
        f"{place_of(pin).removeprefix('conda/')}#{artifact_of(pin).md5 or f'sha256:{artifact_of(pin).sha256}'}"
        for pin in pins
    ]
    head = [f"# platform: {target.inputs.platform}", "@EXPLICIT"]
    return {f"{CONDA}/explicit.txt": "\n".join([*head, *lines]) + "\n"} if pins else {}


def with_wheels(target: LockedTarget, built: Mapping[str, Path]) -> tuple[LockedTarget, Paths]:
    """Put wheels that were built, by package, in the place of their sources. Returns the changed target, and the
    wheels' files."""
    pins, files = [], {}
    for pin in target.pins:
        wheel = built.get(pin.name) if pin.kind == "pip" else None
        if wheel is not None:
            artifact = Artifact(wheel.name, sha256_of(wheel), wheel.stat().st_size)
            pin = replace(pin, artifact=artifact, built_with=None, url=None)
            files[_key(pin)] = wheel
        pins.append(pin)
    return replace(target, pins=tuple(pins)), files


def carried_facts(links: Iterable[str]) -> tuple[Path, ...]:
    """Give the places of `DATES` in the bundles whose wheels these links name, there or not."""
    return tuple(folder_of(link).parent / DATES for link in links if is_folder(link))


def _add(tar: tarfile.TarFile, name: str, content: Path | bytes) -> int:
    member = tarfile.TarInfo(name)
    member.mode = 0o755 if name.endswith(".sh") else 0o644
    if isinstance(content, bytes):
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))
        return member.size
    with content.open("rb") as file:
        member.size = content.stat().st_size
        tar.addfile(member, file)
    return member.size
