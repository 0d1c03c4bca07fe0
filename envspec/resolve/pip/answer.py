"""A solved request with the METADATA of its packages, and the notes and errors that follow from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from envspec.errors import EnvspecError, Unsatisfiable
from envspec.net.index_proxy.server import IndexProxy
from envspec.packages.stated import stated_for
from envspec.resolve.pip.describe import found_file, is_source
from envspec.resolve.pip.edges import holding
from envspec.resolve.pip.newest import Asks, PassedOver, asks_of
from envspec.resolve.pip.pins import completed, installed
from envspec.resolve.pip.reading import Reading
from envspec.resolve.pip.request import Request
from envspec.resolve.pip.sources_needed import NeededSource, SourcesNeeded, needed_source
from envspec.resolve.pip.static_source import StaticReader
from envspec.rules.finding import Finding
from envspec.uv.answer import Found, FoundFile


@dataclass(frozen=True)
class Resolution:
    """A solved request.

    edges  the packages' requirements that hold in the target
    asks   the bounds of all requirements together on each package
    """

    found: tuple[Found, ...]
    edges: Mapping[str, Sequence[str]]
    asks: Mapping[str, Asks]


def answer_of(found: tuple[Found, ...], request: Request, reading: Reading) -> Resolution:
    """Add its packages' METADATA to a solution. Raises what reading METADATA raises."""
    metadata = {
        package.name: completed(reading.result(package, installed(package, request)), request)[0] for package in found
    }
    edges = holding(request, metadata)
    return Resolution(found, edges, asks_of(request, edges))


def in_own_addresses(found: Sequence[Found], proxy: IndexProxy) -> tuple[Found, ...]:
    """Give uv's answer with files at their own indexes' addresses, sources in place of stand-ins, and without packages
    of conda. Files of the shipped facts keep the proxy's address: they have no other."""

    def own(file: FoundFile) -> FoundFile:
        address = proxy.file(file.url)
        return file if address is None else found_file(address)

    return tuple(
        replace(package, files=tuple(map(own, package.files)))
        for package in found
        if not any(proxy.is_provided(file.url) for file in package.files)
    )


def refuse_sources(
    answers: Mapping[Request, Resolution], groups: Mapping[Request, tuple[str, ...]], static: StaticReader
) -> None:
    """Raise SourcesNeeded for all packages of all targets that are published only as source and may not be built."""
    needed: dict[NeededSource, list[str]] = {}
    for request, answer in answers.items():
        for package in answer.found:
            file = installed(package, request)
            if file is None or not is_source(package, file) or package.name in request.allow_source:
                continue
            facts = static.read(file, package.name, str(package.version))
            if stated_for(request.metadata, package.name, str(package.version)):
                facts = replace(facts, trust="static")
            one = needed_source(package.name, str(package.version), facts, request, answer.edges)
            needed.setdefault(one, []).extend(groups[request])
    if needed:
        raise SourcesNeeded(needed)


def tell_passed_over(
    over: Mapping[Request, Sequence[PassedOver]],
    groups: Mapping[Request, tuple[str, ...]],
    notice: Callable[[Finding], None],
) -> None:
    """Write one line for each release that was skipped because it has no wheel for a target."""
    told: dict[tuple[PassedOver, str], list[str]] = {}
    for request, several in over.items():
        glibc = f" with glibc {request.glibc or '2.28'}" if request.platform.startswith("linux-") else ""
        for one in several:
            told.setdefault((one, f"{request.platform}{glibc} and Python {request.python}"), []).extend(groups[request])
    for (one, target), names in told.items():
        notice(
            Finding(
                "info",
                "passed-over",
                f"{', '.join(names)}: {one.name} {one.newest} has wheels, but none for {target}: {one.taken} is locked",
            )
        )


def hint_about_pre_releases(conflict: Unsatisfiable, barred: Sequence[str]) -> str | None:
    """Give the conflict's hint. If pre-releases were barred because nothing asks for them, say how to admit them."""
    if not barred:
        return conflict.hint
    names = ", ".join(f'"{name}>=…a0"' for name in barred)
    return f"only a pre-release of {', '.join(barred)} fits; to take one, name it in the spec ({names})"


def labelled(error: EnvspecError, label: str) -> EnvspecError:
    """Prefix an error of one file or page with the targets that need it."""
    return error if error.message.startswith(label) else type(error)(f"{label}: {error.message}", hint=error.hint)
