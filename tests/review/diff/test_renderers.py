"""Text, Markdown and HTML: the limits they keep, and what hostile names may not do in them."""

import re
from html.parser import HTMLParser

import click
import pytest
from diff_samples import (
    added,
    artifact,
    base,
    both,
    every_target,
    fields,
    in_target,
    pins,
    reviewed,
    sha,
    target,
    version,
    wheel,
)
from markdown_it import MarkdownIt
from msgspec.structs import replace

from envspec.base.texts import clean_text
from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import GitSource, Lock
from envspec.review.diff.documents import html
from envspec.review.diff.markdown import LIMIT, inert, markdown
from envspec.review.diff.review import review
from envspec.review.diff.rows import Fact, Review
from envspec.review.diff.text import cells, text

HOSTILE = [
    "a | b | c",
    "`x` ``y``",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "@octocat and @org/team",
    "#1 GH-2 org/repo#3",
    "[click](javascript:alert(1))",
    "![x](https://evil.example.org/pixel.png)",
    "https://evil.example.org www.evil.example.org",
    "**bold** _it_ ~~no~~",
    "</details></table><!-- ",
    "line\nbreak\r\n\n# heading",
    "\x1b[31mred\x1b[0m\x07",
    "\u202egnp.exe",
    ":tada: &amp; \\* $x$",
]


def hostile(text: str) -> Review:
    return reviewed(
        both(
            fields("lib", licence=text),
            fields("clip", git=GitSource(f"https://git.example.org/{text}", "f" * 40)),
            target("hopper", gpus=("H100", text)),
        )
    )


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_markdown_keeps_hostile_texts_inert(name: str) -> None:
    shown = markdown(hostile(name))
    ours = ("details", "/details", "details open", "summary", "/summary", "br", "code", "/code")
    assert set(re.findall(r"<([^>]*)>", shown)) <= set(ours), "no tag but ours"
    lines = shown.splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert rows and all(len(re.findall(r"(?<!\\)\|", row)) == 6 for row in rows), "no cell but ours"
    bare = re.sub(r"<code>&#\d+;</code>|&#\d+;", "", shown)
    assert "@" not in bare and "`" not in bare and "](" not in bare and "://" not in bare and "www." not in bare
    assert sum(line.startswith("#") for line in lines) == 1, "no heading but ours"
    assert all(character.isprintable() for character in shown.replace("\n", ""))


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_html_escapes_hostile_texts(name: str) -> None:
    found: set[str] = set()

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.add(tag)
            assert not any(key.startswith("on") or key in ("src", "href") for key, _ in attrs)

    page = html(hostile(name))
    Tags().feed(page)
    allowed = "html head meta title style body main h1 h2 p ul li span details summary div table thead tbody tr th td"
    assert found <= set(allowed.split())


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_text_steers_no_terminal(name: str) -> None:
    shown = text(hostile(name))
    assert all(character.isprintable() for character in shown.replace("\n", ""))
    assert all(len(line) <= 80 for line in shown.splitlines())


@pytest.mark.parametrize("name", HOSTILE, ids=repr)
def test_nothing_foreign_steers_a_terminal(name: str) -> None:
    """Names too: other tools' files may have any."""
    lock = replace(base(), name=name)
    named = replace(wheel(name, "1.0", f"{name}>=1", index=name), licence=name)
    old = replace(lock, targets=tuple(replace(t, name=f"{t.name}{name}", pins=(*t.pins, named)) for t in lock.targets))
    assert named.artifact
    replaced = replace(named, artifact=replace(named.artifact, sha256=sha("evil")))
    new = replace(old, targets=tuple(replace(t, pins=(*t.pins[:-1], replaced)) for t in old.targets[:2]))
    for form in (text, markdown, html):
        shown = form(review(Side(name, old), Side(name, new)))
        assert "SAME VERSION" in shown
        assert all(character.isprintable() for character in shown.replace("\n", "")), form
    assert all(cells(line) <= 80 for line in text(review(Side(name, old), Side(name, new))).splitlines())


def test_text_fits_by_columns() -> None:
    """Characters of two columns."""
    found = reviewed(both(fields("lib", licence="许可证" * 60), target("hopper", gpus=("显卡 " * 40,))))
    shown = text(review(Side("旧" * 60, base()), Side("新", base()))) + text(found)
    assert max(cells(line) for line in shown.splitlines()) in (79, 80)


def test_inert_text_reads_the_same() -> None:
    from html import unescape

    for one in ("2.9.1+cu126", "torch==2.9.*", "a_b (c) [d]", "MIT AND (Apache-2.0 OR BSD)"):
        assert unescape(inert(one)) == one


def many(count: int) -> Review:
    lock = base()

    def grown(step: int) -> Lock:
        pins = [wheel(f"package-{n}", f"1.{step}", licence=f"licence {step} " + "x|@`" * 200) for n in range(count)]
        new = lock
        for pin in pins:
            new = replace(new, targets=tuple(replace(t, pins=(*t.pins, pin)) for t in new.targets))
        return new

    return review(Side("a" * 1000, grown(1)), Side("b|`" * 1000, grown(2)))


@pytest.mark.parametrize("count", [1, 5, 40, 300])
def test_markdown_fits_a_comment(count: int) -> None:
    shown = markdown(many(count))
    assert len(shown) <= LIMIT
    assert shown.count("<details") == shown.count("</details>")
    rows = sum(line.startswith("| **") for line in shown.splitlines())
    cut = re.search(r"and (\d+) more, cut here", shown)
    assert rows + (int(cut[1]) if cut else 0) == count


def test_markdown_counts_what_it_has_no_room_for() -> None:
    """So much at medium risk that nothing else fits: what is at low risk begins all the same, and counts the rest."""
    lock = base()
    many_pins = [wheel(f"packages-{n}", "1.0", licence="x" * 300, direct=True) for n in range(740)]
    many_pins += [wheel(f"quiet-{n}" + "y" * 100, "1.0") for n in range(50)]
    old = replace(lock, targets=(replace(lock.targets[0], pins=tuple(many_pins)),))
    moved = [replace(pin, version="2.0" if pin.licence != "MIT" else "1.1") for pin in many_pins]
    shown = markdown(
        review(Side("old", old), Side("new", replace(old, targets=(replace(old.targets[0], pins=tuple(moved)),))))
    )
    assert len(shown) <= LIMIT
    rows = sum(line.startswith("| **") for line in shown.splitlines())
    medium, low = (int(count) for count in re.findall(r"and (\d+) more, cut here", shown))
    quiet = sum(line.startswith("| **quiet") for line in shown.splitlines())
    assert quiet > 0 and (rows - quiet + medium, quiet + low) == (740, 50)


@pytest.mark.parametrize("limit", [1000, 3000, 20_000])
def test_markdown_cut_to_any_room_keeps_its_head(limit: int) -> None:
    """The risk, what to do and the gravest line; what has no room is counted."""
    hashes = [artifact(name, sha256=sha("evil")) for name in ("lib", "app", "year")]
    more = [both(added(wheel(f"acelerate{n}" + "@" * 300, "1.0"))) for n in range(90)]
    shown = markdown(reviewed(both(version("2.0", "clip"), *hashes, *more, every_target(python="3.13"))), limit)
    assert len(shown) <= limit
    assert shown.startswith("### demo: high risk: ") and "**Understand each 🔴 line before you merge.**" in shown
    assert shown.index("SAME VERSION, DIFFERENT FILE") < (shown + "<details").index("<details")
    assert shown.count("<details") == shown.count("</details>") and "more" in shown
    if limit >= 3000:
        assert "Python 3.12 -> 3.13" in shown.partition("<details")[0]


@pytest.mark.parametrize("limit", [1000, 65_000])
def test_a_hostile_name_takes_no_more_than_its_room(limit: int) -> None:
    lock = replace(base(), name="@" * 3000)
    shown = markdown(review(Side("#" * 3000, lock), Side("@" * 3000, both(version("2.0", "clip"))(lock))), limit)
    assert len(shown) <= limit and "**Look at the 🟡 lines before you merge.**" in shown and "clip" in shown


def test_the_first_of_each_kind_goes_before_the_second_of_any() -> None:
    """Eleven libraries that go back leave room for the one fact that isn't of their kind."""
    old = base()
    many_pins = tuple(wheel(f"lib-{n}", "2.0") for n in range(11))
    old = replace(old, targets=tuple(replace(one, pins=(*one.pins, *many_pins)) for one in old.targets))
    back = both(*(version("1.0", pin.name) for pin in many_pins), target("hopper", driver_floor="580.65.06"))
    head = markdown(review(Side("old", old), Side("new", back(old)))).partition("<details")[0]
    assert "580.65.06" in head and "lib-0 2.0 -> 1.0" in head and "more, folded below" in head
    assert head.index("580.65.06") < head.index("lib-1 2.0 -> 1.0")


def test_what_is_plain_stays_plain() -> None:
    for one in (
        "2.9.1 -> 2.10.0 (cu128)",
        "high risk: 3 packages",
        "requires numpy>=2,<3"[:20],
        "[cpu, hopper]",
        "a_b",
    ):
        assert inert(one) == one


@pytest.mark.parametrize("foreign", HOSTILE, ids=repr)
@pytest.mark.parametrize("around", ["- {}\n", "> **{}**: x\n", "### {}\n", "|a|b|\n|-|-|\n| **{}** | {} |\n"])
def test_markdown_shows_a_hostile_text_and_does_nothing_else(foreign: str, around: str) -> None:
    """As markdown-it reads it, with tables and strikethrough."""
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = [part for token in reader.parse(around.replace("{}", inert(foreign))) for part in token.children or ()]
    assert {token.type for token in tokens} <= {"text", "text_special", "html_inline", "strong_open", "strong_close"}
    assert {token.content for token in tokens if token.type == "html_inline"} <= {"<code>", "</code>"}
    shown = "".join(token.content for token in tokens if token.type in ("text", "text_special"))
    assert clean_text(foreign).replace(" ", "") in shown.replace(" ", "")


def test_a_change_of_the_spec_alone_stands_in_the_head() -> None:
    """Nothing that changed is only to be found below a fold."""
    facts = (Fact("low", "requirement-changed", "the spec asks for numpy (was numpy<2.3)"),)
    shown = markdown(Review("demo", "old", "new", facts, (), (), (), (), ()))
    assert "- 🟢 the spec asks for numpy (was numpy<2.3)" in shown.partition("<details>")[0]


def test_markdown_says_what_it_cut_of_facts() -> None:
    requirements = tuple(f"package-{n}" + "x" * 300 for n in range(400))
    shown = markdown(reviewed(both(target("cpu", requirements=requirements), artifact("lib", sha256=sha("evil")))))
    assert len(shown) <= LIMIT and "more, cut here" in shown and "SAME VERSION, DIFFERENT FILE" in shown


def test_a_changed_hash_is_shouted_first() -> None:
    found = reviewed(both(artifact("lib", sha256=sha("evil")), version("2.0", "app")))
    assert text(found).splitlines()[3].startswith("!! lib: SAME VERSION, DIFFERENT FILE (lib-2.5.1-py3-none-any.whl)")
    assert markdown(found).index("CAUTION") < markdown(found).index("<details")
    assert html(found).index('class="alarm"') < html(found).index("<details")


def test_nothing_changed() -> None:
    same = review(Side("a", base()), Side("b", base()))
    assert text(same) == "demo: a -> b\nno difference\n"
    assert "no difference" in markdown(same) and "no difference" in html(same)


def test_colour_is_all_that_colour_adds() -> None:
    found = reviewed(both(version("2.0", "app"), target("hopper", driver_floor="580.65.06"), added(wheel("x", "1"))))
    coloured = text(found, lambda line, style: click.style(line, fg="red", bold=True))
    assert "\x1b[31m\x1b[1m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == text(found)


@pytest.mark.parametrize("count", [0, 2, 40])
def test_markdown_begins_in_ten_lines_at_most(count: int) -> None:
    """What counts stands before the first fold, and how much more there is."""
    hashes = [artifact(name, sha256=sha("evil")) for name in ("lib", "app", "year", "beta", "inner")]
    more = [both(added(wheel(f"acelerate{n}", "1.0")), every_target(python="3.13")) for n in range(count)]
    shown = markdown(reviewed(both(version("2.0", "clip"), *hashes[:count], *more)))
    head = shown.partition("<details")[0].splitlines()
    assert sum(bool(line) for line in head) <= 10 and "<details open" not in shown
    assert "clip 1.0 -> 2.0" in shown.partition("<details")[0] or count == 40


def test_no_version_is_shown_as_changed_that_is_the_same() -> None:
    old = base()
    renamed = pins(lambda pin: replace(pin, name="nvidia-cudnn-cu13"), "nvidia-cudnn-cu12")(old)
    kept = both(fields("lib", index="pytorch/cu128"), version("1.4.3", "app"))(renamed)
    found = review(Side("old", old), Side("new", kept))
    assert not [fact for fact in found.gpu if fact.code == "cudnn-moved"]
    for shown in (text(found), markdown(found)):
        assert not re.search(r"(\S+) -> \1(?![\w.+])", shown)
        assert "1 stayed as installed" in shown


def test_a_size_names_its_targets_where_a_row_has_several() -> None:
    """Cells wrap: a line of one stood beside any line of the other, and a target's size on another's line."""
    grown = in_target("hopper", artifact("lib", size=3_000_000))
    found = reviewed(both(version("2.5.2", "lib", "hopper"), version("2.5.3", "lib", "cpu"), grown))
    (row,) = (row for row in found.rows if row.name == "lib")
    assert len(row.moves) > 1
    assert '+2.0 MB <span class="targets">[hopper]</span></p>' in html(found)
    assert "| +2.0 MB [hopper] |" in markdown(found)
