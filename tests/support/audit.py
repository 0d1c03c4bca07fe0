"""A package index that also has PyPI's JSON of releases, with vulnerabilities; and packages to audit."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envspec.lock.model import Artifact
from envspec.review.audit.model import AuditedPackage, PublishedRelease
from support.index import Answer, Index


@dataclass
class Pypi(Index):
    """`releases` are the JSON documents by (name, version); `database` False has none, as a mirror of files."""

    releases: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    database: bool = True

    def know(self, name: str, version: str, *vulnerabilities: Mapping[str, Any]) -> None:
        self.releases[name, version] = document(name, version, *vulnerabilities)

    def answer(self, path: str) -> Answer:
        parts = path.split("?")[0].strip("/").split("/")
        if len(parts) == 4 and parts[0] == "pypi" and parts[3] == "json":
            found = self.releases.get((parts[1], parts[2])) if self.database else None
            if found is not None:
                return Answer(200, json.dumps(found).encode(), "application/json")
            return Answer(404, b'{"message": "Not Found"}', "application/json")
        return super().answer(path)


def document(name: str, version: str, *vulnerabilities: Mapping[str, Any]) -> dict[str, Any]:
    """PyPI's JSON of a release, as far as it matters, without files."""
    return {
        "info": {"name": name, "version": version, "yanked": False, "license_expression": "MIT"},
        "last_serial": 1,
        "urls": [],
        "vulnerabilities": list(vulnerabilities),
    }


def vulnerability(
    identifier: str, *aliases: str, fixed: tuple[str, ...] = (), withdrawn: str | None = None, text: str = "Bad things."
) -> dict[str, Any]:
    """One of PyPI's `vulnerabilities`."""
    return {
        "aliases": list(aliases),
        "details": text,
        "fixed_in": list(fixed),
        "id": identifier,
        "link": f"https://example.org/{identifier}",
        "source": "osv",
        "summary": None,
        "withdrawn": withdrawn,
    }


def package(name: str, version: str = "1.0", **fields: Any) -> AuditedPackage:
    """A wheel of PyPI's in one target."""
    artifact = Artifact(f"{name}-{version}-py3-none-any.whl", "0" * 64, 10)
    given: dict[str, Any] = {
        "targets": ("cpu",),
        "files": (artifact,),
        "licence": "MIT",
        "release": PublishedRelease(name, version),
        **fields,
    }
    return AuditedPackage(given.pop("kind", "pip"), name, version, given.pop("index", "pypi"), **given)
