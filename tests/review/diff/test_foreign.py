"""Other tools' files: read, compared with each other, and with envspec's own locks."""

import re
from pathlib import Path

import pytest
from diff_samples import base, sha
from foreign_reviews import FILES, FORMATS, Write, between, rows, write as write

from envspec.lock.formats.foreign.read import oldest_python, sides
from envspec.lock.formats.foreign.shape import index_name
from envspec.lock.formats.foreign.universal import holds
from envspec.lock.write import dumps
from envspec.packages.other_formats import format_of
from envspec.packages.requirement import canonical_name
from envspec.packages.tags import marker_environment
from envspec.review.diff.words import edges


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


@pytest.mark.slow
def test_rendered_files_say_what_their_lock_says(root: Path) -> None:
    """Every requirements.txt beside a shipped lock, against the lock: no pip package differs in its own target, but for
    one from git, of which the file has the commit and no version."""
    count = 0
    for lock in sorted((root / "locks").glob("*/envspec.lock")):
        for rendered in sorted(lock.parent.glob("*/requirements.txt")):
            found = between(lock, rendered)
            target = rendered.parent.name
            of_git = set(re.findall(r"^(\S+) @ git\+", rendered.read_text(encoding="utf-8"), re.MULTILINE))
            for row in (row for row in found.rows if row.name not in of_git):
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
        (
            "https://gitlab.example.org/api/v4/projects/1/packages/pypi/simple",
            "gitlab.example.org/api/v4/projects/1/packages/pypi/simple",
        ),
        (f"https://files.example.org/packages/aa/bb/{'0' * 60}/x-1.whl", "pypi"),
        ("https://get.example.org/whl/cu126", "pytorch/cu126"),
        ("https://get.example.org/whl/nightly/cpu/torch-2.whl", "pytorch/cpu"),
        ("https://user:secret@packages.example.org/simple", "packages.example.org/simple"),
    ],
)
def test_names_of_indexes(url: str | None, name: str) -> None:
    assert index_name(url) == name


def test_oldest_python() -> None:
    found = [oldest_python(text) for text in (">=3.10,<4", "^3.11", "<4", None, "~=3.9")]
    assert found == ["3.10", "3.11", None, None, "3.9"]


def test_names_are_canonical() -> None:
    for name in FORMATS:
        old, _ = sides(FILES / name, FILES / name)
        assert all(pin.name == canonical_name(pin.name) for t in old.lock for pin in t.pins if pin.kind == "pip")


def test_a_marker_compares_extras_however_they_are_written() -> None:
    variables = marker_environment("linux-64", "3.12")
    marker = "sys_platform == 'linux' and extra == 'extra-3-Foo_bar-a' and extra != 'other'"
    assert holds(marker, variables, frozenset({"extra-3-foo-bar-a", "unnamed"}))
    assert not holds(marker, variables, frozenset({"extra-3-foo-bar-a", "Other"}))
    assert not holds(marker, variables, frozenset({"unnamed"}))


def test_a_last_line_that_ends_in_a_backslash(write: Write) -> None:
    """And a comment that does: pip's parser reads both packages of each."""
    one, other = "six==1.17.0\n# why \\\nidna==3.10 \\", "six==1.17.0\nidna==3.10\n"
    assert not between(write("requirements.txt", one), write("other.txt", other))
    assert not between(write("requirements.txt", other), write("other.txt", one))


def test_requirements_that_come_and_go_are_rows_where_neither_file_pins(write: Write) -> None:
    files = write("old.txt", "flask\ngone\n"), write("new.txt", "flask\nflask-login\n")
    found = between(*files)
    assert rows(found) == {"flask-login": "new *", "gone": "* removed"}
    assert {row.name: row.risk for row in found.rows} == {"flask-login": "low", "gone": "medium"}


FORKED = """\
version = 1
revision = 3
requires-python = ">={python}"

[[package]]
name = "demo"
version = "0.1.0"
source = {{ virtual = "." }}
dependencies = [{{ name = "lib" }}, {{ name = "late", marker = "python_full_version >= '3.12'" }}]
[package.{groups}]
dev = [{{ name = "checker" }}]
{packages}"""
PACKAGE = """
[[package]]
name = "{}"
version = "{}"
source = {{ registry = "https://mirror.example.org/pypi/simple" }}
wheels = [{{ url = "https://files.example.org/{}-{}-py3-none-any.whl", hash = "sha256:{}" }}]
"""


def forked(versions: dict[str, str], python: str = "3.10", groups: str = "dev-dependencies") -> str:
    packages = "".join(PACKAGE.format(name, one, name, one, "0" * 64) for name, one in versions.items())
    return FORKED.format(python=python, groups=groups, packages=packages)


OLD = {"lib": "1.0", "late": "1.0", "checker": "1.0"}


def test_what_only_a_newer_python_gets_is_seen(write: Write) -> None:
    files = write("a/uv.lock", forked(OLD)), write("b/uv.lock", forked({**OLD, "late": "1.1"}))
    found = between(*files)
    assert rows(found) == {"late": "1.0 -> 1.1"}
    assert found.chosen[0].endswith("with Python 3.10, 3.12")


def test_groups_under_their_older_name_are_read(write: Write) -> None:
    new = forked({**OLD, "checker": "1.1"}, groups="dependency-groups")
    assert rows(between(write("a/uv.lock", forked(OLD)), write("b/uv.lock", new))) == {"checker": "1.0 -> 1.1"}


def test_a_file_for_an_older_python_says_so_and_what_goes_back_there(write: Write) -> None:
    new = forked({**OLD, "lib": "0.9"}, python="3.9")
    found = between(write("a/uv.lock", forked(OLD)), write("b/uv.lock", new))
    assert [(fact.risk, fact.message) for fact in found.settings] == [
        ("medium", "the oldest Python that the file is for: 3.10 -> 3.9")
    ]
    (row,) = found.rows
    assert (row.name, row.risk) == ("lib", "medium"), "the Python is the reason"
