"""Bases for images: OCI layouts of a few files, with Debian's list of packages."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PASSWD = "root:x:0:0:root:/:/bin/bash\nwww-data:x:33:33:www:/var/www:/usr/sbin/nologin\n"
GROUP = "root:x:0:\nusers:x:100:\n"
SHADOW = "root:*:19000:0:99999:7:::\n"
PACKAGES = {"ca-certificates": "1", "g++": "4:12", "libc6": "2.36-9+deb12u7", "tini": "0.19"}


def status(packages: Mapping[str, str]) -> str:
    """dpkg's list of these packages, name -> version."""
    return "".join(
        f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n\n" for name, version in packages.items()
    )


def system(
    python: str | None = None, packages: Mapping[str, str] = PACKAGES, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The files of a small Debian, by path; with a Python of this version and its headers."""
    files = {
        "etc/passwd": PASSWD,
        "etc/group": GROUP,
        "etc/shadow": SHADOW,
        "etc/skel/.profile": "# profile\n",
        "var/lib/dpkg/status": status(packages),
    }
    if python:
        files |= {f"usr/bin/python{python}": "an interpreter", f"usr/include/python{python}/Python.h": ""}
    return files | dict(more or {})


def layer(files: Mapping[str, str | bytes], links: Mapping[str, str] | None = None) -> bytes:
    """A layer's tar with these files, and links with their targets."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(path)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for path, target in (links or {}).items():
            info = tarfile.TarInfo(path)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return buffer.getvalue()


def write_base(folder: Path, *layers: Mapping[str, str | bytes] | bytes, machine: str = "amd64", **config: Any) -> Path:
    """An OCI layout of an image with these layers, from the bottom: files, or the bytes of a tar."""
    tars = [one if isinstance(one, bytes) else layer(one) for one in layers]
    rows = [add_blob(folder, gzip.compress(tar, mtime=0), "layer.v1.tar+gzip") for tar in tars]
    document = {
        "os": "linux",
        "architecture": machine,
        "config": {"Env": ["PATH=/bin", "FROM_BASE=1", "PYTHONPATH=/of/base"], "Cmd": ["bash"], **config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(tar).hexdigest()}" for tar in tars]},
        "history": [{"created_by": "a test"}],
    }
    return write_layout(folder, add_blob(folder, json.dumps(document).encode(), "config.v1+json"), rows)


def write_layout(folder: Path, config: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Path:
    """The layout of an image with this configuration and these layers, by their descriptors."""
    manifest = {"schemaVersion": 2, "mediaType": _kind("manifest.v1+json"), "config": config, "layers": list(rows)}
    top = add_blob(folder, json.dumps(manifest).encode(), "manifest.v1+json")
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [top]}), encoding="utf-8")
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
    return folder


def write_index(folder: Path, layouts: Mapping[str, Path]) -> Path:
    """One layout of several images: machine ("arm64") -> the layout of its image."""
    rows = []
    for machine, layout in layouts.items():
        (top,) = json.loads((layout / "index.json").read_bytes())["manifests"]
        rows.append({**top, "platform": {"os": "linux", "architecture": machine}})
        for path in (layout / "blobs" / "sha256").iterdir():
            add_blob(folder, path.read_bytes(), "")
    index = add_blob(folder, json.dumps({"schemaVersion": 2, "manifests": rows}).encode(), "index.v1+json")
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}), encoding="utf-8")
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
    return folder


def _kind(kind: str) -> str:
    return f"application/vnd.oci.image.{kind}"


def add_blob(folder: Path, content: bytes, kind: str) -> dict[str, Any]:
    """Put a blob of this kind into a layout. Gives its descriptor."""
    digest = hashlib.sha256(content).hexdigest()
    place = folder / "blobs" / "sha256" / digest
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return {"mediaType": _kind(kind), "digest": f"sha256:{digest}", "size": len(content)}


def documents(layout: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The manifest and the configuration of a layout's one image."""
    (top,) = json.loads((layout / "index.json").read_bytes())["manifests"]
    manifest = json.loads(blob(layout, top["digest"]))
    return manifest, json.loads(blob(layout, manifest["config"]["digest"]))


def blob(layout: Path, digest: str) -> bytes:
    return (layout / "blobs" / "sha256" / digest.removeprefix("sha256:")).read_bytes()


def members(layout: Path, name: str) -> dict[str, tarfile.TarInfo]:
    """The entries of an image's own layer, by its name."""
    with opened(layout, name) as archive:
        return {member.name: member for member in archive.getmembers()}


def opened(layout: Path, name: str) -> tarfile.TarFile:
    """An image's own layer as a tar, by its name."""
    import zstandard

    manifest, _ = documents(layout)
    (row,) = (row for row in manifest["layers"] if row.get("annotations", {}).get("envspec.layer") == name)
    packed = blob(layout, row["digest"])
    plain = (
        gzip.decompress(packed)
        if row["mediaType"].endswith("gzip")
        else zstandard.ZstdDecompressor().decompressobj().decompress(packed)
    )
    return tarfile.open(fileobj=io.BytesIO(plain))


def text(layout: Path, name: str, path: str) -> str:
    """The text of a file in an image's own layer."""
    with opened(layout, name) as archive:
        file = archive.extractfile(path)
        assert file is not None, path
        return file.read().decode()


def carried_folder(layout: Path, folder: Path) -> Path:
    """The carried files as they lie in a container: of all layers."""
    for name in [row["annotations"]["envspec.layer"] for row in documents(layout)[0]["layers"][1:]]:
        with opened(layout, name) as archive:
            for member in archive.getmembers():
                if member.isfile() and member.name.startswith("opt/envspec/"):
                    place = folder / member.name.removeprefix("opt/envspec/")
                    place.parent.mkdir(parents=True, exist_ok=True)
                    place.write_text(text(layout, name, member.name))
    return folder
