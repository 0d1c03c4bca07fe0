"""Sources that locking reads, and never builds or chooses: of each a small archive that says the same."""

import io
import tarfile
import zipfile
from collections.abc import Mapping

from envspec.artifacts.sdist.static_source import Content, SourceFacts, facts_of, read_content
from envspec.net.fetch import Stream
from envspec.resolve.uv.answer import FoundFile
from stacks.packed import release


def source_facts(file: str, content: bytes) -> SourceFacts:
    """Give what envspec reads of a source."""
    return _facts(file, _read(file, content))


def speaking_members(file: str, content: bytes) -> dict[str, str]:
    """Give the members of a source by which it says what it requires, and how it is built."""
    read = _read(file, content)
    facts = _facts(file, read)
    signs = [one for one in read.names if one == facts.compiles or ".egg-info/" in one]
    return {
        **dict.fromkeys(sorted(signs, key=lambda one: (one != facts.compiles, one))[:2], ""),
        **({"setup.py": "setup_requires"} if read.asks else {}),
        **read.texts,
    }


def archive_of(file: str, members: Mapping[str, str]) -> bytes:
    """Make a source of these members, the same bytes each time."""
    buffer = io.BytesIO()
    if file.endswith(".zip"):
        with zipfile.ZipFile(buffer, "w") as zipped:
            for path, text in members.items():
                zipped.writestr(zipfile.ZipInfo(f"source/{path}"), text)
    else:
        with tarfile.open(fileobj=buffer, mode="w") as tarred:
            for path, text in members.items():
                entry = tarfile.TarInfo(f"source/{path}")
                entry.size = len(text.encode())
                tarred.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def _facts(file: str, read: Content) -> SourceFacts:
    name, version = release(file)
    return facts_of(read, name, version, None)


def _read(file: str, content: bytes) -> Content:
    return read_content(FoundFile("", file, None, None), Stream(file, len(content), iter([content])))
