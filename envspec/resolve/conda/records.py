"""rattler's records turned into builds for the rules (`BuildRecord`) and pins for a lock (`Pin`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from envspec.base.documents import read_json
from envspec.base.errors import IndexFailure
from envspec.base.redact import without_credentials
from envspec.base.texts import UNSEEN, printable, without_unseen
from envspec.lock.model import Artifact, Pin
from envspec.packages.conda import BuildRecord, pypi_names

if TYPE_CHECKING:
    from rattler import RepoDataRecord


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
        raise IndexFailure(
            f"the channel has no sha256 for {record.file_name}",
            hint="ask whoever runs the channel to index it again: a lock needs the hash",
        )
    for depend in build.depends:
        if UNSEEN.search(depend):
            raise IndexFailure(
                f"{record.file_name} depends on {printable(depend)!r}, which a lock can't hold",
                hint="report this to whoever runs the channel",
            )
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
