"""The releases that an answer doesn't have: their pages, and the METADATA of their wheels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, partial

from msgspec import Struct
from msgspec.structs import replace

from envspec.artifacts.metadata import MetadataReader, cache_key
from envspec.base.errors import OutsideError
from envspec.facts import wheels
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.releases import Release
from envspec.packages.edges import markers_of
from envspec.packages.metadata import Metadata, parse_metadata
from envspec.resolve.pip.edges import active_lines
from envspec.resolve.pip.indexes import UvIndexes
from envspec.resolve.pip.leads import LeadCase
from envspec.resolve.pip.newest import admitted_releases, fitting_releases
from envspec.resolve.pip.pins import complete_metadata
from envspec.resolve.pip.request import Request
from envspec.resolve.torch_index.choice import TorchIndex
from envspec.resolve.torch_index.holes import all_releases, held_files, held_releases
from envspec.resolve.uv.answer import Found


class Published(Struct, frozen=True, eq=False, dict=True):
    """The indexes of a spec, and the reader of METADATA there."""

    indexes: UvIndexes
    wheels: MetadataReader

    def case(
        self,
        request: Request,
        index: TorchIndex,
        packages: Sequence[Found],
        settled: Mapping[str, str],
        answer: Callable[[], Mapping[str, Sequence[str]]],
    ) -> LeadCase:
        """Give an answer with pages and METADATA of newer releases."""
        return replace(self._cases(request, index), packages=packages, settled=settled, answer=answer)

    @cached_property
    def _cases(self) -> Callable[[Request, TorchIndex], LeadCase]:
        """Give the pages of a request, without an answer: all looks at its answers share them."""
        return cache(self._case_of)

    def _case_of(self, request: Request, index: TorchIndex) -> LeadCase:
        of = self.indexes.releases(request)
        from_facts = index.variant is not None
        # what envspec bounds for the target's sake the spec admits
        bounds = (line for line in request.constraints if line not in {*request.own, *index.constraints})
        of_spec = replace(request, constraints=tuple(bounds), own=(), final=())

        def releases(name: str) -> Sequence[Release]:
            return held_releases(request, index, name) if from_facts and name in FAMILY else of(name)

        @cache
        def page_within_spec(name: str) -> Sequence[Release]:
            if name == "torch" and (from_facts or index.constraints):
                return all_releases(of_spec)
            return admitted_releases(name, of_spec, of)

        def fitting(name: str) -> Iterator[Release]:
            return fitting_releases(name, request, releases)

        requires = cache(partial(self._requires, request, index))
        return LeadCase(request, (), {}, dict, releases, fitting, page_within_spec, requires)

    def extras(self, request: Request, index: TorchIndex, name: str, version: str) -> frozenset[str]:
        """List the extras of a release; none where its METADATA can't be read."""
        metadata = self._metadata(request, index, name, version)
        return metadata.extras if metadata else frozenset()

    def _requires(self, request: Request, index: TorchIndex, name: str, version: str) -> tuple[str, ...]:
        """Give the requirements of a release that hold in a request's target, with the extras that the spec asks for
        and what corrections add."""
        metadata = self._metadata(request, index, name, version)
        # a line that can't be read says nothing, as nothing of this release is locked
        with suppress(OutsideError):
            if metadata is not None:
                corrected, _ = complete_metadata((metadata, None), request)
                more = request.corrections.bounds(name, version, metadata.requires_dist)
                holds = markers_of(request.platform, request.full_python).hold
                return (*active_lines(request, {name: corrected})[name], *(line for line in more if holds(line)))
        return ()

    def _metadata(self, request: Request, index: TorchIndex, name: str, version: str) -> Metadata | None:
        """Read the METADATA of a release's wheel; None where there is none to read. It is kept by its index and
        version, for a question without the network."""
        if index.variant is not None and name in FAMILY:
            file = held_files(request, index, name).get(version)
            return parse_metadata(wheels.metadata_text(file).decode()) if file else None
        key = cache_key("release", self.indexes.root(request, name), name, version)
        if cached := self.wheels.cache.get(key):
            return cached
        with suppress(OutsideError):
            if wheel := self.indexes.wheel(request, name, version):
                metadata = self.wheels.recall(wheel) or self.wheels.read(wheel)
                self.wheels.cache.put(key, metadata)
                return metadata
        return None
