"""The HTML: whole, inert, self-contained, the same every time."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace
from support import report as sample

import envspec
from envspec.lock.formats.foreign.side import Side
from envspec.lock.model import Lock, LockedPython
from envspec.review.diff.model import nothing
from envspec.review.diff.review import review
from envspec.review.report.collect import page_of
from envspec.review.report.model import AuditSummary, Page, Trouble
from envspec.review.report.page import html, page_data

DIGEST = "sha256:" + "0" * 64


def page(lock: Lock | None = None, audit: AuditSummary | None = None, compared: bool = False) -> Page:
    of = sample.spec()
    lock = lock or sample.lock(of)
    found = review(Side("HEAD", nothing("sample")), Side("now", lock)) if compared else None
    return page_of(of, lock.targets, lock="l", digest=DIGEST, audit=audit, review=found or "nothing to see")


def audit(*troubles: Trouble, **fields: object) -> AuditSummary:
    made = AuditSummary("db", "2026-11-01T00:00:00Z", troubles, (), (), ())
    return replace(made, **fields)


def section(text: str, name: str) -> str:
    match = re.search(rf'<section id="{name}".*?</section>', text, re.DOTALL)
    assert match
    return match.group()


class Elements(HTMLParser):
    """Every start tag with its attributes, and the texts of scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] in self.raw and data.strip():
            self.raw[self.tags[-1][0]].append(data)


def test_the_same_page_is_the_same_bytes() -> None:
    assert html(page(compared=True)) == html(page(compared=True))


def test_nothing_is_loaded_and_only_its_own_script_runs() -> None:
    found = Elements(html(page()))
    assert not [
        tag for tag, given in found.tags if {"src", "srcset", "action", "style"} & given.keys() or tag == "link"
    ]
    assert not [given for _, given in found.tags if any(name.startswith("on") for name in given)]
    assert all((given.get("href") or "#").startswith("#") for tag, given in found.tags if tag == "a")
    policy = next(given["content"] for _, given in found.tags if given.get("http-equiv"))
    assert policy and policy.startswith("default-src 'none'; ") and "unsafe" not in policy
    (style,), (_, script) = found.raw["style"], found.raw["script"]
    for text in (style, script):
        assert base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() in policy


def test_every_label_and_every_link_leads_somewhere() -> None:
    found = Elements(html(page()))
    ids = [given["id"] for _, given in found.tags if "id" in given]
    assert len(ids) == len(set(ids))
    for _, given in found.tags:
        for name in (given.get("aria-labelledby") or "").split():
            assert name in ids
        if (given.get("href") or "").startswith("#"):
            assert (given["href"] or "")[1:] in ids


def test_hostile_texts_stay_texts() -> None:
    evil = sample.HOSTILE + "\u202e\x1b\u2028"
    of = replace(sample.spec(), description=evil, name="sample")
    lock = sample.lock(extra=(sample.pin("evil", evil, licence=evil, index=evil),))
    trouble = Trouble(
        "vulnerability", "error", 0, evil, (0,), evil, evil, None, evil, (evil,), evil, (), f"https://{evil}"
    )
    told = audit(trouble, database=evil, as_of=evil, unknown=((evil, (0,)),), unread=(evil,))
    found = review(Side(evil, nothing("sample")), Side("now", lock))
    made = page_of(of, lock.targets, lock=evil, digest=DIGEST, audit=told, review=found)
    text = html(made)
    elements = Elements(text)
    assert [tag for tag, _ in elements.tags].count("script") == 2 and "img" not in [tag for tag, _ in elements.tags]
    assert "\u202e" not in text and "\x1b" not in text and "\u2028" not in text
    data = json.loads(elements.raw["script"][0])
    assert any(sample.HOSTILE in one["variants"][0]["version"] for one in data["packages"])


def test_the_data_cannot_end_its_element() -> None:
    lock = sample.lock(extra=(sample.pin("evil", "1", index="<!--<script>&\u2028"),))
    text = page_data(page(lock))
    assert not set("<>&\u2028\u2029") & set(text)
    evil = next(one for one in json.loads(text)["packages"] if one["name"] == "evil")
    assert evil["variants"][0]["index"] == "<!--<script>&\\u2028"


@pytest.mark.parametrize("link", ["javascript:alert(1)", "data:text/html,x", "http://example.org", "//example.org"])
def test_only_https_becomes_a_link(link: str) -> None:
    trouble = Trouble("vulnerability", "error", 0, "1.4", (0,), "bad", "", None, "CVE-1", link=link)
    assert "<a " not in section(html(page(audit=audit(trouble))), "vulnerabilities")
    safe = replace(trouble, link="https://example.org/CVE-1")
    assert 'href="https://example.org/CVE-1"' in section(html(page(audit=audit(safe))), "vulnerabilities")


def test_not_checked_never_reads_as_none() -> None:
    text = html(page())
    assert "not checked" in text and "none known" not in text and "No known vulnerability" not in text
    for told in (audit(unread=("gone",)), audit(left_out=(1,))):
        text = html(page(audit=told))
        assert "not known" in text and "none known" not in text and "No known vulnerability" not in text
    assert "none known" in html(page(audit=audit()))
    assert "1 package not checked" in html(page(audit=audit(unknown=(("why", (3,)),))))


def test_what_needs_no_script() -> None:
    text = html(page(compared=True))
    assert "cu126-volta" in section(text, "targets") and "2.9.1+cu126" in section(text, "packages")
    assert "GPL-3.0-only" in section(text, "licences") and "denied" in section(text, "licences")
    assert "cuDNN has no code for it" in section(text, "gpus")
    assert "target added" in section(text, "changes")
    assert "Not compared: nothing to see." in section(html(page()), "changes")


def test_the_locked_python_stands_on_the_page_and_what_images_have_instead() -> None:
    of = sample.spec()
    lock = sample.lock(of)
    build = LockedPython("linux-64", "3.12.14", "20260814", "cpython-3.12.14+20260814.tar.gz", "ab" * 32)
    elsewhere = replace(build, platform="osx-arm64", version="3.12.99")
    shared = {"lock": "l", "digest": DIGEST, "audit": None, "review": "nothing"}
    made = html(page_of(of, lock.targets, **shared, pythons=(build, elsewhere)))  # type: ignore[arg-type]
    found = section(made, "targets")
    assert all(told in found for told in ("3.12.14", "20260814", build.file, build.sha256))
    assert "3.12.99" not in made and "Python of their base" not in made
    own = replace(of, image=replace(of.image, python="base"))
    assert "Python of their base" in section(html(page_of(own, lock.targets, **shared)), "targets")  # type: ignore[arg-type]


def test_targets_of_all_packages_are_left_out_of_the_data() -> None:
    data = json.loads(page_data(page()))
    variants = {one["name"]: one["variants"] for one in data["packages"]}
    assert variants["fsspec"][0]["targets"] is None and variants["lib"][0]["targets"] == [0]


OWN = {
    *("asset('prove/smoke/report/page.css')", "asset('review/diff/page.css')", "policy", "style", "script", "data"),
    *("chart.bar(figure)", "chart.curves(curves)"),
}
"""The values that templates don't escape: envspec's own files, JSON without markup, drawings with escaped labels."""


def test_templates_escape_all_but_envspecs_own_texts() -> None:
    templates = [path.read_text(encoding="utf-8") for path in Path(envspec.__file__).parent.rglob("*.html.j2")]
    unescaped = {name for text in templates for name in re.findall(r"\{\{-? *([^{}]+?)\|safe", text)}
    assert {name.replace('"', "'") for name in unescaped} == OWN
    # a value outside quotes could end its attribute
    assert not [part for text in templates for part in re.findall(r"<[^<>]*[a-z]=\{\{", text)]
    assert "autoescape" not in "".join(templates)
