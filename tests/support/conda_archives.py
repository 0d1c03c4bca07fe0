"""Conda packages made on the spot, a channel of them in a folder, and this machine's CPython as one of them."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from envspec.lock.model import Artifact, Pin

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
SITE = f"lib/python{PYTHON}/site-packages"


@dataclass(frozen=True)
class Link:
    """A symbolic link to `to`."""

    to: str


@dataclass(frozen=True)
class Archive:
    """One conda package, as a `.tar.bz2`, or as a `.conda` where `format` says so. `files` are its contents by path;
    those of `executable` may be run, and in those of `placeholders` the text given is replaced by the prefix when they
    are linked. `commands` are the entry points of a package for any Python."""

    name: str
    version: str
    build: str = "0"
    files: Mapping[str, bytes | Link] = field(default_factory=dict)
    depends: Sequence[str] = ()
    constrains: Sequence[str] = ()
    noarch: str | None = "generic"
    subdir: str = "noarch"
    executable: frozenset[str] = frozenset()
    placeholders: Mapping[str, str] = field(default_factory=dict)
    timestamp: int = 1_700_000_000_000
    format: str = "tar.bz2"
    commands: Sequence[str] = ()

    @property
    def file(self) -> str:
        return f"{self.name}-{self.version}-{self.build}.{self.format}"

    def index(self) -> dict[str, object]:
        """Its info/index.json."""
        number = self.build.rpartition("_")[2]
        return {
            "name": self.name,
            "version": self.version,
            "build": self.build,
            "build_number": int(number) if number.isdigit() else 0,
            "depends": list(self.depends),
            "constrains": list(self.constrains),
            "subdir": self.subdir,
            "license": "MIT",
            "timestamp": self.timestamp,
            **({"noarch": self.noarch} if self.noarch else {}),
        }

    def content(self) -> bytes:
        paths = [self._path(path, data) for path, data in self.files.items()]
        info: dict[str, bytes | Link] = {
            "info/index.json": json.dumps(self.index()).encode(),
            "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}).encode(),
            "info/files": "".join(f"{path}\n" for path in self.files).encode(),
        }
        if self.noarch == "python":
            noarch = {"type": "python", **({"entry_points": list(self.commands)} if self.commands else {})}
            info["info/link.json"] = json.dumps({"noarch": noarch, "package_metadata_version": 1}).encode()
        if self.format == "tar.bz2":
            return bz2.compress(self._tar({**info, **self.files}), 1)
        stem, packed = self.file.removesuffix(".conda"), io.BytesIO()
        with zipfile.ZipFile(packed, "w") as zipped:
            zipped.writestr("metadata.json", json.dumps({"conda_pkg_format_version": 2}))
            zipped.writestr(f"pkg-{stem}.tar.zst", zstandard.compress(self._tar(self.files)))
            zipped.writestr(f"info-{stem}.tar.zst", zstandard.compress(self._tar(info)))
        return packed.getvalue()

    def _tar(self, members: Mapping[str, bytes | Link]) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tarred:
            for path, data in members.items():
                entry = tarfile.TarInfo(path)
                if isinstance(data, Link):
                    entry.type, entry.linkname = tarfile.SYMTYPE, data.to
                    tarred.addfile(entry)
                    continue
                entry.size, entry.mode = len(data), 0o755 if path in self.executable else 0o644
                tarred.addfile(entry, io.BytesIO(data))
        return buffer.getvalue()

    def _path(self, path: str, data: bytes | Link) -> dict[str, object]:
        if isinstance(data, Link):
            return {
                "_path": path,
                "path_type": "softlink",
                "sha256": hashlib.sha256(b"").hexdigest(),
                "size_in_bytes": 0,
            }
        entry: dict[str, object] = {
            "_path": path,
            "path_type": "hardlink",
            "sha256": hashlib.sha256(data).hexdigest(),
            "size_in_bytes": len(data),
        }
        if path in self.placeholders:
            entry |= {"file_mode": "text", "prefix_placeholder": self.placeholders[path]}
        return entry


@dataclass
class Channel:
    """A channel in a folder, called like the folder."""

    folder: Path
    _records: dict[str, dict[str, dict[str, object]]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def path(self, archive: Archive) -> Path:
        return self.folder / archive.subdir / archive.file

    def add(self, *archives: Archive) -> Channel:
        """Put packages into the channel, and their records into its repodata."""
        for archive in archives:
            content = archive.content()
            path = self.path(archive)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            self._records.setdefault(archive.subdir, {})[archive.file] = {
                **archive.index(),
                "md5": hashlib.md5(content).hexdigest(),
                "sha256": hashlib.sha256(content).hexdigest(),
                "size": len(content),
            }
        for subdir in {*self._records, "noarch"}:
            records = self._records.get(subdir, {})
            packages, newer = (
                {file: record for file, record in records.items() if file.endswith(".conda") is conda}
                for conda in (False, True)
            )
            (self.folder / subdir).mkdir(parents=True, exist_ok=True)
            text = json.dumps({"info": {"subdir": subdir}, "packages": packages, "packages.conda": newer})
            (self.folder / subdir / "repodata.json").write_text(text, encoding="utf-8")
        return self

    def pin(self, archive: Archive, *, direct: bool = True) -> Pin:
        """The pin of a package that is in the channel."""
        content = self.path(archive).read_bytes()
        return Pin(
            kind="conda",
            name=archive.name,
            version=archive.version,
            build=archive.build,
            index=f"{self.folder.name}/{archive.subdir}",
            artifact=Artifact(
                archive.file, hashlib.sha256(content).hexdigest(), len(content), hashlib.md5(content).hexdigest()
            ),
            dependencies=tuple(archive.depends),
            direct=direct,
            licence="MIT",
        )


def data_package(name: str, version: str, text: str = "", **more: object) -> Archive:
    """A noarch package with one file, share/<name>.txt."""
    content = text or f"{name} {version}\n"
    return Archive(name, version, files={f"share/{name}.txt": content.encode()}, **more)  # type: ignore[arg-type]


def python_module(name: str, version: str, build: str = "py_0") -> Archive:
    """A noarch Python package with a module, a script of its own and the metadata that pip reads."""
    info = f"site-packages/{name}-{version}.dist-info"
    files: dict[str, bytes | Link] = {
        f"site-packages/{name}.py": f"version = {version!r}\n".encode(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/INSTALLER": b"conda\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"{name}.py,,\n{name}-{version}.dist-info/METADATA,,\n".encode(),
    }
    return Archive(name, version, build, files, depends=["python"], noarch="python")


def borrowed_python(subdir: str, version: str = f"{PYTHON}.0") -> Archive:
    """A package `python` that runs this machine's: a virtual environment of it, so tiny."""
    base = Path(sys.base_prefix) / "bin"
    minor = version.rpartition(".")[0]
    return Archive(
        "python",
        version,
        "0_cpython",
        {
            "pyvenv.cfg": f"home = {base}\ninclude-system-site-packages = false\nversion = {version}\n".encode(),
            f"bin/python{minor}": Link(str(base / f"python{PYTHON}")),
            "bin/python": Link(f"python{minor}"),
            f"lib/python{minor}/site-packages/README.txt": b"Packages go here.\n",
        },
        noarch=None,
        subdir=subdir,
    )


_LEFT_OUT = (
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "lib2to3",
    "ensurepip",
    "site-packages",
    "__pycache__",
)


def relocated_python(subdir: str) -> Archive:
    """A package `python` that holds this machine's CPython: the interpreter, its library where it has one, and the
    standard library. It finds its home from where it lies, so that it runs out of any prefix."""
    base = Path(sys.base_prefix)
    version = ".".join(map(str, sys.version_info[:3]))
    stdlib = Path(os.__file__).parent
    files: dict[str, bytes | Link] = {"bin/python": Link(f"python{PYTHON}")}
    interpreter = (base / "bin" / f"python{PYTHON}").resolve()
    files[f"bin/python{PYTHON}"] = interpreter.read_bytes()
    for path in sorted(stdlib.rglob("*")):
        parts = path.relative_to(stdlib).parts
        left_out = any(part in _LEFT_OUT or part.startswith("config-") for part in parts)
        if path.is_file() and not left_out and path.name != "EXTERNALLY-MANAGED" and path.suffix != ".pyc":
            files[f"lib/python{PYTHON}/{'/'.join(parts)}"] = path.read_bytes()
    files[f"{SITE}/README.txt"] = b"Packages go here.\n"
    for path in _own_libraries(interpreter, base):
        files[f"lib/{path.name}"] = path.read_bytes()
    return Archive(
        "python", version, "0_cpython", files, noarch=None, subdir=subdir, executable=frozenset({f"bin/python{PYTHON}"})
    )


def _own_libraries(interpreter: Path, base: Path) -> list[Path]:
    """The shared libraries of an interpreter that lie beside it (`lib/libpython3.12.so.1.0`)."""
    told = subprocess.run(["ldd", str(interpreter)], capture_output=True, text=True, check=False).stdout
    found = [Path(word) for word in told.split() if word.startswith("/")]
    return [path for path in found if path.parent == base / "lib"]
