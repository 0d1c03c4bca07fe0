"""The build of Python that a lock names: its change stands in every form of a review."""

from html import unescape

import pytest
from diff_samples import base, sha
from msgspec.structs import replace

from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import LockedPython
from envspec.review.diff.documents import as_json, html
from envspec.review.diff.markdown import markdown
from envspec.review.diff.review import review
from envspec.review.diff.rows import Review
from envspec.review.diff.text import text


def build(version: str, release: str) -> LockedPython:
    file = f"cpython-{version}+{release}-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz"
    return LockedPython("linux-64", version, release, file, sha(file))


OLD, NEW = build("3.12.13", "20260701"), build("3.12.14", "20260814")


def change(old: LockedPython | None, new: LockedPython | None) -> Review:
    before, after = (replace(base(), pythons=(one,) if one else ()) for one in (old, new))
    return review(Side("old", before), Side("new", after))


AGAIN = build("3.12.13", "20260715")


def line(one: LockedPython | None, other: LockedPython | None) -> str:
    """A version, with its build where both sides have that version."""
    if one is None:
        return "not locked"
    same = other is not None and one.version == other.version
    return f"{one.version} ({one.build}, {one.sha256[:12]})" if same else one.version


@pytest.mark.parametrize(
    ("old", "new"), [(OLD, NEW), (OLD, AGAIN), (None, NEW), (OLD, None)], ids=["moved", "another build", "came", "went"]
)
def test_every_form_says_which_build_python_was_and_is(old: LockedPython | None, new: LockedPython | None) -> None:
    found = change(old, new)
    said = f"the Python that linux-64 gets: {line(old, new)} -> {line(new, old)}"
    assert said in " ".join(text(found).split())
    assert said in unescape(markdown(found)) and said.replace("->", "→") in unescape(html(found))
    (moved,) = as_json(found)["pythons"]
    for side, one in (("old", old), ("new", new)):
        named = {"version": one.version, "build": one.build, "file": one.file, "sha256": one.sha256} if one else None
        assert moved[side] == named
    assert [fact["code"] for fact in as_json(found)["spec"]] == ["python-build-moved"]


def test_an_equal_build_is_no_change() -> None:
    assert not change(NEW, NEW) and as_json(change(NEW, NEW))["pythons"] == []
