"""Wheels and source distributions made on the spot: small, real, with the METADATA and RECORD that standards want."""

import base64
import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

_EPOCH = (1980, 1, 1, 0, 0, 0)


class Dist(Struct, frozen=True):
    """One file of an index. `metadata` is the wheel's METADATA, None for a source distribution."""

    name: str
    version: str
    file: str
    content: bytes
    metadata: bytes | None
    requires_python: str | None = None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def metadata_text(
    name: str,
    version: str,
    requires: Sequence[str] = (),
    *,
    extras: Sequence[str] = (),
    requires_python: str | None = None,
    licence: str | None = "MIT",
    dynamic: Sequence[str] = (),
    metadata_version: str = "2.4",
) -> str:
    lines = [f"Metadata-Version: {metadata_version}", f"Name: {name}", f"Version: {version}"]
    lines += [f"License-Expression: {licence}"] if licence else []
    lines += [f"Requires-Python: {requires_python}"] if requires_python else []
    lines += [f"Dynamic: {field}" for field in dynamic]
    lines += [f"Requires-Dist: {requirement}" for requirement in requires]
    lines += [f"Provides-Extra: {extra}" for extra in extras]
    return "\n".join(lines) + "\n\nMade for a test.\n"


def wheel(
    name: str,
    version: str,
    *requires: str,
    tag: str = "py3-none-any",
    extras: Sequence[str] = (),
    requires_python: str | None = None,
    licence: str | None = "MIT",
    padding: int = 0,
    files: Mapping[str, bytes] | None = None,
) -> Dist:
    """A wheel that installs one module, and `files`. `padding` adds that many bytes that don't compress."""
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    metadata = metadata_text(
        name, version, requires, extras=extras, requires_python=requires_python, licence=licence
    ).encode()
    members = {f"{stem}.py": f"version = {version!r}\n".encode(), f"{info}/METADATA": metadata}
    if padding:
        members[f"{stem}.bin"] = _noise(padding)
    members.update(files or {})
    members[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n".encode()
    record = (
        "".join(f"{path},{_record_hash(data)},{len(data)}\n" for path, data in members.items()) + f"{info}/RECORD,,\n"
    )
    members[f"{info}/RECORD"] = record.encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in members.items():
            noise = bool(padding) and path == f"{stem}.bin"  # is not worth the time that pressing takes
            archive.writestr(zipfile.ZipInfo(path, _EPOCH), data, zipfile.ZIP_STORED if noise else None)
    return Dist(name, version, f"{stem}-{version}-{tag}.whl", buffer.getvalue(), metadata, requires_python)


def packed_anew(made: Dist) -> Dist:
    """Pack the files of a wheel, as real ones are; those of `wheel` lie there plainly."""
    packed = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(made.content)) as plain,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for info in plain.infolist():
            archive.writestr(zipfile.ZipInfo(info.filename, _EPOCH), plain.read(info), zipfile.ZIP_DEFLATED, 1)
    return replace(made, content=packed.getvalue())


_BACKEND = """\
import base64, hashlib, os, zipfile
NAME, VERSION, REQUIRES, WITNESS = {name!r}, {version!r}, {requires!r}, {witness!r}
STEM = NAME.replace("-", "_")
INFO = f"{{STEM}}-{{VERSION}}.dist-info"
METADATA = "\\n".join(["Metadata-Version: 2.1", f"Name: {{NAME}}", f"Version: {{VERSION}}", "License: MIT",
                      *(f"Requires-Dist: {{r}}" for r in REQUIRES)]) + "\\n\\n"
if WITNESS:
    with open(WITNESS, "a") as file:
        file.write(NAME + "\\n")

def prepare_metadata_for_build_wheel(folder, config_settings=None):
    os.makedirs(os.path.join(folder, INFO))
    with open(os.path.join(folder, INFO, "METADATA"), "w") as file:
        file.write(METADATA)
    return INFO

def build_wheel(folder, config_settings=None, metadata_directory=None):
    file = f"{{STEM}}-{{VERSION}}-py3-none-any.whl"
    tags = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    members = {{f"{{STEM}}.py": "", f"{{INFO}}/METADATA": METADATA, f"{{INFO}}/WHEEL": tags}}
    def digest(text):
        return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
    record = "".join(f"{{p}},sha256={{digest(t)}},{{len(t)}}\\n" for p, t in members.items())
    with zipfile.ZipFile(os.path.join(folder, file), "w") as archive:
        for path, text in {{**members, f"{{INFO}}/RECORD": record}}.items():
            archive.writestr(path, text)
    return file

def build_sdist(folder, config_settings=None):
    raise NotImplementedError
"""


def source_files(name: str, version: str, requires: Sequence[str] = (), *, witness: str = "") -> dict[str, str]:
    """A project that builds with the backend it brings along, so without any index.

    `witness` is a file that each start of the backend writes the project's name to: whether its code ran can be seen.
    """
    return {
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
        "backend.py": _BACKEND.format(name=name, version=version, requires=list(requires), witness=witness),
    }


def sdist(
    name: str,
    version: str,
    *requires: str,
    static: bool = True,
    witness: str = "",
    files: Mapping[str, str] | None = None,
) -> Dist:
    """A source distribution. `static`: its PKG-INFO binds the dependencies (PEP 643); else its backend alone does."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = metadata_text(name, version, requires) if static else metadata_text(name, version, dynamic=["Requires-Dist"])
    members = {"PKG-INFO": info, **source_files(name, version, requires, witness=witness), **(files or {})}
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for path, text in members.items():
            entry = tarfile.TarInfo(f"{stem}/{path}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return Dist(name, version, f"{stem}.tar.gz", buffer.getvalue(), None)


def _record_hash(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _noise(length: int) -> bytes:
    return hashlib.shake_128(b"padding").digest(length)


def with_members(dist: Dist, name: str, size: int, count: int = 1) -> Dist:
    """A wheel with more members in it: so many, each of so many zeros."""
    buffer = io.BytesIO(dist.content)
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for number in range(count):
            archive.writestr(f"{name}{number}", bytes(size))
    return replace(dist, content=buffer.getvalue())


ASKING = (
    source_files("src", "1.0")["backend.py"]
    + """
import importlib.metadata

def get_requires_for_build_wheel(config_settings=None):
    return ["asked>=1"]

_plain = build_wheel
def build_wheel(folder, *given):
    seen = sorted(f"{one.metadata['Name']} {one.version}" for one in importlib.metadata.distributions())
    with open(os.environ["WITNESS"], "a") as file:
        file.write(", ".join(seen) + "\\n")
    return _plain(folder, *given)
"""
)
"""A backend of "src" that asks for one more requirement, and writes what its build sees to the file WITNESS names."""
