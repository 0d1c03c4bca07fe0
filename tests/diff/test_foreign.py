"""Other tools' files: read, compared with each other, and with envspec's own locks."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from diff_samples import base, sha

from envspec.diff.foreign.names import channel_name, conda_file, index_name
from envspec.diff.foreign.read import format_of, oldest_python, sides
from envspec.diff.review import review
from envspec.diff.rows import Review
from envspec.diff.words import edges, versions
from envspec.errors import InputError
from envspec.lock.write import dumps
from envspec.packages.requirement import canonical_name

FILES = Path(__file__).parent / "foreign"

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text, encoding="utf-8")
        return path

    return to


def between(old: Path, new: Path) -> Review:
    return review(*sides(old, new))


def rows(found: Review) -> dict[str, str]:
    return {row.name: "; ".join(versions(move) for move in row.moves) for row in found.rows}


FORMATS = {
    "old.uv.lock": "uv_lock",
    "new.uv.lock": "uv_lock",
    "pylock.toml": "pylock",
    "uv.requirements.txt": "requirements",
    "pip-compile.requirements.txt": "requirements",
    "requirements.in": "requirements",
    "poetry.lock": "poetry_lock",
    "old.conda-lock.yml": "conda_lock",
    "old.pixi.lock": "pixi_lock",
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_told_by_what_is_in_it(name: str) -> None:
    text = (FILES / name).read_text(encoding="utf-8")
    assert format_of(name, text) == FORMATS[name]
    if FORMATS[name] != "requirements":
        assert format_of("fd", text) == FORMATS[name]


def test_envspecs_own_files(root: Path) -> None:
    folder = next(path for path in sorted((root / "locks").iterdir()) if (path / "envspec.lock").is_file())
    lock = folder / "envspec.lock"
    assert format_of("envspec.lock", lock.read_text(encoding="utf-8")) == "envspec"
    assert format_of("x", dumps(base())) == "envspec"


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_does_not_differ_from_itself(name: str) -> None:
    assert not between(FILES / name, FILES / name)


def test_uv_lock_is_read_whole() -> None:
    """Every package of the file that some platform installs, in its version; by a reading of its own."""
    text = (FILES / "new.uv.lock").read_text(encoding="utf-8")
    listed = set(re.findall(r'^name = "([^"]+)"\nversion = "([^"]+)"\nsource = \{ registry', text, re.MULTILINE))
    (old, _) = sides(FILES / "new.uv.lock", FILES / "new.uv.lock")
    found = {(pin.name, pin.version) for target in old.lock for pin in target.pins}
    assert {target.name for target in old.lock} == {"linux-64", "osx-arm64", "win-64"}
    assert found < listed
    # what is left is for newer Pythons than the 3.10 that the file starts at
    assert {name for name, _ in listed} - {name for name, _ in found} <= {"ipython-pygments-lexers", "psutil"}
    linux = next(target for target in old.lock if target.name == "linux-64")
    assert linux.pin("colorama") is None and linux.pin("pexpect") is not None
    assert linux.pin("socksio") is not None, "an extra that was asked for"
    assert linux.pin("pytest") is not None, "a dependency group"


def test_uv_lock_against_uv_lock() -> None:
    found = between(FILES / "old.uv.lock", FILES / "new.uv.lock")
    assert rows(found)["click"] == "8.2.1 -> 8.4.2"
    row = next(row for row in found.rows if row.name == "anyio")
    assert (row.direct, row.via, row.moves[0].drops) == (False, ("httpx",), ("sniffio",))
    assert next(row for row in found.rows if row.name == "click").direct is True


def test_the_same_solution_in_two_formats_does_not_differ() -> None:
    assert not between(FILES / "uv.requirements.txt", FILES / "pylock.toml")
    assert not between(FILES / "pylock.toml", FILES / "uv.requirements.txt")
    # uv.lock has pytest's packages on top
    found = between(FILES / "pylock.toml", FILES / "old.uv.lock")
    assert set(rows(found)) == {"iniconfig", "packaging", "pluggy", "pytest", "tomli"}


def test_what_was_asked_for_against_what_was_locked() -> None:
    assert not between(FILES / "requirements.in", FILES / "old.uv.lock")


def test_poetry_lock() -> None:
    found = between(FILES / "old.uv.lock", FILES / "poetry.lock")
    assert rows(found)["click"] == "8.2.1 -> 8.5.1"
    assert rows(found)["pytest"].endswith("removed")
    assert not any("colorama" in row.name for row in found.rows), "only Windows has it, on both sides"


def test_conda_lock_and_pixi_lock() -> None:
    for name in ("conda-lock.yml", "pixi.lock"):
        found = between(FILES / f"old.{name}", FILES / f"new.{name}")
        assert rows(found)["openssl"] == "1.1.1w -> 3.6.3; 1.1.1w -> 3.6.3"
        assert rows(found)["tzdata"] == "2023c -> 2026c"
        assert rows(found)["anyio"] == "4.9.0 -> 4.16.0"
    assert rows(between(FILES / "old.conda-lock.yml", FILES / "old.pixi.lock")) == {"ffmpeg": "new 4.3.2; new 4.4.2"}


def test_rendered_files_say_what_their_lock_says(root: Path) -> None:
    """Every requirements.txt beside a shipped lock, against the lock: no pip package differs in its own target."""
    count = 0
    for lock in sorted((root / "locks").glob("*/envspec.lock")):
        for rendered in sorted(lock.parent.glob("*/requirements.txt")):
            found = between(lock, rendered)
            target = rendered.parent.name
            for row in found.rows:
                for move in row.moves if row.kind == "pip" else ():
                    assert target not in (move.targets or (target,)), (rendered, row.name)
            count += 1
    assert count


def test_a_lock_against_requirements(write: Write) -> None:
    lock = write("envspec.lock", dumps(base()))
    pins = "".join(
        f"{pin.name}=={pin.version} --hash=sha256:{pin.artifact.sha256}\n"
        for pin in base().targets[1].pins
        if pin.kind == "pip" and pin.artifact
    )
    same = between(lock, write("requirements.txt", pins))
    assert all(
        "hopper" not in (move.targets or ("hopper",))
        for row in same.rows
        for move in row.moves
        if row.kind == "pip" and row.name != "clip"
    )
    moved = between(lock, write("other.txt", pins.replace("lib==2.5.1", "lib==2.6.0")))
    assert rows(moved)["lib"] == "2.5.1 -> 2.6.0"


def test_a_changed_hash_is_shouted_across_formats(write: Write) -> None:
    line = "lib==1.0 --hash=sha256:{} \\\n    --hash=sha256:{}\n"
    old = write("a.txt", line.format(sha("1"), sha("2")))
    assert not between(old, write("b.txt", line.format(sha("2"), sha("3")))), "files came and went, one is the same"
    (shout,) = between(old, write("c.txt", line.format(sha("3"), sha("4")))).shouted
    assert shout[0].name == "lib"
    uv = (FILES / "old.uv.lock").read_text(encoding="utf-8")
    wheel = re.search(r'click-8.2.1-py3-none-any.whl", hash = "sha256:(\w+)"', uv)
    assert wheel
    evil = write("uv.lock", uv.replace(wheel[1], sha("evil")))
    assert [row.name for row, _ in between(FILES / "old.uv.lock", evil).shouted] == ["click"]
    assert [row.name for row, _ in between(FILES / "pylock.toml", evil).shouted] == ["click"]


EXPLICIT = """\
# platform: linux-64
@EXPLICIT
https://user:secret@channels.example.org/t/tk/conda-forge/linux-64/openssl-3.5.0-h1_0.conda#{md5}
https://channels.example.org/conda-forge/noarch/tzdata-2025b-h1_0.tar.bz2#sha256:{sha}
# pip lib @ https://files.example.org/simple/lib/lib-2.5.1-py3-none-any.whl#sha256={sha}
"""


def test_explicit_lists(write: Write) -> None:
    old = write("a.txt", EXPLICIT.format(md5="0" * 32, sha=sha("1")))
    assert not between(old, old)
    new = write("b.txt", EXPLICIT.format(md5="1" * 32, sha=sha("1")).replace("2025b", "2025c"))
    found = between(old, new)
    assert rows(found) == {"openssl": "3.5.0", "tzdata": "2025b -> 2025c"}
    assert [row.name for row, _ in found.shouted] == ["openssl"], "an MD5 tells it, too"


ENVIRONMENT = """\
name: x
channels: [conda-forge]
dependencies:
  - python=3.12
  - conda-forge::ffmpeg 7.*
  - openssl
  - pip
  - pip:
    - lib>=2,<3
    - app==1.4.2
"""


def test_environment_yml_against_a_lock(write: Write) -> None:
    """It names a part of what gets installed: only where the lock answers otherwise, something changed."""
    lock = write("envspec.lock", dumps(base()))
    found = between(write("environment.yml", ENVIRONMENT), lock)
    assert set(rows(found)) == {"python", "pip"}
    found = between(write("environment.yml", ENVIRONMENT.replace("<3", "<2.5").replace("7.*", "6.*")), lock)
    assert {name: rows(found)[name] for name in ("lib", "ffmpeg")} == {
        "lib": ">=2,<2.5 -> 2.5.1",
        "ffmpeg": "6.* -> 7.1.0",
    }


def test_an_exported_environment_is_whole(write: Write) -> None:
    exported = "name: x\ndependencies:\n  - ffmpeg=7.1.0=gpl_h1_0\n  - zlib=1.3=h0_0\n"
    found = between(
        write("environment.yml", exported),
        write("b.yml", exported.replace("  - zlib=1.3=h0_0\n", "").replace("7.1.0", "7.1.1")),
    )
    assert rows(found) == {"ffmpeg": "7.1.0 -> 7.1.1", "zlib": "1.3 removed"}


PIXI_5 = """\
version: 5
environments:
  default:
    packages:
      linux-64:
      - conda: https://channels.example.org/conda-forge/linux-64/openssl-3.5.0-h1_0.conda
  test:
    packages:
      linux-64:
      - conda: https://channels.example.org/conda-forge/linux-64/openssl-3.5.0-h1_0.conda
      - pypi: https://files.example.org/x/lib-2.5.1-py3-none-any.whl
      - pypi: ./here
packages:
- kind: conda
  name: openssl
  version: 3.5.0
  build: h1_0
  subdir: linux-64
  url: https://channels.example.org/conda-forge/linux-64/openssl-3.5.0-h1_0.conda
  sha256: "{sha}"
  depends: ["ca-certificates"]
  license: Apache-2.0
- kind: pypi
  name: lib
  version: 2.5.1
  url: https://files.example.org/x/lib-2.5.1-py3-none-any.whl
  sha256: "{sha}"
"""
"""By hand, after the format's description: nothing here writes this version any more."""


def test_pixi_lock_of_version_5(write: Write) -> None:
    text = PIXI_5.format(sha=sha("1"))
    found = between(
        write("a.lock", text),
        write("b.lock", text.replace("lib-2.5.1", "lib-2.5.2").replace("version: 2.5.1", "version: 2.5.2")),
    )
    assert rows(found) == {"lib": "2.5.1 -> 2.5.2"}
    assert found.rows[0].moves[0].targets == ("test/linux-64",)


UV_FORKS = """\
version = 1
requires-python = ">=3.10"
[[package]]
name = "project"
version = "0"
source = { editable = "." }
dependencies = [
    { name = "numpy", version = "1.0", source = { registry = "x" }, marker = "sys_platform == 'win32'" },
    { name = "numpy", version = "2.0", source = { registry = "x" }, marker = "sys_platform != 'win32'" },
    { name = "c", marker = "extra == 'never'" },
]
[[package]]
name = "numpy"
version = "1.0"
source = { registry = "https://pypi.example.org/simple" }
resolution-markers = ["sys_platform == 'win32'"]
[[package]]
name = "numpy"
version = "2.0"
source = { registry = "https://pypi.example.org/simple" }
resolution-markers = ["sys_platform == 'linux'", "sys_platform == 'darwin'"]
[[package]]
name = "c"
version = "1"
source = { git = "https://user:secret@git.example.org/c?rev=v1#0123" }
"""


def test_pixi_lock_with_several_environments_against_a_lock(write: Write) -> None:
    """The environment that is called like the target, else `default`, and the title says so."""
    lock, text = write("envspec.lock", dumps(base())), PIXI_5.format(sha=sha("1"))
    found = between(write("a.lock", text), lock)
    assert found.old_title.endswith("a.lock (its environment default)") and found.went == ("test/linux-64",)
    assert not found.came and rows(found)["openssl"] == "3.5.0"
    found = between(lock, write("b.lock", text.replace("  test:", "  hopper:")))
    assert found.new_title.endswith("b.lock (its environment default)") and not found.came and not found.went
    assert any(move.targets == ("cpu", "volta") for row in found.rows if row.name == "lib" for move in row.moves)
    with pytest.raises(InputError, match=r"several environments for linux-64: first, test") as caught:
        between(write("c.lock", text.replace("  default:", "  first:")), lock)
    assert "(cpu)" in str(caught.value.hint)


EDITABLE = """\
-e .
-e ./sub[dev]
--editable=file:///home/x/y#egg=y
-e git+https://user:secret@git.example.org/c.git@0123456#egg=clip&subdirectory=x ; python_version > "3.9"
-e git+https://git.example.org/w@0123456#egg=windows ; sys_platform == "win32"
-e "foo @ git+https://git.example.org/f@fedcba9"
a==1
"""


def test_editable_requirements(write: Write) -> None:
    """Those of git are read; folders of the machine are left out, as in every format."""
    (old, _) = sides(write("a.txt", EDITABLE), FILES / "old.pixi.lock")
    linux = next(t for t in old.lock if t.inputs.platform == "linux-64")
    found = {pin.name: pin.git and (pin.git.url, pin.git.commit, pin.git.subdirectory) for pin in linux.pins}
    assert found == {
        "a": None,
        "clip": ("https://git.example.org/c.git", "0123456", "x"),
        "foo": ("https://git.example.org/f", "fedcba9", None),
    }


@pytest.mark.parametrize("name", FORMATS)
def test_windows_files_are_the_same_files(name: str, tmp_path: Path) -> None:
    """A byte order mark, and lines that end in CR LF."""
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + (FILES / name).read_bytes().replace(b"\n", b"\r\n"))
    assert not between(path, FILES / name)


def test_a_lock_of_envspec_on_windows(tmp_path: Path, write: Write) -> None:
    path = tmp_path / "windows.lock"
    path.write_bytes(b"\xef\xbb\xbf" + dumps(base()).replace("\n", "\r\n").encode())
    assert not between(path, write("envspec.lock", dumps(base())))


def test_forks_of_uv_lock(write: Write) -> None:
    old, _ = sides(write("uv.lock", UV_FORKS), write("b.lock", UV_FORKS))
    found = {t.name: [(p.name, p.version) for p in t.pins] for t in old.lock}
    assert found == {"linux-64": [("numpy", "2.0")], "osx-arm64": [("numpy", "2.0")], "win-64": [("numpy", "1.0")]}


def test_requirements_are_those_of_each_target(write: Write) -> None:
    """uv.lock keeps the markers: the same change of the file is another one on Windows."""
    package = '[[package]]\nname = "{}"\nversion = "1"\nsource = {{ registry = "https://pypi.example.org/simple" }}\n'
    project = 'version = 1\nrequires-python = ">=3.10"\n[[package]]\nname = "project"\nversion = "0"\n'
    project += 'source = { editable = "." }\ndependencies = [{ name = "a" }, { name = "c" }]\n'
    old = project + "".join(map(package.format, "ca"))
    new = old + """dependencies = [{ name = "c", marker = "sys_platform == 'win32'" }]\n"""
    (row,) = between(write("uv.lock", old), write("b.lock", new)).rows
    (move,) = row.moves
    assert list(edges(move)) == ["needs c now"]
    assert move.targets == ("win-64",), "the others need nothing else than before"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (None, "pypi"),
        ("https://pypi.example.org/simple", "pypi"),
        ("https://mirror.example.org/pypi/simple/", "pypi"),
        (f"https://files.example.org/packages/aa/bb/{'0' * 60}/x-1.whl", "pypi"),
        ("https://get.example.org/whl/cu126", "pytorch/cu126"),
        ("https://get.example.org/whl/nightly/cpu/torch-2.whl", "pytorch/cpu"),
        ("https://user:secret@packages.example.org/simple", "packages.example.org/simple"),
    ],
)
def test_names_of_indexes(url: str | None, name: str) -> None:
    assert index_name(url) == name


def test_names_of_conda_files() -> None:
    assert channel_name("https://x.example.org/t/token/conda-forge/linux-64/a-1-0.conda") == "conda-forge/linux-64"
    assert conda_file("py-opencv-4.1-h1_0.tar.bz2") == ("py-opencv", "4.1", "h1_0")


def test_oldest_python() -> None:
    found = [oldest_python(text) for text in (">=3.10,<4", "^3.11", "<4", None, "~=3.9")]
    assert found == ["3.10", "3.11", None, None, "3.9"]


BAD = {
    "uv.lock": ('version = 1\nrequires-python = ">=3.10"\npackage = 1\n', "package must be a list"),
    "b.lock": ('version = 1\n[[package]]\nversion = "1"\n', "name must be a string"),
    "c.lock": ("version = 1\n[[package]]\nname = \n", "this is not TOML"),
    "poetry.lock": ("# This file is automatically @generated by Poetry\n[[package]]\nname = 'x'\n", "the version of x"),
    "pylock.toml": (
        "lock-version = '1.0'\ncreated-by = 'x'\n[[packages]]\nname = 'x'\nmarker = '((('\n",
        "packages[0].marker: Expected a marker variable",
    ),
    "conda-lock.yml": ("version: 1\nmetadata: {}\npackage:\n- name: x\n", "version must be a string"),
    "pixi.lock": ("version: 6\nenvironments:\n  default: []\npackages: []\n", "default must be a table"),
    "d.yml": ("dependencies: [\n", "this is not YAML"),
    "e.yml": ("dependencies: {}\n", "dependencies must be a list"),
    "explicit.txt": ("@EXPLICIT\nhttps://example.org/x\n", "line 2: 'x' is no conda package"),
    "requirements.txt": ("a==1\n\n-r other.txt\n", "line 3: '-r other.txt' names another file"),
    "j.txt": ("a==1\n-rother.txt\n", "line 2: '-rother.txt' names another file"),
    "k.txt": ("-c bounds.txt\na\n", "line 1: '-c bounds.txt' names another file"),
    "l.txt": ("--constraint=bounds.txt\n", "names another file"),
    "m.txt": ("-e git+https://user:secret@git.example.org/c\n", "'git+https://git.example.org/c' names no package"),
    "n.lock": (
        'version = 1\nrequires-python = ">=3.10"\n[[package]]\nname = "x"\nversion = "1"\n'
        'source = { registry = "http://[::1/simple" }\n',
        "Invalid IPv6 URL",
    ),
    "o.txt": ("@EXPLICIT\nhttp://[::1/linux-64/openssl-3.5.0-h1_0.conda\n", "Invalid IPv6 URL"),
    "f.txt": ("what is this\n", "line 1: 'what is this' is no requirement"),
    "g.yml": ("a: b\n", "no format that envspec reads"),
    "h.toml": ('[env]\nname = "x"\n', "this is a spec"),
    "envspec.lock": ("lock-version = 1\ndigest = 1\n", "edited by hand"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files(name: str, write: Write) -> None:
    text, message = BAD[name]
    path = write(name, text)
    for files in ((path, FILES / "pylock.toml"), (FILES / "pylock.toml", path)):
        with pytest.raises(InputError) as caught:
            between(*files)
        assert message in str(caught.value) and str(path) in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    binary = tmp_path / "x.txt"
    binary.write_bytes(b"\xff\x00")
    for path, message in ((tmp_path / "none", "no such file"), (tmp_path, "a folder"), (binary, "not UTF-8")):
        with pytest.raises(InputError, match=message):
            sides(path, path)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("share", [0.3, 0.61, 0.95])
def test_a_cut_file_is_an_answer_or_an_error(name: str, share: float, write: Write) -> None:
    text = (FILES / name).read_text(encoding="utf-8")
    path = write(name, text[: int(len(text) * share)])
    # anything but this, such as a reader's own Malformed, fails the test
    with suppress(InputError):
        between(path, FILES / name)


def test_names_are_canonical() -> None:
    for name in FORMATS:
        old, _ = sides(FILES / name, FILES / name)
        assert all(pin.name == canonical_name(pin.name) for t in old.lock for pin in t.pins if pin.kind == "pip")
