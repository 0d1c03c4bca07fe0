"""What a change of version means by what is known of both versions, in every format."""

from collections.abc import Callable

import pytest
from diff_samples import added, both, fields, pins, reviewed, version, wheel

from envspec.review.diff.advisories import Key, Known, Vulnerability, facts, versions, with_advisories
from envspec.review.diff.documents import as_json, html
from envspec.review.diff.markdown import LIMIT, markdown
from envspec.review.diff.rows import LookedUp, Review
from envspec.review.diff.text import text

HOW = LookedUp("all.zip", "2026-11-20T08:00:00Z")


def flaw(number: int, *aliases: str, **more: object) -> Vulnerability:
    name = f"GHSA-{number}"
    return Vulnerability(name, frozenset((name, *aliases)), **more)  # type: ignore[arg-type]


def known(*flaws: Vulnerability, yanked: str | None = None) -> Known:
    return Known(flaws, yanked)


UNKNOWN, SOUND = Known(), known()
TABLE: list[tuple[str, Known | None, Known | None, list[tuple[str, str, str]]]] = [
    ("sound", SOUND, SOUND, []),
    ("unknown", UNKNOWN, UNKNOWN, []),
    (
        "newly vulnerable",
        SOUND,
        known(flaw(1, "CVE-1", summary="Bad.", fixed_in=("2.6", "3.0"))),
        [("high", "newly-vulnerable", "newly vulnerable, GHSA-1 (CVE-1): Bad.; fixed in 2.6, 3.0")],
    ),
    (
        "comes with a flaw",
        None,
        known(flaw(1)),
        [("high", "newly-vulnerable", "newly vulnerable, GHSA-1; no release fixes it yet")],
    ),
    (
        "the spec ignores it",
        SOUND,
        known(flaw(1, ignored="never reached")),
        [("low", "newly-vulnerable", "newly vulnerable, GHSA-1; the spec ignores it: never reached")],
    ),
    (
        "nobody knows the old one",
        UNKNOWN,
        known(flaw(1)),
        [("high", "newly-vulnerable", "vulnerable, GHSA-1 (unknown for the old version); no release fixes it yet")],
    ),
    (
        "fixed",
        known(flaw(1, "CVE-1"), flaw(2)),
        SOUND,
        [("low", "vulnerability-fixed", "fixes GHSA-1 (CVE-1), GHSA-2")],
    ),
    ("what nobody knows isn't fixed", known(flaw(1)), UNKNOWN, []),
    ("gone", known(flaw(1)), None, [("low", "vulnerability-fixed", "removing it fixes GHSA-1")]),
    ("gone and sound", SOUND, None, []),
    (
        "still",
        known(flaw(1)),
        known(flaw(1, fixed_in=("9",))),
        [("medium", "still-vulnerable", "still vulnerable: GHSA-1, fixed in 9")],
    ),
    (
        "still, under another name",
        known(flaw(1, "CVE-1")),
        known(flaw(2, "CVE-1")),
        [("medium", "still-vulnerable", "still vulnerable: GHSA-2 (CVE-1), no release fixes it yet")],
    ),
    (
        "still, and ignored",
        known(flaw(1)),
        known(flaw(1, ignored="why not")),
        [("low", "still-vulnerable", "still vulnerable: GHSA-1, ignored by the spec: why not")],
    ),
    (
        "one goes, one comes",
        known(flaw(1)),
        known(flaw(2)),
        [
            ("high", "newly-vulnerable", "newly vulnerable, GHSA-2; no release fixes it yet"),
            ("low", "vulnerability-fixed", "fixes GHSA-1"),
        ],
    ),
    ("yanked", SOUND, known(yanked="it was taken back"), [("medium", "yanked", "it was taken back")]),
    ("yanked, of unknown soundness", UNKNOWN, Known(None, "it was"), [("medium", "yanked", "it was")]),
    ("both yanked", known(yanked="a"), known(yanked="b"), [("medium", "yanked", "as before, b")]),
    (
        "no longer yanked",
        known(yanked="its publisher yanked it: broken"),
        SOUND,
        [("low", "was-yanked", "replaces a version: its publisher yanked it: broken")],
    ),
]


@pytest.mark.parametrize(("old", "new", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_what_a_change_means(old: Known | None, new: Known | None, expected: list[tuple[str, str, str]]) -> None:
    assert [(fact.risk, fact.code, fact.message) for fact in facts(old, new)] == expected


def lib(number: str) -> Key:
    return ("pip", "lib", number, "pypi")


def audited(review: Review, found: dict[Key, Known], how: LookedUp = HOW) -> Review:
    return with_advisories(review, found, how)


def test_which_versions_are_asked_about() -> None:
    change = both(version("2.6.0", "lib"), pins(lambda pin: None, "year"), added(wheel("fresh", "1.0")))
    assert versions(reviewed(change)) == {
        lib("2.5.1"),
        lib("2.6.0"),
        ("pip", "year", "2026.1.0", "pypi"),
        ("pip", "fresh", "1.0", "pypi"),
    }


def test_a_row_has_the_risk_of_what_is_known() -> None:
    plain = reviewed(both(version("2.5.2", "lib"), version("2.0", "app")))
    assert [(row.name, row.risk) for row in plain.rows] == [("app", "medium"), ("lib", "low")]
    review = audited(plain, {lib("2.5.1"): SOUND, lib("2.5.2"): known(flaw(1))})
    assert [(row.name, row.risk) for row in review.rows] == [("lib", "high"), ("app", "medium")]
    assert review.risk == "high" and review.rows[1] == plain.rows[0], "what nobody knows of stays as it is"


def test_exact_changes_say_it_too() -> None:
    """Where targets install different files, the JSON has each."""
    change = both(version("2.9.2", "torch"))
    found = {key: known(flaw(1)) for key in versions(reviewed(change)) if key[2].startswith("2.9.2")}
    (row,) = (row for row in as_json(audited(reviewed(change), found))["packages"] if row["name"] == "torch")
    assert all("newly-vulnerable" in [fact["code"] for fact in one["facts"]] for one in row["changes"])


@pytest.mark.parametrize("shown", [text, markdown, html], ids=["text", "markdown", "html"])
def test_every_format_says_it(shown: object) -> None:
    how = LookedUp(
        "all.zip", "2026-11-20T08:00:00Z", ("nobody answered",), ((("yanked",), "conda packages", ("a", "b")),)
    )
    review = audited(reviewed(both(version("2.5.2", "lib"))), {lib("2.5.2"): known(flaw(77, summary="<b>"))}, how)
    page = " ".join(shown(review).replace("&#45;", "-").replace("&#58;", ":").split())  # type: ignore[operator]
    for words in ("GHSA-77", "INCOMPLETE", "nobody answered", "2026-11-20", "not checked for yanked: conda packages"):
        assert words in page
    if shown is not text:
        assert "<b>" not in page
    else:
        assert max(map(len, text(review).splitlines())) <= 80


def test_nothing_is_said_where_nobody_asked() -> None:
    review = reviewed(both(version("2.5.2", "lib")))
    assert review.looked_up is None and as_json(review)["audit"] is None
    assert "Audit" not in html(review) + markdown(review) and "looked" not in text(review)


def test_a_comment_has_a_limit_whatever_is_known() -> None:
    evil = known(*(flaw(n, summary="@everyone " * 1000) for n in range(500)))
    how = LookedUp("x", None, tuple(f"{n} " + "y" * 1000 for n in range(500)))
    shown = markdown(audited(reviewed(both(version("2.5.2", "lib"))), {lib("2.5.2"): evil}, how))
    assert len(shown) <= LIMIT and "@everyone" not in shown


def test_a_licence_alone_is_asked_about_as_well() -> None:
    review = audited(reviewed(both(fields("lib", licence="GPL-3.0-only"))), {lib("2.5.1"): known(flaw(1))})
    assert [fact.code for fact in review.rows[0].moves[0].facts] == ["licence-changed", "still-vulnerable"]


@pytest.mark.parametrize("shown", [text, markdown, html], ids=["text", "markdown", "html"])
def test_what_is_fixed_is_said_first(shown: Callable[[Review], str]) -> None:
    plain = reviewed(both(version("2.5.2", "lib"), version("1.4.3", "app")))
    review = audited(plain, {lib("2.5.1"): known(flaw(1)), lib("2.5.2"): SOUND})
    assert [row.name for row in review.rows] == ["lib", "app"] and review.risk == "low"
    page = " ".join(shown(review).replace("&#45;", "-").replace("&#58;", ":").split())
    assert page.index("known vulnerabilities fixed in lib") < page.index("2 packages changed")


def test_the_page_of_releases_is_linked_where_it_is_known() -> None:
    page = "https://github.com/example/lib/releases"
    found = reviewed(version("2.6", "lib"))
    new = {key: Known((), releases=page) for key in versions(found) if key[2] == "2.6"}
    told = with_advisories(found, new, HOW)
    assert f"[releases]({page})" in markdown(told)
    assert f'<a href="{page}" rel="noreferrer">releases</a>' in html(told)
    assert f"releases: {page}" in text(told)
    (row,) = as_json(told)["packages"]
    assert row["changes"][0]["releases"] == page
    assert "releases" not in markdown(found) and as_json(found)["packages"][0]["changes"][0]["releases"] is None
