"""The recordings in tests/data/recorded: unpacked as a channel, and served as the PyTorch indexes that they are of."""

import hashlib
import json
import lzma
from dataclasses import dataclass, field
from functools import cache
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from packaging.utils import canonicalize_name

from support.index import JSON, Answer, Index

RECORDED = Path(__file__).resolve().parents[1] / "data" / "recorded"


def read(path: str) -> Any:
    """The value of a packed file, by its path below the folder."""
    return json.loads(lzma.decompress((RECORDED / path).read_bytes()))


def unpack(folder: Path) -> None:
    """Lay out the recordings below a folder: `conda-forge/<subdir>/repodata.json`, a channel, and `gpu/`."""
    for packed in sorted((RECORDED / "conda-forge").glob("*.xz")):
        subdir = packed.name.partition(".")[0]
        name = "provenance.json" if subdir == "provenance" else f"{subdir}/repodata.json"
        path = folder / "conda-forge" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(lzma.decompress(packed.read_bytes()))
    (folder / "gpu").mkdir(exist_ok=True)
    (folder / "gpu" / "library_archs.json").write_bytes((RECORDED / "library_archs.json").read_bytes())


@cache
def pages() -> dict[str, Any]:
    """What the PyTorch indexes listed: {variant: {project: {version: {"files", "metadata"}}}}."""
    found: dict[str, Any] = read("pytorch-whl.json.xz")
    return found


@dataclass
class RecordedIndex(Index):
    """The recorded PyTorch indexes on loopback (PEP 503, 691, 658), below `whl`. For resolving: no wheel is there."""

    _metadata: dict[str, bytes] = field(default_factory=dict)

    @property
    def whl(self) -> str:
        """The URL that a variant's name is added to: `<whl>/cu126`."""
        return f"{self.origin}/whl"

    def answer(self, path: str) -> Answer:
        parts = [unquote(part) for part in path.split("?")[0].strip("/").split("/")]
        if len(parts) == 3 and parts[0] == "whl":
            listed: dict[str, str] = {canonicalize_name(name): name for name in pages().get(parts[1], ())}
            if parts[2] in listed:
                return self._recorded_page(parts[1], listed[parts[2]])
        text = self._metadata.get("/".join(parts).removesuffix(".metadata"))
        if text is not None and parts[-1].endswith(".metadata"):
            return Answer(200, text)
        return Answer(404, b"no such thing", "text/plain")

    def _recorded_page(self, variant: str, project: str) -> Answer:
        rows: list[dict[str, Any]] = []
        for version, release in pages()[variant][project].items():
            texts = [metadata(project, version, fields) for fields in release["metadata"]]
            for name, (sha256, number) in release["files"].items():
                self._metadata[f"files/{variant}/{name}"] = texts[number]
                row = {
                    "filename": name,
                    "url": f"/files/{variant}/{quote(name)}",
                    "hashes": {"sha256": sha256},
                    "core-metadata": {"sha256": hashlib.sha256(texts[number]).hexdigest()},
                }
                python = release["metadata"][number].get("requires_python")
                rows.append(row | ({"requires-python": python} if python else {}))
        if self.form == "json":
            page = {"meta": {"api-version": "1.0"}, "name": project, "files": rows}
            return Answer(200, json.dumps(page).encode(), JSON)
        anchors = (
            f'<a href="{row["url"]}#sha256={row["hashes"]["sha256"]}" '
            f'data-core-metadata="sha256={row["core-metadata"]["sha256"]}" '
            f'data-requires-python="{escape(row.get("requires-python", ""))}">{escape(row["filename"])}</a><br>'
            for row in rows
        )
        return Answer(200, f"<!DOCTYPE html><html><body>{''.join(anchors)}</body></html>".encode(), "text/html")


def metadata(project: str, version: str, fields: dict[str, Any]) -> bytes:
    """A METADATA with the recorded fields."""
    lines = ["Metadata-Version: 2.1", f"Name: {project}", f"Version: {version}"]
    if fields.get("requires_python"):
        lines.append(f"Requires-Python: {fields['requires_python']}")
    lines += [f"Requires-Dist: {one}" for one in fields.get("requires_dist", ())]
    lines += [f"Provides-Extra: {one}" for one in fields.get("provides_extra", ())]
    return "\n".join([*lines, "", ""]).encode()
