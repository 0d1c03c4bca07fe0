"""A solved request with the METADATA of its packages, and the notes and errors that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from envspec.artifacts.metadata import MetadataReader, release_of
from envspec.artifacts.sdist.source import SourceReader
from envspec.artifacts.sdist.static_source import StaticReader
from envspec.base.errors import AnswerNo, EnvspecError, IndexFailure, Infeasible, OutsideError, about
from envspec.base.progress import Counting
from envspec.base.redact import redact
from envspec.base.scratch import new_folder
from envspec.base.texts import printable
from envspec.facts.corrections import Correction, Corrections
from envspec.facts.cuda_stack import TORCH as TORCHES
from envspec.facts.python_builds import newest_build
from envspec.net.index_proxy.address import ALLOWED, VARIANT, WHEEL, FileAddress
from envspec.net.index_proxy.releases import Release, version_of
from envspec.net.index_proxy.server import IndexProxy
from envspec.net.remote_file import DamagedFile, FileHashes
from envspec.packages.conflict import Conflict, Unsatisfiable
from envspec.packages.edges import Markers, shortest_paths
from envspec.packages.metadata import Metadata, metadata_of, metadata_text, of_variant
from envspec.packages.names import requirement_name
from envspec.packages.python_range import range_between
from envspec.packages.requirement import canonical_name, head_of, published_requirement
from envspec.packages.stated import StatedMetadata, find_metadata
from envspec.resolve.pip.direct import DirectFiles
from envspec.resolve.pip.edges import active_lines, reachable_packages, two_answers
from envspec.resolve.pip.newest import (
    Asks,
    Releases,
    asks_of,
    needed_glibc,
    needed_python,
    newer_than,
    skipped_releases,
    suits_target,
    wheels_fit,
)
from envspec.resolve.pip.pins import complete_metadata, file_to_install
from envspec.resolve.pip.reading import Reading
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.sources_needed import NeededSource, SourcesNeeded
from envspec.resolve.uv.answer import Found, FoundFile
from envspec.spec.way import Way, avoiding

# METADATA for the index proxy: of wheels, of sources that may be built, and of those that may not.
#
# METADATA is read once, and kept for that file of that index: the lock's edges and licences come from it too.

_Answer = TypeVar("_Answer")

_NO_METADATA = b"Metadata-Version: 2.1\n\n"
"""METADATA that says nothing: uv skips such a release, and reports it if there is no other."""


class Describer(Struct):
    """The source of METADATA for the proxy. `scratch` has the folders of builds, `hashes` has those of files whose
    page says none."""

    wheels: MetadataReader
    sources: SourceReader
    scratch: Path
    counting: Counting
    hashes: FileHashes | None = None

    def __call__(self, address: FileAddress, stated: tuple[StatedMetadata, ...] = ()) -> bytes:
        """Give the METADATA of the file behind a URL of the proxy. `stated` is what the spec says of sources, which
        needs no build. Raises IndexFailure or ToolError."""
        file = found_file(address)
        if file.sha256 is None and self.hashes is not None:
            with self.counting.step(f"hashing {file.file}"):
                file = with_hash(file, self.hashes)
        if address.fault is not None:
            raise avoiding(
                IndexFailure(
                    f"{redact(address.url)} is a variant's wheel, and nothing is known of its variant: {address.fault}",
                    hint="report this to whoever runs the index",
                ),
                *release_of(file),
            )
        if address.kind in (WHEEL, VARIANT):
            try:
                known = self.wheels.recall(file) or self._of_wheel(file, address.sidecar)
                return metadata_text(of_variant(known, address.variant))
            except DamagedFile:
                return _NO_METADATA
        stem, version = str(address.stand_in).split("-")[:2]
        name = canonical_name(stem)
        stated_metadata = find_metadata(stated, name, version)
        if stated_metadata is not None:
            return metadata_text(metadata_of(stated_metadata, version))
        if address.kind == ALLOWED:
            return metadata_text(self._of_build(file, name, version))
        with self.counting.progress.doing(f"reading {printable(file.file)}"):
            return metadata_text(self.sources.static.read(file, name, version).metadata)

    def _of_wheel(self, file: FoundFile, sidecar: bool) -> Metadata:
        with self.counting.step(f"reading {file.file}"):
            return self.wheels.read(file, sidecar=sidecar)

    def _of_build(self, file: FoundFile, name: str, version: str) -> Metadata:
        with self.counting.step(f"reading {file.file}, and building its metadata where it must be"), about(name):
            return self.sources.read_sdist(file, name, version, new_folder(self.scratch))


def found_file(address: FileAddress) -> FoundFile:
    """Give the file itself, at its index's address."""
    return FoundFile(
        address.url,
        address.file,
        address.sha256 or None,
        address.size,
        address.metadata_sha256,
        provenance=address.provenance,
        variant=address.variant,
        yanked=address.yanked,
        requires_python=address.requires_python,
    )


def with_hash(file: FoundFile, hashes: FileHashes) -> FoundFile:
    """Add the sha256 that the file's page doesn't say. Raises IndexFailure."""
    sha256, size = hashes.of(file.url)
    return replace(file, sha256=sha256, size=size)


def is_source(package: Found, file: FoundFile | None) -> bool:
    """Return whether a target installs a package of an index from source."""
    return file is not None and package.archive is None and not file.file.endswith(".whl")


class Resolution(Struct, frozen=True):
    """A solved request.

    edges  the packages' requirements that hold in the target
    lines  the same, with the bounds that corrections add
    asks   the bounds of all requirements together on each package
    """

    packages: tuple[Found, ...]
    edges: Mapping[str, tuple[str, ...]]
    lines: Mapping[str, tuple[str, ...]]
    asks: Mapping[str, Asks]

    def list_dependencies(self, name: str) -> list[str]:
        """Name what a package requires in the target."""
        return sorted({head_of(line).name for line in self.edges.get(name, ())})


def answer_of(packages: tuple[Found, ...], request: Request, reading: Reading) -> Resolution:
    """Add its packages' METADATA to a solution. Raises what reading METADATA raises."""
    metadata = read_metadata(packages, request, reading)
    edges = active_lines(request, metadata)
    bounds = {
        name: tuple(filter(markers.hold, request.corrections.bounds(name, published.version, published.requires_dist)))
        for markers in (Markers(request.platform, request.full_python),)
        for name, published in metadata.items()
    }
    lines = {name: (*edges[name], *bounds[name]) for name in edges}
    return Resolution(packages, edges, lines, asks_of(request, lines))


def drop_unreachable(packages: tuple[Found, ...], request: Request, reading: Reading) -> tuple[Found, ...]:
    """Drop packages to which only an active correction leads. A correction bounds a package, but doesn't require it.
    Raises what reading METADATA raises."""
    if not request.corrections.active:
        return packages
    reachable = reachable_packages(request, read_metadata(packages, request, reading))
    return tuple(package for package in packages if package.name in reachable)


def read_metadata(packages: Sequence[Found], request: Request, reading: Reading) -> dict[str, Metadata]:
    """Read the METADATA of a solution's packages, with the bounds that corrections add. Raises what reading METADATA
    raises."""
    for package in packages:
        reading.begin(package, file_to_install(package, request), request.metadata)
    return {
        package.name: complete_metadata(
            reading.result(package, file_to_install(package, request), request.metadata), request
        )[0]
        for package in packages
    }


def in_own_addresses(packages: Sequence[Found], proxy: IndexProxy, direct: DirectFiles) -> tuple[Found, ...]:
    """Give uv's answer with files at their own indexes' addresses, sources in place of stand-ins, what is known of
    files by URL, and without packages of conda. Files of the shipped facts keep the proxy's address: they have no
    other."""

    def own(file: FoundFile) -> FoundFile:
        address = proxy.file(file.url)
        if address is not None:
            of_pypi = proxy.is_of_other_index(file.url)
            return replace(found_file(address), uploaded=file.uploaded, of_other_index=of_pypi)
        return replace(file, file=unquote(file.url.rpartition("/")[2])) if proxy.owns(file.url) else file

    return tuple(
        replace(package, archive=direct[package.name].file)
        if package.archive and package.name in direct
        else replace(package, files=tuple(map(own, package.files)))
        for package in packages
        if not any(proxy.is_provided(file.url) for file in package.files)
    )


def with_hashes(packages: Sequence[Found], request: Request, hashes: FileHashes | None) -> tuple[Found, ...]:
    """Add the hash of each file that the target installs and whose page says none. Raises IndexFailure."""

    def hash_file(package: Found) -> Found:
        file = file_to_install(package, request)
        if hashes is None or file is None or file is package.archive or file.sha256 is not None:
            return package
        return replace(package, files=(with_hash(file, hashes),))

    return tuple(map(hash_file, packages))


def sources_needed(
    answers: Mapping[Request, Resolution],
    groups: Mapping[Request, tuple[str, ...]],
    static: StaticReader,
    releases: Callable[[Request], Releases],
) -> SourcesNeeded | None:
    """Find the packages of all targets that are needed from source and may not be built: the build runs their code, and
    the spec doesn't allow it."""
    needed = []
    for request, answer in answers.items():
        for package in answer.packages:
            file = file_to_install(package, request)
            if file is None or not is_source(package, file) or package.name in request.allow_source:
                continue
            facts = static.read(file, package.name, str(package.version))
            if facts.inert:
                continue
            if find_metadata(request.metadata, package.name, str(package.version)):
                facts = replace(facts, trust="static")
            roots = sorted(map(requirement_name, request.requirements))
            page = releases(request)(package.name)
            release = next((release for release in page if release.version == package.version), None)
            wheels = release.wheels if release else ()
            lacks = facts.imports.lacks(package.name, facts.builds, has_torch=not TORCHES.isdisjoint(answer.edges))
            needed.append(
                NeededSource(
                    package.name,
                    str(package.version),
                    shortest_paths(roots, answer.list_dependencies).get(package.name, (package.name,)),
                    facts.trust,
                    facts.compiles,
                    bool(wheels),
                    needed_glibc(wheels, request),
                    release is not None and wheels_fit([file for file, _ in release.late], request),
                    needed_python(wheels, request),
                    facts.fetches,
                    # before the build is asked, and what it declares is solved
                    lacks if lacks and lacks.is_sure(facts.builds) else None,
                    groups[request],
                )
            )
    return SourcesNeeded(needed) if needed else None


def refuse_two_answers(
    answers: Mapping[Request, Resolution], groups: Mapping[Request, tuple[str, ...]], reading: Reading
) -> None:
    """Raise Infeasible for a marker that holds for some of the Pythons that a machine may bring, and not for others.
    Raises what reading METADATA raises."""
    for request, answer in answers.items():
        if not request.any_python:
            continue
        if (split := two_answers(request, read_metadata(answer.packages, request, reading))) is None:
            continue
        name, line, ranges = split
        who = f"{name} requires" if name else "the spec asks for"
        # without a build, the machine's is all there is
        named = newest_build(request.python, request.platform) is not None
        error = Infeasible(
            f"{', '.join(groups[request])}: {who} {line}, which is so for some Python {request.python} and not for "
            "others, and the machine brings its own",
            hint="let the lock name the build: leave out [image] python" if named else None,
        ).with_subjects(*filter(None, [name]))
        error.key = "env.python"
        error.ways = tuple(Way(python=request.python, python_range=range_between(*pair)) for pair in reversed(ranges))
        raise error


def older_sources(packages: Sequence[Found], request: Request, releases: Releases) -> tuple[str, ...]:
    """Find packages that a solution builds from source, although a newer release has a source too. uv passed over the
    newer release because none of its wheels fits; a package that is built anyway needs no wheel."""
    return tuple(
        package.name
        for package in packages
        if package.name not in {*request.allow_source, *request.unfit}
        and not all(file.file.endswith(".whl") for file in package.files)
        and is_source(package, file_to_install(package, request))
        and any(release.source for release in skipped_releases(package, request, releases))
    )


def dated_sources(
    packages: Iterable[Found], request: Request, pinned: Mapping[str, str], releases: Releases
) -> Iterator[str]:
    """Find packages of a solution of which a newer release had no wheel for the target before `exclude-newer`, as those
    came later, but its source, which uv hasn't seen. Versions `pinned` from the old lock stay."""
    for package in packages:
        if package.name in {*request.allow_source, *request.unfit} or pinned.get(package.name) == package.version:
            continue
        is_dated = package.files and request.not_after(package.name)
        for release in newer_than(releases(package.name), version_of(package.version or "")) if is_dated else ():
            if _waits_for_wheels(release, request) and suits_target(release, request, package.name, None):
                yield package.name
                break


def _waits_for_wheels(release: Release, request: Request) -> bool:
    late = [file for file, _ in release.late]
    return release.source and wheels_fit(late, request) and not wheels_fit(release.wheels, request)


def ways_to_pre_releases(barred: Sequence[str]) -> tuple[Way, ...]:
    """Propose to admit pre-releases of packages for which envspec barred them, because no requirement asks for one."""
    bounds = tuple(f"{name}>=0a0" for name in barred)
    return (Way(bounds=bounds, note=f"a pre-release of {', '.join(barred)}"),) if barred else ()


def add_corrections(conflict: Unsatisfiable, corrections: Corrections) -> Unsatisfiable:
    """Add to a conflict the corrections that may be part of it: published METADATA lacks their bounds.

    Those whose bound stands in it; where no bound does, those of packages that are both named."""
    proof = conflict.conflict
    about = [row for name in sorted(proof.packages) for row in corrections.about(name) if row.bounded in proof.packages]
    near = [row for row in about if row.kind != "extra" and _may_be_of(proof, row)]
    involved = [row for row in near if _bounds_stand_in(proof, row)]
    involved += [row for row in about if row.kind == "extra" and row.name in corrections.active]
    if not involved:
        return conflict
    descriptions = "; ".join(map(_describe_correction, involved))
    conflict.message = f"{conflict.message.rstrip('.')} ({descriptions})."
    conflict.ways += (Way(corrections=tuple(dict.fromkeys(row.name for row in involved))),)
    return conflict


def _describe_correction(row: Correction) -> str:
    if row.kind == "extra":
        return f"envspec holds {row.package} to what its extra {row.requirement} says: {row.reason}"
    return f"envspec adds {row.requirement} to {row.package}{row.versions}: {row.reason}"


def _may_be_of(proof: Conflict, row: Correction) -> bool:
    """Return whether a conflict may be about a corrected release: it names one of these, or none by its number."""
    ranges = [clause.versions for clause in proof.chain if clause.package == row.package]
    ranges += [clause.bound for clause in proof.chain if clause.other == row.package]
    named = [text.removeprefix("==") for text in ranges if text.startswith("==") and "," not in text]
    return not named or any(row.concerns(row.package, version) for version in named)


def _bounds_stand_in(proof: Conflict, row: Correction) -> bool:
    required = {clause for bound in proof.bounds_on(row.bounded) for clause in bound.split(",")}
    return all(str(clause) in required for clause in published_requirement(row.requirement).specifier)


def prefix(error: EnvspecError, label: str) -> EnvspecError:
    """Prefix an error of one file or page with the targets that need it."""
    if error.message.startswith(label):
        return error
    more = type(error)(f"{label}: {error.message}", hint=error.hint).with_subjects(*error.about)
    more.place, more.ways = error.place, error.ways
    return more


@contextmanager
def attribute_to(targets: tuple[str, ...]) -> Iterator[None]:
    """Name these targets in an error that the block raises."""
    try:
        yield
    except EnvspecError as error:
        error.targets = error.targets or targets
        raise


def raise_again(error: EnvspecError) -> NoReturn:
    """Raise an error in the place of an answer."""
    raise error


def answer_together(pool: Executor, jobs: Mapping[str, Callable[[], _Answer]]) -> dict[str, _Answer]:
    """Run targets' jobs side by side. Raises the first failure, in the jobs' order, once all have ended: of several
    refusals the first has the others beside it, and equal ones are one."""
    futures = {name: pool.submit(job) for name, job in jobs.items()}
    refused: dict[tuple[str, str], AnswerNo] = {}
    failed: dict[tuple[str, str], EnvspecError] = {}
    answers = {}
    for name, future in futures.items():
        try:
            answers[name] = future.result()
        except (AnswerNo, OutsideError) as error:
            merged: dict[tuple[str, str], Any] = refused if isinstance(error, AnswerNo) else failed
            message = error.message.removeprefix(f"{name}: ")
            same = merged.setdefault((error.code, message), error)
            if same is not error:
                same.targets = (*same.targets, *error.targets)
                same.message = f"{', '.join(same.targets)}: {message}"
    if refused:
        first, *rest = refused.values()
        first.beside = tuple(rest)
        raise first
    if failed:
        raise next(iter(failed.values()))
    return answers
