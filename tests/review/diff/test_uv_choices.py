"""Extras, groups and forks of universal files: what is chosen, what that means, and that uv itself means the same."""

import re
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace
from packaging.requirements import Requirement
from support.uv_locks import Shape, uv_lock, write_project

from envspec.base.errors import InputError
from envspec.lock.formats.foreign.read import sides
from envspec.lock.formats.foreign.selection import NO_WISH, Choice, Offers, Wish, forks
from envspec.packages.tags import marker_environment
from envspec.review.diff.review import review

LINUX = ("linux-64",)


def pins(path: Path, wish: Wish = NO_WISH) -> dict[str, set[str]]:
    """What is installed in each target of a file, as NAME==VERSION."""
    old, _ = sides(path, path, wish)
    return {target.name: {f"{pin.name}=={pin.version}" for pin in target.pins} for target in old.lock}


def exported(folder: Path, platform: str, python: str, *options: str) -> set[str]:
    """What uv itself installs with these options, by its own export."""
    from uv import find_uv_bin

    command = [find_uv_bin(), "export", "--frozen", "--offline", "--no-hashes", "--no-header", "--no-annotate"]
    done = subprocess.run(
        [*command, "--no-emit-project", *options], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    variables = {**marker_environment(platform, python), "extra": ""}
    lines = map(Requirement, filter(None, map(str.strip, done.stdout.splitlines())))
    return {f"{r.name}{r.specifier}" for r in lines if r.marker is None or r.marker.evaluate(variables)}


CHOICES = {
    "defaults": ((), Wish(default_groups=True, extras=(), groups=("dev",))),
    "no groups": (("--no-default-groups",), Wish(default_groups=False)),
    "cu12": (("--extra", "cu12"), Wish(extras=("cu12",))),
    "cu13 and all": (("--extra", "cu13", "--extra", "all"), Wish(extras=("cu13", "all"))),
    "a group": (("--group", "docs"), Wish(groups=("docs",))),
    "all groups": (("--all-groups", "--extra", "viz"), Wish(all_groups=True, extras=("viz",))),
}


@pytest.mark.by_day(12)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("platform", ["linux-64", "win-64"])
@pytest.mark.parametrize("python", ["3.11", "3.13"])
def test_uv_installs_the_same(choice: str, platform: str, python: str, tmp_path: Path) -> None:
    path = write_project(tmp_path)
    options, wish = CHOICES[choice]
    (found,) = pins(path, replace(wish, platforms=(platform,), python=python)).values()
    assert found == exported(tmp_path, platform, python, *options)


def test_every_choice_is_in_a_fork_and_none_has_a_conflict(tmp_path: Path) -> None:
    found = pins(write_project(tmp_path), Wish(platforms=LINUX))
    assert set(found) == {"linux-64 cu12", "linux-64 cu13"}
    assert {"shared==12.0", "core-cu12==1.0", "plot==1.0", "pages==1.0"} < found["linux-64 cu12"]
    assert {"shared==13.0", "core-cu13==1.0", "plot==1.0", "checker==1.0"} < found["linux-64 cu13"]


def test_a_marker_that_says_nothing_new_is_no_change(tmp_path: Path) -> None:
    old, new = write_project(tmp_path / "old"), write_project(tmp_path / "new", Shape(marked=True))
    assert not review(*sides(old, new))
    assert not review(*sides(old, new, Wish(extras=("cu12",))))


def test_a_change_is_seen_in_the_fork_that_it_is_of(tmp_path: Path) -> None:
    old, new = write_project(tmp_path / "old"), write_project(tmp_path / "new", Shape(core="1.1"))
    (row,) = review(*sides(old, new, Wish(platforms=LINUX))).rows
    assert row.name == "core-cu12" and row.moves[0].targets == ("linux-64 cu12",)
    assert not review(*sides(old, new, Wish(extras=("cu13",)))), "nobody asked for it"


def test_sides_may_choose_differently(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    found = review(*sides(path, path, Wish(extras=("old:cu12", "new:cu13"), platforms=LINUX)))
    assert {row.name: row.moves[0].action for row in found.rows} == {
        "core-cu12": "removed",
        "core-cu13": "added",
        "deep": "removed",
        "shared": "changed",
    }
    assert found.chosen[1:] == (
        "old with extra cu12 (of 4), group dev (of 2)",
        "new with extra cu13 (of 4), group dev (of 2)",
    )


def test_an_extra_that_only_one_side_has(tmp_path: Path) -> None:
    old, new = write_project(tmp_path / "old", Shape(viz=False)), write_project(tmp_path / "new")
    found = review(*sides(old, new, Wish(extras=("viz",), platforms=LINUX)))
    assert {row.name for row in found.rows} == {"plot"}
    assert {row.name for row in review(*sides(old, new)).rows} == {"plot"}
    with pytest.raises(InputError, match="the old file has no extra called viz"):
        sides(old, new, Wish(extras=("old:viz",)))


def test_against_other_files_it_is_what_uv_installs_unasked(tmp_path: Path) -> None:
    path = write_project(tmp_path)
    text = "base==1.0\nnum==1.0\nchecker==1.0\n"
    # of two that are universal, everything counts; a list for one platform is compared with what uv sync gives there
    yaml = "version: 1\nmetadata: {}\npackage:\n" + "".join(
        f"- {{name: {line.split('==')[0]}, version: '{line.split('==')[1]}', manager: pip, platform: linux-64}}\n"
        for line in text.split()
    )
    other = tmp_path / "conda-lock.yml"
    other.write_text(yaml, encoding="utf-8")
    found = review(*sides(path, other))
    assert not [row.name for row in found.rows if row.moves[0].action != "changed"]
    assert found.chosen == ("old with no extra of 4, group dev (of 2)",)
    found = review(*sides(path, other, Wish(extras=("viz",), default_groups=False)))
    assert {"plot", "checker"} <= {row.name for row in found.rows}


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish(all_extras=True), "extra cu12 and extra cu13 of the old file can't be installed together"),
        (Wish(extras=("cu12", "cu13")), "can't be installed together"),
        (Wish(extras=("cu14",)), "the files have no extra called cu14"),
        (Wish(extras=("both:cu12",)), '"both" isn\'t a side'),
        (Wish(groups=("new:nope",)), "the new file has no group called nope"),
        (Wish(packages=("other",)), "the files have no package called other"),
    ],
)
def test_wishes_that_can_not_be_met(wish: Wish, message: str, tmp_path: Path) -> None:
    path = write_project(tmp_path)
    with pytest.raises(InputError) as caught:
        sides(path, path, wish)
    assert message in str(caught.value) and caught.value.hint


def test_places_are_chosen_only_where_no_file_has_its_own(tmp_path: Path, root: Path) -> None:
    path = write_project(tmp_path)
    lock = sorted((root / "locks").glob("*/envspec.lock"))[0]
    for wish in (Wish(python="3.12"), Wish(platforms=LINUX)):
        with pytest.raises(InputError, match="has its own targets"):
            sides(path, lock, wish)
    with pytest.raises(InputError, match="neither file has extras or groups"):
        sides(lock, lock, Wish(extras=("x",)))


def test_members_of_a_workspace(tmp_path: Path) -> None:
    text = (
        uv_lock() + '\n[[package]]\nname = "member"\nversion = "0"\nsource = { editable = "member" }\n'
        'dependencies = [{ name = "pages" }]\n'
    )
    text = text.replace("[[package]]", '[manifest]\nmembers = ["project", "member"]\n\n[[package]]', 1)
    path = tmp_path / "uv.lock"
    path.write_text(text, encoding="utf-8")
    (found,) = pins(path, Wish(packages=("member",), platforms=LINUX)).values()
    assert found == {"pages==1.0"}
    (found,) = pins(path, Wish(default_groups=False, platforms=LINUX)).values()
    assert {"pages==1.0", "base==1.0"} <= found


def test_a_script_asks_by_its_manifest(tmp_path: Path) -> None:
    text = (
        uv_lock()
        .replace('source = { virtual = "." }', "")
        .replace("[[package]]", '[manifest]\nrequirements = [{ name = "plot", specifier = ">=1" }]\n\n[[package]]', 1)
    )
    path = tmp_path / "script.py.lock"
    path.write_text(text, encoding="utf-8")
    (found,) = pins(path, Wish(platforms=LINUX)).values()
    assert found == {"plot==1.0"}


POETRY = """\
# This file is automatically @generated by Poetry 2.5.1 and should not be changed by hand.
[[package]]
name = "a"
version = "1"
optional = false
groups = ["main", "dev"]
files = []
[[package]]
name = "b"
version = "1"
optional = true
groups = ["main"]
markers = "extra == \\"viz\\""
files = []
[[package]]
name = "c"
version = "1"
optional = false
groups = ["dev"]
files = []
[[package]]
name = "d"
version = "1"
optional = false
groups = ["docs", "dev"]
files = []
[package.markers]
docs = "sys_platform == \\"win32\\""
dev = "sys_platform == \\"linux\\""
[[package]]
name = "e"
version = "1"
optional = true
files = []
[extras]
old = ["e"]
viz = ["b"]
[metadata]
lock-version = "2.1"
python-versions = ">=3.10"
"""
"""By hand, after the format's description. Package e is as lock-version 2.0 has optional ones: without a marker."""

PYLOCK = """\
lock-version = "1.0"
created-by = "x"
extras = ["viz"]
dependency-groups = ["docs"]
default-groups = ["project"]
""" + "".join(
    f'[[packages]]\nname = "{name}"\nversion = "1"\nmarker = "{marker}"\n'
    f'sdist = {{ url = "https://example.org/{name}-1.tar.gz", hashes = {{ sha256 = "{"0" * 64}" }} }}\n'
    for name, marker in {
        "a": "'project' in dependency_groups",
        "b": "'viz' in extras",
        "c": "'docs' in dependency_groups and 'viz' not in extras",
    }.items()
)


@pytest.mark.parametrize(
    ("name", "text", "wish", "expected"),
    [
        ("poetry.lock", POETRY, Wish(default_groups=False), "a"),
        ("poetry.lock", POETRY, Wish(groups=("dev",), default_groups=False), "acd"),
        ("poetry.lock", POETRY, Wish(groups=("docs",), extras=("viz",), default_groups=False), "ab"),
        ("poetry.lock", POETRY, Wish(extras=("old",)), "acde"),
        ("poetry.lock", POETRY, NO_WISH, "abcde"),
        ("pylock.toml", PYLOCK, Wish(extras=("viz",)), "ab"),
        ("pylock.toml", PYLOCK, Wish(groups=("docs",)), "ac"),
        ("pylock.toml", PYLOCK, Wish(default_groups=False), ""),
        ("pylock.toml", PYLOCK, NO_WISH, "ab"),
    ],
)
def test_other_universal_formats(name: str, text: str, wish: Wish, expected: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    (found,) = pins(path, replace(wish, platforms=LINUX)).values()
    assert "".join(sorted(pin[0] for pin in found)) == expected


def test_forks_are_few() -> None:
    def extras(*listed: str) -> frozenset[Choice]:
        return frozenset(Choice("extra", name) for name in listed)

    offers = Offers(
        ("cu12", "cu13", "x12", "x13", "viz", "both"),
        conflicts=(extras("cu12", "cu13"), extras("x12", "x13")),
        implied={Choice("extra", "both"): extras("cu13")},
    )
    assert [fork.fork for fork in forks([offers])] == ["cu12+x12", "cu13+x13+both"]
    assert all("viz" in fork.extras for fork in forks([offers]))
    assert [fork.fork for fork in forks([Offers(("a", "b"))])] == [""]
    three = Offers(("a", "b", "c"), conflicts=(extras("a", "b", "c"),))
    assert [fork.fork for fork in forks([Offers(("a", "b")), three])] == ["a", "b", "c"]


def test_what_was_chosen_is_said_in_every_format(tmp_path: Path) -> None:
    from envspec.review.diff.documents import as_json, html
    from envspec.review.diff.markdown import markdown
    from envspec.review.diff.text import text

    path = write_project(tmp_path)
    found = review(*sides(path, path, Wish(extras=("cu12",), platforms=LINUX)))
    assert found.chosen == ("looked at on linux-64 with Python 3.11", "both with extra cu12 (of 4), group dev (of 2)")
    for page in (text(found), html(found), re.sub(r"&#(\d+);", lambda m: chr(int(m[1])), markdown(found))):
        assert "extra cu12 (of 4), group dev (of 2)" in page
    assert as_json(found)["chosen"] == list(found.chosen)
