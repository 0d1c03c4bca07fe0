"""Paths of conda's packages and of wheels together: what `lock` tells of them, and the requests that this costs."""

import hashlib
import io
import re
import shutil
import tarfile
from pathlib import Path

import pytest
from support.conda_archives import SITE, Archive, Channel, Link, borrowed_python, python_module
from support.index import Fault, Index, hanging, other_bytes, status, truncated
from support.installs import PYTHON, SUBDIR
from support.machine import Machine
from support.packages import Dist, wheel

from envspec.artifacts import conda_archives as archives

CONDA = Archive(
    "lib-native",
    "1.0",
    files={
        f"{SITE}/native/__init__.py": b"who = 'conda'\n",
        f"{SITE}/native/same.py": b"same\n",
        "bin/native": b"#!/bin/sh\necho conda\n",
        "lib/libnative.so": bytes(range(256)) * 4096,
        "lib/libnative.so.1": Link("libnative.so"),
    },
    depends=["python >=3.8", "data"],
    noarch=None,
    subdir=SUBDIR,
    format="conda",
)
NOARCH = Archive(
    "native-py",
    "1.0",
    files={"site-packages/native/__init__.py": b"who = 'noarch'\n", "python-scripts/native": b"a script\n"},
    depends=["python"],
    noarch="python",
    commands=["run-native = native.main:run", "other-native = native.main:other"],
    format="conda",
)
DATA = Archive("data", "1.0", files={"share/data.txt": b"text"}, format="conda")
WHEEL = wheel(
    "native-tools",
    "1.0",
    files={
        "native/__init__.py": b"who = 'pip'  # and longer\n",
        "native/same.py": b"same\n",
        "native_tools-1.0.data/scripts/native": b"#!/bin/sh\necho the one of pip\n",
        "native_tools-1.0.dist-info/entry_points.txt": (
            b"[console_scripts]\nrun-native = native.main:run\nother-native = native.main:that\n"
        ),
    },
)
OLDER = Archive("lib-older", "1.0", files=CONDA.files, depends=["python"], noarch=None, subdir=SUBDIR)
MODULES = (
    "warning: native/__init__.py and 1 more are in lib-native from conda and native-tools, with different content: "
    "native-tools's stays"
)
SPEC = f"""\
[env]
python = "{PYTHON}"
[pip]
dependencies = {{pip}}
{{more}}
[conda]
channels = ["{{channel}}"]
dependencies = ["python", "{{conda}}"]
[targets.here]
platform = "{SUBDIR}"
glibc = "2.17"
"""


def like(archive: Archive, **changes: object) -> Archive:
    return Archive(**{**vars(archive), **changes})


@pytest.fixture
def channel(index: Index, tmp_path: Path) -> Channel:
    index.folder = tmp_path / "served"
    return Channel(index.folder / "own").add(
        borrowed_python(SUBDIR), like(python_module("pip", "25.0"), format="conda"), DATA
    )


def lock(
    machine: Machine, index: Index, conda: str, *arguments: str, made: Dist | None = WHEEL, more: str = "", at: str = ""
) -> list[str]:
    """Lock a wheel beside a conda package, and give what `lock` tells without the place."""
    if made is not None:
        index.add(made)
    pip = [made.name] if made else []
    machine.spec(SPEC.format(pip=pip, conda=conda, channel=at or f"{index.origin}/files/own", more=more))
    ran = machine.envspec("lock", "specs/demo.toml", *arguments, status=0)
    lines = re.findall(r"^(warning|note): specs/demo.toml:[0-9:]+ here: (.*)", ran.err, re.MULTILINE)
    return [f"{kind}: {message}" for kind, message in lines]


def asked(index: Index) -> list[tuple[str, str | None]]:
    """Give the requests for archives but pip's, which conda's Python brings."""
    archives = [one for one in index.asked if re.search(r"/(?!pip-|repodata)[^/]+\.(?:conda|bz2)$", one.path)]
    return [(one.path.rpartition("/")[2], one.range) for one in archives]


@pytest.mark.slow
def test_one_range_of_an_archive_tells_what_a_wheel_overwrites(
    machine: Machine, index: Index, channel: Channel
) -> None:
    channel.add(CONDA)
    assert lock(machine, index, "lib-native") == [MODULES]
    # neither of python, which depends on none, nor of data
    assert asked(index) == [(CONDA.file, "bytes=-65536")]
    assert lock(machine, index, "lib-native", "--upgrade") == [MODULES]
    other = wheel("other-tools", "1.0", files={"native/__init__.py": b"who = 'other'\n"})
    (told,) = lock(machine, index, "lib-native", made=other)
    assert told.startswith("warning: native/__init__.py is in lib-native from conda and other-tools, ")
    accept = 'accept = { same-modules = "the wheel is newer" }'
    assert lock(machine, index, "lib-native", "--upgrade", more=accept) == [
        f"{MODULES.replace('warning', 'note')}; accepted [same-modules]: the wheel is newer"
    ]
    assert len(asked(index)) == 1


def test_a_package_for_any_python_has_its_modules_where_the_wheel_has_them(
    machine: Machine, index: Index, channel: Channel
) -> None:
    channel.add(NOARCH)
    (told,) = lock(machine, index, "native-py")
    # the module, the script and the command that runs something else; not the command that runs the same
    assert told.startswith("warning: native/__init__.py and 2 more are in native-py from conda and native-tools, ")


def test_without_modules_it_is_a_note(machine: Machine, index: Index, channel: Channel) -> None:
    files = {path: content for path, content in CONDA.files.items() if not path.startswith(SITE)}
    channel.add(like(CONDA, files=files))
    said = "bin/native is in lib-native from conda and native-tools, with different content: native-tools's stays"
    assert lock(machine, index, "lib-native") == [f"note: {said}"]


def test_without_wheels_nothing_is_asked(machine: Machine, index: Index, channel: Channel) -> None:
    channel.add(CONDA)
    assert lock(machine, index, "lib-native", made=None) == []
    assert asked(index) == []


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (status(404), "404 Not Found"),
        (truncated, "can't be read"),
        (other_bytes, "can't be read"),
        (hanging, "didn't come within 0.2 s"),
    ],
)
def test_a_lock_is_made_without_what_a_channel_doesnt_give(
    machine: Machine, index: Index, channel: Channel, monkeypatch: pytest.MonkeyPatch, fault: Fault, why: str
) -> None:
    channel.add(CONDA)
    index.fail(r"\.conda$", fault)
    with monkeypatch.context() as patch:
        patch.setattr(archives, "_SECONDS", 0.2)
        (told,) = lock(machine, index, "lib-native")
    assert told.startswith("note: the paths of lib-native from conda, pip from conda aren't compared") and why in told
    (told,) = lock(machine, index, "lib-native", "--upgrade", "--offline")
    assert told.endswith(": envspec is offline")
    index.heal()
    assert lock(machine, index, "lib-native", "--upgrade") == [MODULES]


@pytest.mark.slow
def test_no_archive_is_fetched_whole(machine: Machine, index: Index, channel: Channel) -> None:
    """One of the older format is read where it lies unpacked in the cache, or on disk."""
    channel.add(CONDA, OLDER)
    (told,) = lock(machine, index, "lib-older")
    assert told.startswith("note: the paths of lib-older from conda aren't compared") and "older format" in told
    folder = machine.cache / archives.CONDA_CACHE / "lib-older-1.0-0"
    with tarfile.open(fileobj=io.BytesIO(OLDER.content())) as unpacked:
        unpacked.extractall(folder, filter="data")
    archives.mark_of(folder).write_bytes(bytes(8) + hashlib.sha256(OLDER.content()).digest())
    by_cache = lock(machine, index, "lib-older", "--upgrade")
    shutil.rmtree(folder)
    assert by_cache == lock(machine, index, "lib-older", at=channel.url) == [MODULES.replace("lib-native", "lib-older")]
    assert asked(index) == []
    index.ranges = False
    (told,) = lock(machine, index, "lib-native")
    assert told.endswith("the server does not support sparse package access")
    assert asked(index) == [(CONDA.file, "bytes=-65536")]
