"""A small conda channel on disk: records as a channel's repodata.json has them, without packages behind them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct


class Record(Struct, frozen=True):
    """One record. `timestamp` is in milliseconds since 1970."""

    name: str
    version: str
    build: str = "0"
    depends: tuple[str, ...] = ()
    subdir: str = "linux-64"
    number: int = 0
    constrains: tuple[str, ...] = ()
    timestamp: int | None = 1_700_000_000_000
    purls: tuple[str, ...] = ()
    hashed: bool = True

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}-{self.build}.conda"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(f"{self.subdir}/{self.file}".encode()).hexdigest()

    def entry(self) -> dict[str, object]:
        entry: dict[str, object] = {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": self.number,
            "depends": list(self.depends),
            "constrains": list(self.constrains),
            "subdir": self.subdir,
            "size": 1000,
            "license": "MIT",
        }
        if self.hashed:
            entry |= {"sha256": self.sha256, "md5": self.sha256[:32]}
        if self.timestamp is not None:
            entry["timestamp"] = self.timestamp
        if self.purls:
            entry["purls"] = list(self.purls)
        return entry


@dataclass(frozen=True)
class LocalChannel:
    """A channel's folder, which `file://` or any web server can serve."""

    folder: Path
    subdirs: tuple[str, ...] = ("linux-64", "linux-aarch64", "noarch")
    records: list[Record] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def write(self, records: Iterable[Record]) -> LocalChannel:
        """Write the channel anew, with these records."""
        self.records[:] = records
        for subdir in self.subdirs:
            own = {record.file: record.entry() for record in self.records if record.subdir == subdir}
            target = self.folder / subdir / "repodata.json"
            target.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps({"info": {"subdir": subdir}, "packages": {}, "packages.conda": own})
            target.write_text(text, encoding="utf-8")
        return self


def pythons(*versions: str, subdir: str = "linux-64") -> list[Record]:
    """CPython records with what they bring, as conda-forge has them."""
    found = []
    for version in versions:
        minor = ".".join(version.split(".")[:2])
        found.append(Record("python", version, "0_cpython", subdir=subdir))
        found.append(Record("python_abi", minor, f"8_cp{minor.replace('.', '')}", (f"python {minor}.*",), "noarch"))
    found.append(Record("pip", "26.2", "pyh_0", ("python >=3.10",), "noarch"))
    return found


def cuda_versions(*versions: str) -> list[Record]:
    """conda-forge's `cuda-version`."""
    return [
        Record("cuda-version", version, "h_3", (), "noarch", constrains=(f"__cuda >={version.split('.')[0]}",))
        for version in versions
    ]
