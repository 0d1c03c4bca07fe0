"""Requests of conda resolutions. A request has everything that decides one, and nothing else.

Targets with equal requests are solved once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from envspec.base.documents import read_json
from envspec.base.errors import IndexFailure
from envspec.base.redact import without_credentials
from envspec.base.texts import UNSEEN, printable, without_unseen
from envspec.facts import virtual_packages as facts
from envspec.lock.inputs import implied_match_specs
from envspec.lock.model import Artifact, Pin, SpecInputs, TargetInputs
from envspec.packages.conda import BuildRecord, pypi_names
from envspec.packages.names import conda_name

if TYPE_CHECKING:
    from rattler import RepoDataRecord


class CondaRequest(Struct, frozen=True):
    """One conda resolution.

    platform       the target's subdir ("linux-64"); noarch packages come besides
    python         X.Y: becomes the match spec `python X.Y.*`
    specs          the spec's match specs (`envspec.packages.names.normalise_match_spec`)
    channels       the spec's channels, the most important one first
    constraints    match specs that bound a package without asking for it
    glibc          the target's glibc, None off Linux
    cuda           the CUDA version the target asks for ("12.8"), None for a CPU target
    driver         the driver on its machines, None where the target names none
    architectures  compute capabilities of its GPUs ("sm_90"), the lowest first
    cpu            the oldest processor ("x86-64-v3"), None for any of the platform
    with_pip       the target has a pip half, so conda installs pip as well, as every conda tool expects
    exclude_newer  RFC 3339, or None
    python_range   the spec's bound on Python beside X.Y, a specifier, or None
    """

    platform: str
    python: str
    specs: tuple[str, ...]
    channels: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    glibc: str | None = None
    cuda: str | None = None
    driver: str | None = None
    architectures: tuple[str, ...] = ()
    cpu: str | None = None
    with_pip: bool = False
    exclude_newer: str | None = None
    python_range: str | None = None

    @property
    def solved_specs(self) -> tuple[str, ...]:
        """The solver's match specs: the spec's own, its Python, and pip if it is needed."""
        return (*self.specs, *implied_match_specs(self.python, with_pip=self.with_pip, bound=self.python_range))

    @property
    def names(self) -> tuple[str, ...]:
        """The packages that the spec asks for by name."""
        return tuple(dict.fromkeys(conda_name(spec) for spec in self.specs))


def conda_request_for(
    spec: SpecInputs, target: TargetInputs, architectures: tuple[str, ...], constraints: Iterable[str] = ()
) -> CondaRequest:
    """Make the request of one target."""
    return CondaRequest(
        platform=target.platform,
        python=target.python,
        specs=target.conda_requirements,
        channels=spec.channels,
        constraints=tuple(constraints),
        glibc=target.glibc,
        cuda=target.cuda,
        driver=target.driver,
        architectures=architectures,
        cpu=target.cpu,
        with_pip=bool(target.requirements),
        exclude_newer=spec.exclude_newer,
        python_range=target.python_range,
    )


def virtual_packages(request: CondaRequest) -> tuple[tuple[str, str, str], ...]:
    """Make the virtual packages of a request's target, as (name, version, build)."""
    return facts.virtual_packages(
        request.platform,
        glibc=request.glibc,
        cuda=request.cuda,
        driver=request.driver,
        architectures=request.architectures,
        cpu=request.cpu,
    )


# rattler's records turned into builds for the rules (`BuildRecord`) and pins for a lock (`Pin`).


def build_of(record: RepoDataRecord) -> BuildRecord:
    return BuildRecord(
        name=record.name.normalized,
        version=str(record.version),
        string=str(record.build),
        number=record.build_number,
        subdir=record.subdir,
        depends=tuple(record.depends),
    )


def best_of_each(records: Iterable[RepoDataRecord], python: str) -> list[RepoDataRecord]:
    """Choose one record a package: the newest of several builds that this Python runs, the first of equal ones."""
    best: dict[str, tuple[bool, int, RepoDataRecord]] = {}
    for record in records:
        build = build_of(record)
        ranked = (build.runs_on_python(python), build.number, record)
        if build.name not in best or ranked[:2] > best[build.name][:2]:
            best[build.name] = ranked
    return [record for *_, record in best.values()]


def pins_of_records(
    records: Mapping[BuildRecord, RepoDataRecord], channels: Mapping[str, str], direct: Iterable[str]
) -> tuple[Pin, ...]:
    """Make the pins of a solution. `channels` maps every channel's bare URL to its name in the lock; `direct` has the
    packages that the spec asks for by name.

    Raises IndexFailure for a record without a hash.
    """
    named = frozenset(direct)
    return tuple(_pin(build, record, channels, build.name in named) for build, record in records.items())


def _pin(build: BuildRecord, record: RepoDataRecord, channels: Mapping[str, str], direct: bool) -> Pin:
    if record.sha256 is None:
        hint = "ask whoever runs the channel to index it again: a lock needs the hash"
        raise IndexFailure(f"the channel has no sha256 for {record.file_name}", hint=hint)
    for depend in build.depends:
        if UNSEEN.search(depend):
            message = f"{record.file_name} depends on {printable(depend)!r}, which a lock can't hold"
            raise IndexFailure(message, hint="report this to whoever runs the channel")
    return Pin(
        kind="conda",
        name=build.name,
        version=build.version,
        build=build.string,
        index=f"{channels[without_credentials(record.channel).rstrip('/')]}/{build.subdir}",
        artifact=Artifact(
            file=record.file_name,
            sha256=record.sha256.hex(),
            size=record.size,
            md5=record.md5.hex() if record.md5 else None,
        ),
        dependencies=tuple(sorted(set(build.depends))),
        direct=direct,
        licence=without_unseen(record.license) or None if record.license else None,
        provides=pypi_names(build.name, build.depends, _purls(record)),
    )


def _purls(record: RepoDataRecord) -> tuple[str, ...]:
    """Read a record's purls from its JSON: py-rattler has no accessor for them."""
    text = record.to_json()
    return tuple(read_json(text).get("purls") or ()) if '"purls"' in text else ()
