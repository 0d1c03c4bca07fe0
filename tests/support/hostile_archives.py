"""Conda packages that no tool would build: members of any name and type, and a paths.json that says what it likes."""

import bz2
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from support.conda_archives import Archive


@dataclass(frozen=True)
class Member:
    """A member: a file with `data` unless `kind` is another of tarfile's types; `to` is a link's target."""

    name: str
    data: bytes = b""
    kind: bytes = tarfile.REGTYPE
    to: str = ""
    mode: int = 0o644


def link(name: str, to: str) -> Member:
    return Member(name, kind=tarfile.SYMTYPE, to=to)


@dataclass(frozen=True)
class Forged(Archive):
    """A package with these members. paths.json lists `listed` (path → its type), every member as it is unless given;
    `info` are more files of info/, `fields` more fields of index.json."""

    members: Sequence[Member] = ()
    listed: Mapping[str, str] | None = None
    info: Mapping[str, bytes] = field(default_factory=dict)
    fields: Mapping[str, object] = field(default_factory=dict)

    def content(self) -> bytes:
        info = [Member(name, data) for name, data in self.info_files().items()]
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for member in [*info, *self.members]:
                entry = tarfile.TarInfo(member.name)
                entry.type, entry.linkname, entry.mode = member.kind, member.to, member.mode
                entry.size = len(member.data)
                tar.addfile(entry, io.BytesIO(member.data))
        return bz2.compress(buffer.getvalue(), 1)

    def info_files(self) -> dict[str, bytes]:
        kinds = {tarfile.SYMTYPE: "softlink", tarfile.DIRTYPE: "directory"}
        listed = self.listed
        if listed is None:
            listed = {member.name: kinds.get(member.kind, "hardlink") for member in self.members}
        data = {member.name: member.data for member in self.members}
        paths = [
            {
                "_path": path,
                "path_type": kind,
                "sha256": hashlib.sha256(data.get(path, b"")).hexdigest(),
                "size_in_bytes": len(data.get(path, b"")),
            }
            for path, kind in listed.items()
        ]
        return {
            "info/index.json": json.dumps({**self.index(), **self.fields}).encode(),
            "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}).encode(),
            **self.info,
        }

    def unpack(self, folder: Path) -> Path:
        """Lay the package out in a folder, as a cache has it; links and files alone."""
        for name, data in self.info_files().items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        for member in self.members:
            path = folder / member.name
            path.parent.mkdir(parents=True, exist_ok=True)
            if member.kind == tarfile.SYMTYPE:
                path.symlink_to(member.to)
            elif member.kind == tarfile.DIRTYPE:
                path.mkdir(exist_ok=True)
            else:
                path.write_bytes(member.data)
        return folder


def link_json(*entry_points: str) -> dict[str, bytes]:
    """The info/link.json of a package for any Python."""
    content = {"noarch": {"type": "python", "entry_points": entry_points}, "package_metadata_version": 1}
    return {"info/link.json": json.dumps(content).encode()}
