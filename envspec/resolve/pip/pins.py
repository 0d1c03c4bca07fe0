"""Pins of uv's answer: the file that a target installs, its index's name, the edges that hold in the target."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec.structs import replace

from envspec.base.errors import Infeasible
from envspec.base.redact import without_credentials
from envspec.base.texts import without_unseen
from envspec.facts.corrections import Corrections, implies
from envspec.facts.cuda_stack import cuda_major_in
from envspec.facts.wheels import FAMILY
from envspec.lock.model import GitSource, Pin, SolverView
from envspec.net.index_proxy.server import IndexProxy
from envspec.packages.edges import Markers
from envspec.packages.metadata import Metadata
from envspec.packages.names import requirement_name
from envspec.packages.python_range import binding_range
from envspec.packages.requirement import published_requirement
from envspec.packages.tags import ReleaseFile, choose_file
from envspec.resolve.pip.edges import for_other_cuda
from envspec.resolve.pip.newest import Releases, is_sole, newer
from envspec.resolve.pip.reading import Description, Reading
from envspec.resolve.pip.request import Request
from envspec.resolve.torch_index.choice import TorchIndex, needs_own_triton
from envspec.resolve.uv.answer import Found, FoundFile
from envspec.spec.way import avoiding


def pins_of(
    packages: Sequence[Found],
    edges: Mapping[str, tuple[str, ...]],
    request: Request,
    index: TorchIndex,
    proxy: IndexProxy,
    reading: Reading,
    releases: Releases,
) -> tuple[Pin, ...]:
    """Make the pins of a solved request with the packages' edges. Raises what reading metadata raises."""
    published = {p.name: reading.result(p, file_to_install(p, request), request.metadata) for p in packages}
    described = {name: complete_metadata(description, request) for name, description in published.items()}
    direct = {requirement_name(text) for text in request.requirements}
    corrected = request.corrections.between(published) | frozenset(_alike(packages, edges, request.corrections))

    def pin(package: Found) -> Pin:
        own, (metadata, artifact) = edges[package.name], described[package.name]
        return Pin(
            kind="pip",
            name=package.name,
            version=package.version or metadata.version,
            index=_index_name(package, file_to_install(package, request), request, index, proxy),
            artifact=artifact,
            dependencies=tuple(sorted({*own, *_beside(own, metadata, request)})),
            requires_python=binding_range(metadata.requires_python, request.python),
            direct=package.name in direct,
            licence=without_unseen(metadata.licence) or None if metadata.licence else None,
            git=GitSource(without_credentials(package.git[0]), *package.git[1:]) if package.git else None,
            url=without_credentials(package.archive.url) if package.archive else None,
            solver=SolverView(
                metadata,
                added=_missing_requirements(published[package.name][0], request),
                newer=newer(package, request, releases) if package.name in corrected else None,
                sole=not corrected.isdisjoint(map(requirement_name, own)) and is_sole(package, request, releases),
            ),
        )

    return tuple(map(pin, packages))


def _alike(packages: Sequence[Found], edges: Mapping[str, tuple[str, ...]], corrections: Corrections) -> Iterator[str]:
    """Name the packages whose own METADATA rules out what a correction of another one does."""
    rows = [
        row
        for package in packages
        for row in corrections.about(package.name)
        if row.concerns(package.name, package.version or "0")
    ]
    bounded = {row.bounded: row.requirement for row in rows if row.kind != "requirement"}
    for name, lines in edges.items():
        for line in lines:
            required = bounded.get(requirement_name(line))
            if required and implies((str(published_requirement(line).specifier),), required):
                yield name


def _beside(edges: tuple[str, ...], metadata: Metadata, request: Request) -> tuple[str, ...]:
    """Find the lines by which a package names for the target's CUDA what it also requires for another one."""
    major = request.cuda.partition(".")[0] if request.cuda else None
    if all(cuda_major_in(requirement_name(line)) in (None, major) for line in edges) or major is None:
        return ()
    return for_other_cuda(edges, metadata.requires_dist, Markers(request.platform, request.full_python), major)


def complete_metadata(description: Description, request: Request) -> Description:
    """Add the requirements that the METADATA leaves out, the same as for uv."""
    metadata, artifact = description
    return replace(
        metadata, requires_dist=(*metadata.requires_dist, *_missing_requirements(metadata, request))
    ), artifact


def _missing_requirements(metadata: Metadata, request: Request) -> tuple[str, ...]:
    return request.corrections.missing_requirements(metadata.name, metadata.version, metadata.requires_dist)


def file_to_install(package: Found, request: Request) -> FoundFile | None:
    """Choose the one file that the target installs, None for git."""
    if package.archive or not package.files:
        return package.archive
    file = _choose_file(package.files, request.platform, request.full_python, request.glibc)
    if file is None:
        names = " and ".join(sorted({each.file for each in package.files})[:3])
        raise avoiding(
            Infeasible(
                f"none of the files of {package.name} {package.version} that uv takes runs on {request.uv_platform}: "
                f"{names}",
            ),
            package.name,
            str(package.version),
        )
    return file


@lru_cache(maxsize=1 << 13)
def _choose_file(files: tuple[FoundFile, ...], platform: str, python: str, glibc: str | None) -> FoundFile | None:
    listed = (ReleaseFile(file.file, file.yanked, file.requires_python) for file in files)
    chosen = choose_file(listed, platform, python, glibc)
    return next((file for file in reversed(files) if file.file == chosen), None)


def _index_name(package: Found, file: FoundFile | None, request: Request, index: TorchIndex, proxy: IndexProxy) -> str:
    sources = dict(request.sources)
    if package.git:
        return "git"
    if package.archive:
        return "url"
    if package.name in sources:
        return sources[package.name]
    if file is not None and proxy.owns(file.url):
        return f"pytorch/{proxy.variant_of(file.url)}"
    if file is not None and (file.of_other_index or proxy.is_of_other_index(file.url)):
        # a live index of PyTorch's that lacks the release, or doesn't answer, leaves it to PyPI
        return "pypi"
    if index.live and (package.name in FAMILY or (package.name == "triton" and needs_own_triton(request))):
        # the proxy hands a mirror's files on under their own address
        return f"pytorch/{index.variant}"
    return "pypi"


# What has variants is asked for again, by each target for its own machines: in the first question any variant of a
# release stands for all. Most solutions have none. What is built against torch or NumPy depends on their versions, too.

_BUILT_AGAINST = ("numpy", "torch")
"""The packages on whose versions variants depend."""


def for_variants(
    request: Request, names: Collection[str], packages: Iterable[Found], pinned: Mapping[str, tuple[str, str]]
) -> Request:
    """Give a request with the variants of packages that have some, for its target's own machines, beside what was
    `packages`. `pinned` has the version and label of the old lock's variants."""
    variants = tuple(sorted({*request.variants, *names}))
    machine = request.own_machine
    if not variants or machine is None:
        return request
    known = {**dict(request.machine.versions if request.machine else ()), **dict(request.provided)}
    known |= {package.name: package.version for package in packages if package.version}
    versions = tuple((name, known[name]) for name in _BUILT_AGAINST if name in known)
    labels = tuple((name, *pinned[name]) for name in variants if name in pinned)
    return replace(request, variants=variants, machine=replace(machine, versions=versions, locked=labels))
