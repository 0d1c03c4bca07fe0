"""uv's indexes for a request: the roots of the index proxy, in uv's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial

from msgspec import Struct
from msgspec.structs import replace

from envspec.base.errors import IndexFailure
from envspec.facts.wheels import FAMILY
from envspec.net.index_proxy.pages import Pages, Upstream
from envspec.net.index_proxy.releases import Release
from envspec.net.index_proxy.server import IndexProxy
from envspec.net.index_proxy.shown import has_variants
from envspec.packages.conflict import Conflict
from envspec.packages.names import requirement_name
from envspec.packages.tags import ReleaseFile, choose_file
from envspec.resolve.pip.compile import UvIndex
from envspec.resolve.pip.confusion import is_pytorch
from envspec.resolve.pip.request import Preferences, Request
from envspec.resolve.torch_index.choice import TorchIndex, needs_own_triton
from envspec.resolve.uv.answer import FoundFile
from envspec.spec.way import Way

_PYTORCH = frozenset((*FAMILY, "triton"))
"""What may come from PyTorch's index."""


class UvIndexes(Struct, frozen=True):
    """The indexes of a spec, as `PipResolver` has them."""

    pages: Pages
    indexes: Mapping[str, str]
    flat: Mapping[tuple[str, str], str]
    default_index: str | None

    def for_request(self, request: Request, torch: TorchIndex | None, proxy: IndexProxy) -> list[UvIndex]:
        """List uv's indexes for a request, all behind the proxy, in uv's order. `torch` is the PyTorch index that the
        proxy serves."""
        ordered = self._of_the_spec(request, proxy)
        if request.provided:
            ordered.append(UvIndex("conda", proxy.provided_url(request.stand_ins), cacheable=False))
        pytorch = []
        if torch is not None:
            variant = str(torch.variant)
            url = proxy.url(
                variant,
                triton=needs_own_triton(request),
                corrections=request.corrections,
                glibc=request.unlisted_glibc,
            )
            pytorch.append(UvIndex("pytorch", url, cacheable=proxy.lasts(variant)))
        if not self.default_index:
            return [*ordered, *pytorch]
        special, usual = self._special(request), self._usual(request)
        if special.only:
            # uv asks an index that must be named for these packages alone, any other for all
            direct = _own_names(request) - (frozenset(FAMILY) if torch else frozenset())
            alone = special.only if special.only <= direct else frozenset()
            own = UvIndex("special", proxy.index(special), bool(alone), cacheable=not special.local, packages=alone)
            # what both have is PyTorch's
            ordered += [own] if alone else [*pytorch, own]
            pytorch = pytorch if alone else []
        # PyTorch's index has three packages, and uv, which keeps no "no such page", would ask it for all: so it comes
        # behind the default one, which is without these
        remote = not usual.local
        ordered.append(UvIndex("pypi", proxy.index(usual), cacheable=remote))
        return [*ordered, *pytorch, UvIndex("torch", proxy.index(self._torch(request)), default=True, cacheable=remote)]

    def of_builds(self, request: Request, variant: str | None, proxy: IndexProxy) -> list[UvIndex]:
        """List uv's indexes for a build's requirements: the target's own indexes, each for the target's packages from
        it alone, then PyPI. `variant` names the PyTorch index of the target's torch."""
        ordered = self._of_the_spec(request, proxy)
        if variant is not None:
            url = proxy.url(variant, triton=needs_own_triton(request), glibc=request.unlisted_glibc)
            ordered.append(UvIndex("pytorch", url, cacheable=proxy.lasts(variant)))
        usual = Upstream(str(self.default_index), glibc=request.unlisted_glibc)
        return [*ordered, UvIndex("pypi", proxy.index(usual), default=True, cacheable=not usual.local)]

    def _of_the_spec(self, request: Request, proxy: IndexProxy) -> list[UvIndex]:
        """Give the spec's own indexes, which stand before all others, as one, and those that are folders as another: uv
        asks each for every package. None is one that uv must be told of: such an index counts only for what the project
        itself requires here, and of what a package leads to uv would look at PyPI's release, or have it built."""
        own = [self._upstream_of(request, source) for source in sorted({source for _, source in request.sources})]
        joined = (_join([upstream for upstream in own if upstream.local is local], request) for local in (False, True))
        return [
            UvIndex(
                "own-folders" if upstream.local else "own",
                proxy.index(upstream),
                cacheable=not upstream.local,
                packages=upstream.only or frozenset(),
            )
            for upstream in joined
            if upstream is not None
        ]

    def _upstream_of(self, request: Request, index: str) -> Upstream:
        """Give the packages that come from an index of the spec's own, simple or flat; an empty one if the target has
        no page of that name."""
        names = frozenset(name for name, source in request.sources if source == index)
        page = None if index in self.indexes else dict(request.find_links).get(index)
        if index not in self.indexes and page is None:
            return Upstream("", only=names)
        url = self.indexes[index] if page is None else self.flat[index, page]
        # of packages from elsewhere than PyPI nothing is known but what their own wheels say
        read, here = request.corrections.only(names), names & {*request.variants}
        machine = request.machine if here else None
        own = replace(_own(url, request), corrections=read, only=names, variants=here, machine=machine, named=True)
        return replace(own, flat=page is not None)

    def refuse_flat(self, request: Request, label: str) -> None:
        """Raise IndexFailure for a flat page among the indexes that a request without a solution uses."""
        for name in sorted({source for _, source in request.sources} & self.indexes.keys()):
            if self.pages.is_flat(self.indexes[name]):
                failure = IndexFailure(
                    f'{label}: the index "{name}" is a flat index: its address is a page with links to files',
                    hint=f'move it in [pip] from indexes to find-links: find-links = {{ {name} = "…" }}',
                )
                failure.key = f"pip.indexes.{name}"
                raise failure

    def _usual(self, request: Request) -> Upstream:
        """Give the default index without PyTorch's packages, with the corrections that hold in every solution."""
        corrections, glibc = request.corrections.inactive(), request.unlisted_glibc
        return Upstream(str(self.default_index), corrections=corrections, without=_PYTORCH, glibc=glibc)

    def _torch(self, request: Request) -> Upstream:
        """Give PyTorch's packages on the default index, likewise."""
        return replace(self._usual(request), without=frozenset(), only=_PYTORCH)

    def _special(self, request: Request) -> Upstream:
        """Give the part of the default index that this request has to itself: the sources that uv sees, and the
        packages with corrections that hold in this solution alone."""
        own = _own(str(self.default_index), request)
        stated = {entry.name for entry in request.metadata}
        corrected = request.corrections.active_packages - dict(request.sources).keys()
        variants = frozenset(request.variants) - dict(request.sources).keys()
        only = own.allowed | own.unfit | stated | corrected | variants
        machine = request.machine if variants else None
        return replace(own, corrections=request.corrections, only=only, variants=variants, machine=machine)

    def releases(self, request: Request) -> Callable[[str], Sequence[Release]]:
        """List a package's releases on the index that it comes from, as the request's target sees them."""
        upstream, machine = self._upstreams(request), (request.platform, request.full_python, request.glibc)

        def releases(name: str) -> Sequence[Release]:
            own = upstream(name)
            return () if own is None else self.pages.releases(own, name, machine, request.not_after(name))

        return releases

    def wheel(self, request: Request, name: str, version: str) -> FoundFile | None:
        """Find a wheel of a release, whatever its local part, on its package's index: the target's, where one fits.
        Raises IndexFailure."""
        own = self._upstreams(request)(name)
        if own is None or (self.pages.offline and not own.local):
            return None
        rows = {row["filename"]: row for row in self.pages.wheels(own, name).get(version, ())}
        named = (ReleaseFile(file) for file in rows)
        row = rows.get(choose_file(named, request.platform, request.full_python, request.glibc) or next(iter(rows), ""))
        return FoundFile(row["url"], row["filename"], row["hashes"].get("sha256"), row.get("size")) if row else None

    def root(self, request: Request, name: str) -> str:
        """Name the index that a package comes from."""
        own = self._upstreams(request)(name)
        return own.root if own else ""

    def _upstreams(self, request: Request) -> Callable[[str], Upstream | None]:
        """Give the index that a package comes from."""
        sources, of_index = dict(request.sources), cache(partial(self._upstream_of, request))
        special, torch, usual = self._special(request), self._torch(request), self._usual(request)

        def upstream(name: str) -> Upstream | None:
            if name in sources:
                return of_index(sources[name])
            return next(part for part in (special, torch, usual) if part.serves(name)) if self.default_index else None

        return upstream

    def packages_in(self, conflict: Conflict, request: Request) -> list[str]:
        """List the packages of a conflict whose pages were read."""
        return [name for name in sorted(conflict.packages) if self._read(request, name)]

    def variants_in(self, request: Request, conflict: Conflict) -> frozenset[str]:
        """Find the packages of a conflict that have variants."""
        names = self.packages_in(conflict, request)
        return frozenset(
            name for name in names if any(has_variants(release.wheels) for release in self._read(request, name))
        )

    def _read(self, request: Request, name: str) -> Sequence[Release]:
        """List a package's releases as they were read last."""
        upstream = self._upstreams(request)(name)
        return (self.pages.store.get(upstream.root, name) or ()) if upstream else ()

    def variant_versions(self, request: Request, name: str) -> Sequence[str]:
        """List the releases of a package that have variants on the index that it comes from. Raises IndexFailure."""
        return [release.version for release in self.releases(request)(name) if has_variants(release.wheels)]

    def with_builds(self, request: Request, preferences: Preferences) -> Preferences:
        """Complete preferred releases to the one build that the package's own index has: uv keeps only complete
        versions, and a release from another target lacks the local part, which names a torch or CUDA."""
        releases, versions = self.releases(request), dict(preferences.versions)
        for name in versions.keys() & dict(request.sources).keys():
            with suppress(IndexFailure):
                built = {
                    release.version for release in releases(name) if release.version.partition("+")[0] == versions[name]
                }
                versions[name] = built.pop() if len(built) == 1 else versions[name]
        return replace(preferences, versions=versions)

    def has(self, index: str, name: str) -> bool:
        """Return whether a named index has a package. PyTorch's don't count: they have copies of public packages."""
        url = self.indexes.get(index)
        if url is None:
            pages = [page for (flat, _), page in self.flat.items() if flat == index]
            return any(self.pages.has(Upstream(page, flat=True), name) for page in pages)
        return not is_pytorch(url) and self.pages.has(Upstream(url), name)

    def ways_to_missing(self, request: Request, conflict: Conflict) -> Iterator[Way]:
        """Name the spec's indexes that have a package which its own index lacks."""
        for name in sorted({*conflict.packages_of("not-found")} - dict(request.sources).keys()):
            for index in (*self.indexes, *dict(request.find_links)):
                with suppress(IndexFailure):
                    if self.has(index, name):
                        yield Way(sources=((name, index),), note=f"{index} has it")


def _own_names(request: Request) -> frozenset[str]:
    """List the packages that uv may be told to take from an index by its name: the project's own requirements that no
    index before it serves."""
    own = {requirement_name(text) for text in request.requirements if "@" not in text}
    elsewhere = (*request.sources, *request.provided)
    return frozenset(own - {*map(requirement_name, request.overrides), *(name for name, _ in elsewhere)})


def _own(url: str, request: Request) -> Upstream:
    """Give an index with what a request says of sources."""
    allowed, unfit = frozenset(request.allow_source), frozenset(request.unfit)
    return Upstream(url, allowed, unfit, request.metadata, glibc=request.unlisted_glibc)


def _join(upstreams: Sequence[Upstream], request: Request) -> Upstream | None:
    """Put indexes that have packages of their own each behind one root."""
    if len(upstreams) < 2:
        return next(iter(upstreams), None)
    only = frozenset[str]().union(*(upstream.only or () for upstream in upstreams))
    return replace(_own("", request), corrections=request.corrections.only(only), only=only, parts=tuple(upstreams))
