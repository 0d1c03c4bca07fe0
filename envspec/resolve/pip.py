"""The pip half of a lock: requests in, pins out. uv chooses, the artifacts' own METADATA is read, and the result is judged by `packaging`.

Equal requests are solved once. The request of the most targets is solved first and its versions are preferred by the others, which
are then solved side by side: measured against uv's universal mode in docs/resolution.md.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from envspec.errors import InternalError, SpecError
from envspec.gpu import wheels
from envspec.lock.inputs import canonical_name, requirement_name
from envspec.lock.model import Artifact, GitSource, Pin
from envspec.lock.tags import ranked_tags
from envspec.redact import redact
from envspec.resolve import torch_index
from envspec.resolve.edges import holding
from envspec.resolve.gate import FAMILY, Gate, LivePages, open_gate
from envspec.resolve.metadata import Metadata, MetadataReader, parse_metadata
from envspec.resolve.request import Preferences, Request, group
from envspec.resolve.source import SourceReader
from envspec.resolve.torch_index import TorchIndex, needs_own_triton
from envspec.resolve.uv import Found, FoundFile, Uv, UvIndex


class Progress(Protocol):
    """What a resolution tells while it works. Every method may be called from several threads."""

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        """Around the solving of one request."""

    def reading(self, done: int, total: int) -> None:
        """Metadata read so far, of how many."""


class Silent:
    """A progress that tells nothing."""

    def solving(self, targets: Sequence[str]) -> AbstractContextManager[None]:
        return nullcontext()

    def reading(self, done: int, total: int) -> None:
        return None


@dataclass(frozen=True)
class PipResolver:
    """Solves the pip half of all targets of a spec.

    indexes        the spec's named indexes: name → URL, the user's mirror of it where there is one
    default_index  where PyPI is, with the user's credentials if they gave any; None for what uv takes by itself
    live_pages     pages of the user's mirror of a PyTorch index variant; None where there is no such mirror
    refresh        ask the live PyTorch index besides the shipped facts
    scratch        gives an empty folder that is gone when the resolution ends
    """

    uv: Uv
    wheels: MetadataReader
    sources: SourceReader
    scratch: Path
    indexes: Mapping[str, str] = field(default_factory=dict)
    default_index: str | None = None
    live_pages: Callable[[str], LivePages | None] = lambda variant: None
    refresh: bool = False
    progress: Progress = field(default_factory=Silent)

    def resolve(self, requests: Mapping[str, Request], keep: Mapping[str, Preferences]) -> dict[str, tuple[Pin, ...]]:
        """Pins of every target, by target name.

        `keep` holds, by target, the versions of the old lock that are to stay if they still fit.

        Raises Unsatisfiable, Infeasible, IndexFailure, ToolError or SpecError, each naming the target.
        """
        for name, request in requests.items():
            _refuse_unnamed_sources(name, request)
        groups = group(requests)
        indexes = {request: torch_index.choose(request, refresh=self.refresh) for request in groups}
        live = {index.variant: self.live_pages(index.variant) for index in indexes.values() if index.live and index.variant}
        with open_gate({variant: pages for variant, pages in live.items() if pages}) as gate:
            found = self._solve_all(groups, indexes, gate, keep)
            return self._pins(groups, found, indexes, gate)

    def _solve_all(
        self,
        groups: Mapping[Request, tuple[str, ...]],
        indexes: Mapping[Request, TorchIndex],
        gate: Gate,
        keep: Mapping[str, Preferences],
    ) -> dict[Request, tuple[Found, ...]]:
        numbers = itertools.count()

        def solve(request: Request, preferences: Preferences) -> tuple[Found, ...]:
            with self.progress.solving(groups[request]):
                return self._solve(request, indexes[request], gate, groups[request], preferences, self.scratch / f"solve-{next(numbers)}")

        old = {request: _first(keep, names) for request, names in groups.items()}
        first, *others = groups
        # without an old lock the first answer sets the versions that the others shall share
        alone = not old[first].versions
        found: dict[Request, tuple[Found, ...]] = {}
        if alone:
            found[first] = solve(first, old[first])
        shared = Preferences(_versions(found[first])) if alone else _public(old[first])
        pool = ThreadPoolExecutor(max(2, os.cpu_count() or 2))
        try:
            rest = others if alone else list(groups)
            answers = _together(pool, [lambda r=request: solve(r, old[r].over(shared)) for request in rest])  # type: ignore[misc]
            found.update(zip(rest, answers, strict=True))
        finally:
            self.uv.stop()
            pool.shutdown(cancel_futures=True)
        return found

    def _solve(
        self,
        request: Request,
        index: TorchIndex,
        gate: Gate,
        names: tuple[str, ...],
        preferences: Preferences,
        folder: Path,
    ) -> tuple[Found, ...]:
        gated = index.variant is not None and index.variant in wheels.variants() and not self._is_uvs_own(index)
        ordered = [UvIndex(name, self.indexes[name], explicit=True) for name in sorted({source for _, source in request.sources})]
        if gated:
            ordered.append(UvIndex("pytorch", gate.url(str(index.variant), triton=needs_own_triton(request)), cacheable=False))
        if self.default_index:
            ordered.append(UvIndex("pypi", self.default_index, default=True))
        backend = index.variant if index.variant and not gated else None
        bounded = _replace_constraints(request, index.constraints)
        while True:
            folder.mkdir(parents=True)
            found = self.uv.compile(
                bounded, preferences=preferences, indexes=ordered, folder=folder, label=", ".join(names), torch_backend=backend
            )
            strayed = _strayed(found, bounded)
            if not strayed:
                return found
            # uv gives a package its named index only where the spec itself asks for it: ask for it, and solve again
            bounded = _replace_requirements(bounded, strayed)
            folder = folder.with_name(folder.name + "-named")

    def _is_uvs_own(self, index: TorchIndex) -> bool:
        """Whether the live index is asked through uv's own knowledge of it, for want of a mirror."""
        return index.live and index.variant is not None and self.live_pages(index.variant) is None

    def _pins(
        self,
        groups: Mapping[Request, tuple[str, ...]],
        found: Mapping[Request, tuple[Found, ...]],
        indexes: Mapping[Request, TorchIndex],
        gate: Gate,
    ) -> dict[str, tuple[Pin, ...]]:
        chosen: dict[tuple[Request, str], FoundFile] = {}
        for request, packages in found.items():
            for package in packages:
                if package.files:
                    chosen[request, package.name] = _installed(package, request)
        remote = [f for f in chosen.values() if f.file.endswith(".whl") and not gate.owns(f.url)]
        by_hash = self.wheels.read_all(remote, on_read=self.progress.reading)
        pins: dict[str, tuple[Pin, ...]] = {}
        for request, packages in found.items():
            described = {p.name: self._describe(p, chosen.get((request, p.name)), by_hash, gate) for p in packages}
            edges = holding(request, {name: metadata for name, (metadata, _) in described.items()})
            sources = dict(request.sources)
            solved = tuple(
                _pin(p, described[p.name][0], described[p.name][1], edges[p.name], request, _index_name(p, chosen.get((request, p.name)), sources, indexes[request], gate))
                for p in packages
            )
            pins.update(dict.fromkeys(groups[request], solved))
        return pins

    def _describe(
        self, package: Found, file: FoundFile | None, by_hash: Mapping[str, Metadata], gate: Gate
    ) -> tuple[Metadata, Artifact | None]:
        """A package's metadata and the artifact that a target installs (none for git)."""
        folder = self.scratch / "sources" / package.name
        if package.git:
            url, commit, subdirectory = package.git
            return self.sources.read_git(url, commit, subdirectory, _fresh(folder)), None
        if package.archive:
            file = package.archive
            if file.sha256 is None:
                raise SpecError(f"{redact(file.url)} has no hash that envspec could lock", hint="add #sha256=<digest> to the URL")
            metadata = self.wheels.read(file) if file.file.endswith(".whl") else self.sources.read_sdist(file, _fresh(folder))
            return metadata, Artifact(file.file, file.sha256, metadata.size)
        if file is None or file.sha256 is None:
            raise InternalError(f"{package.name} {package.version} has no file with a sha256")
        if gate.owns(file.url):
            wheel = wheels.load(gate.variant_of(file.url)).file(file.file)
            if wheel is None:
                raise InternalError(f"{file.file} came from the gate, which doesn't hold it")
            metadata = parse_metadata(wheels.metadata_text(wheel).decode())
            return metadata, Artifact(file.file, file.sha256, wheel.size)
        if file.file.endswith(".whl"):
            metadata = by_hash[file.sha256]
            # a mirror may leave sizes out; what was seen once for this hash stays true
            return metadata, Artifact(file.file, file.sha256, file.size if file.size is not None else metadata.size)
        metadata = self.sources.read_sdist(file, _fresh(folder))
        return metadata, Artifact(file.file, file.sha256, metadata.size)


def _refuse_unnamed_sources(target: str, request: Request) -> None:
    from packaging.requirements import Requirement

    for text in request.requirements:
        requirement = Requirement(text) if "@" in text else None
        if requirement is None or requirement.url is None:
            continue
        name = canonical_name(requirement.name)
        scheme = urlsplit(requirement.url).scheme
        if scheme == "file" and not requirement.url.endswith((".whl", ".tar.gz", ".zip")):
            raise SpecError(f"{target}: {text} is a folder of this machine, which no lock can hold", hint="give a git URL or a released version")
        if not requirement.url.partition("#")[0].endswith(".whl") and name not in request.allow_source:
            raise SpecError(
                f"{target}: {redact(text)} is built from source, which runs its code", hint=f'if you trust it: allow-source = ["{name}"] in [pip]'
            )


def _together(pool: Executor, jobs: Sequence[Callable[[], tuple[Found, ...]]]) -> list[tuple[Found, ...]]:
    """Run jobs side by side; the first failure, in the jobs' order, is raised once all have ended."""
    futures = [pool.submit(job) for job in jobs]
    return [future.result() for future in futures]


def _first(keep: Mapping[str, Preferences], names: Sequence[str]) -> Preferences:
    return next((keep[name] for name in names if name in keep and keep[name].versions), Preferences())


def _versions(found: Sequence[Found]) -> dict[str, str]:
    """Versions for others to prefer. torch's local part names one CUDA: others prefer the release."""
    return {p.name: p.version.partition("+")[0] for p in found if p.version and not p.git and not p.archive}


def _public(preferences: Preferences) -> Preferences:
    return Preferences({name: version.partition("+")[0] for name, version in preferences.versions.items()})


def _replace_constraints(request: Request, more: tuple[str, ...]) -> Request:
    from dataclasses import replace

    return replace(request, constraints=(*request.constraints, *more)) if more else request


def _replace_requirements(request: Request, more: Sequence[str]) -> Request:
    from dataclasses import replace

    return replace(request, requirements=tuple(sorted({*request.requirements, *more})))


def _strayed(found: Sequence[Found], request: Request) -> list[str]:
    """Packages that have a named index but weren't asked for by the spec, so that uv looked for them elsewhere."""
    direct = {requirement_name(text) for text in request.requirements}
    named = {name for name, _ in request.sources}
    return sorted(p.name for p in found if p.name in named - direct)


def _installed(package: Found, request: Request) -> FoundFile:
    """The one file that the target installs: of several wheels the one whose tag an installer ranks first (PEP 425)."""
    from packaging.utils import parse_wheel_filename

    if len(package.files) == 1:
        return package.files[0]
    ranks = {tag: rank for rank, tag in enumerate(ranked_tags(request.platform, request.python, request.glibc))}
    ranked = []
    for file in package.files:
        best = min((ranks[tag] for tag in parse_wheel_filename(file.file)[3] if tag in ranks), default=None)
        if best is not None:
            ranked.append((best, file.file, file))
    if not ranked:
        raise InternalError(f"no wheel of {package.name} {package.version} among uv's runs on {request.uv_platform}")
    return min(ranked)[2]


def _index_name(package: Found, file: FoundFile | None, sources: Mapping[str, str], index: TorchIndex, gate: Gate) -> str:
    if package.git:
        return "git"
    if package.archive:
        return "url"
    if package.name in sources:
        return sources[package.name]
    if file is not None and gate.owns(file.url):
        return f"pytorch/{gate.variant_of(file.url)}"
    if package.name in FAMILY and index.live:
        # the gate hands a mirror's files on under their own address
        return f"pytorch/{index.variant}"
    return "pypi"


def _pin(package: Found, metadata: Metadata, artifact: Artifact | None, edges: tuple[str, ...], request: Request, index: str) -> Pin:
    direct = any(requirement_name(text) == package.name for text in request.requirements)
    git = GitSource(redact(package.git[0]), package.git[1], package.git[2]) if package.git else None
    return Pin(
        kind="pip",
        name=package.name,
        version=package.version or metadata.version,
        index=index,
        artifact=artifact,
        dependencies=edges,
        direct=direct,
        licence=metadata.licence,
        git=git,
        url=redact(package.archive.url) if package.archive else None,
    )


def _fresh(folder: Path) -> Path:
    number = itertools.count()
    while True:
        candidate = folder.with_name(f"{folder.name}-{next(number)}")
        try:
            candidate.mkdir(parents=True)
        except FileExistsError:
            continue
        return candidate
