"""The page: its golden text, its form, and what hostile texts may not do in it."""

from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from smoke_golden import golden
from smoke_samples import failed, passed, report, several
from smoke_strategies import HOSTILE, results
from support.examples import examples

from envspec.prove.smoke.report.page import page
from envspec.prove.smoke.report.result import CheckResult, Figure, Results, Run

TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "h3", "h4", "p", "ul", "li", "span",
    "strong", "a", "br", "details", "summary", "div", "figure", "figcaption", "dl", "dt", "dd", "pre", "table",
    "caption", "thead", "tbody", "tr", "th", "td", "svg", "line", "polyline", "circle", "rect", "text",
}  # fmt: skip
VOID = {"meta", "br"}
ATTRIBUTES = {
    "lang", "charset", "name", "content", "http-equiv", "class", "id", "open", "scope", "rowspan", "colspan", "role",
    "aria-label", "aria-hidden", "tabindex", "href", "title", "viewbox", "x", "x1", "x2", "y", "y1", "y2", "cx", "cy",
    "r", "width", "height", "points", "text-anchor", "transform",
}  # fmt: skip


class Form(HTMLParser):
    """Reads a page and holds it to its form: known tags and attributes, all closed, links to what is there."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.labels: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "all is closed"
        assert len(self.ids) == len(set(self.ids)), "an id stands once"
        assert all(link.startswith("#") and link[1:] in self.ids for link in self.links), "links stay on the page"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS, tag
        for key, value in attrs:
            assert key in ATTRIBUTES, key
            if key == "id":
                self.ids.append(value or "")
            if key == "href":
                self.links.append(value or "")
            if key == "aria-label":
                self.labels.append(value or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def words_of(text: str) -> str:
    return " ".join(" ".join(Form(text).texts).split())


def test_golden() -> None:
    text = page(several())
    assert text == golden("page.html", text)


def test_what_a_passed_check_leaves_open_is_told() -> None:
    passed = CheckResult(
        "collectives.ddp", "collectives", "pass", False, 0.0, reason="on the CPU, by Gloo: there is one GPU"
    )
    run = Run.from_report("demo", "t", "local", report(checks=(passed,)))
    assert "<td>on the CPU, by Gloo: there is one GPU</td>" in page(Results((run,)))


def test_many_runs_unfold_only_what_didnt_pass() -> None:
    text = page(Results((*[passed()] * 6, failed())))
    assert text.count(" open>") == 1 and '<details class="run" id="run7" open>' in text
    assert page(Results((passed(),))).count(" open>") == 1


def test_nothing_is_loaded() -> None:
    text = page(several())
    assert "default-src 'none'" in text and "<script" not in text
    assert "url(" not in text and "@import" not in text and "://" not in text


def test_nothing_was_run() -> None:
    assert "nothing ran" in words_of(page(Results(())))


@pytest.mark.parametrize("text", HOSTILE, ids=repr)
def test_hostile_texts_stay_texts(text: str) -> None:
    checked = CheckResult(
        f"static.{text}", text, "fail", False, 0.0, reason=text, remedy=text, details={text: text}, output=text
    )
    found = report(
        spec=text, checks=(checked,), figures=(Figure(text, 1.0, text),), curves={text: (1.0, 2.0)}, workload=text
    )
    shown = page(Results((Run.from_report(text, text, text, found, where=text, log=text),)))
    form = Form(shown)
    assert all(character.isprintable() or character == "\n" for character in shown)
    if text.isprintable():
        assert any(text in label for label in form.labels)


@settings(max_examples=examples(30))
@given(results())
def test_any_results_make_a_page_of_its_form(found: Results) -> None:
    told = page(found)
    form = Form(told)
    assert sum(name.startswith("run") and name[3:].isdigit() for name in form.ids) == len(found.runs)
    told.encode()
