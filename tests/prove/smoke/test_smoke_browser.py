"""The page in a real browser: widths, colours, keyboard, accessibility, and hostile texts."""

from pathlib import Path

import pytest
from smoke_samples import BROKEN, checks, passed, report, several
from smoke_strategies import HOSTILE
from support.browser import Browser, axe

from envspec.prove.smoke.report.page import page
from envspec.prove.smoke.report.result import CheckResult, Figure, Results, Run

pytestmark = [pytest.mark.e2e, pytest.mark.nightly]

ALL = Results((*several().runs, Run.from_report("demo", "b", "local", report(checks=(*checks(gpu=False), BROKEN)))))


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return Browser(tmp_path)


@pytest.mark.parametrize("width", [360, 1200])
def test_it_fits_its_width(browser: Browser, width: int) -> None:
    found = browser.ask(
        page(ALL),
        """
        for (const one of document.querySelectorAll('details')) one.open = true;
        const root = document.documentElement;
        const out = [...document.querySelectorAll('main *')].filter(one => !one.closest('.matrix, .scroll, svg, pre')
            && !one.matches('.said') && getComputedStyle(one).clipPath === 'none'
            && !one.closest('thead') && one.getBoundingClientRect().right > root.clientWidth + 1);
        const told = out.map(one => one.outerHTML.slice(0, 100));
        return {over: root.scrollWidth - root.clientWidth, narrow: root.clientWidth <= 360, out: told};
        """,
        width=width,
    )
    assert found == {"over": 0, "narrow": width == 360, "out": []}


def test_dark_and_light_differ(browser: Browser) -> None:
    script = "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color];"
    light, dark = (browser.ask(page(ALL), script, dark=dark) for dark in (False, True))
    assert light == ["rgb(255, 255, 255)", "rgb(27, 27, 27)"] and dark == ["rgb(22, 24, 27)", "rgb(232, 232, 232)"]


def test_the_keyboard_reaches_what_can_be_used(browser: Browser) -> None:
    found = browser.ask(
        page(ALL),
        """
        const usable = [...document.querySelectorAll('a, summary, .scroll, pre')];
        const reached = one => { one.focus(); return document.activeElement === one; };
        const mute = usable.filter(one => one.checkVisibility() && !reached(one)).map(one => one.outerHTML);
        const link = document.querySelector('.matrix td.fail a');
        link.click();
        return {usable: usable.length, mute, target: document.querySelector(':target h4').textContent};
        """,
    )
    assert found["usable"] > 20 and found["mute"] == []
    assert found["target"] == "compile.eager failed"


@pytest.mark.network
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_axe_finds_nothing(browser: Browser, width: int, dark: bool) -> None:
    script = f"""
        {axe()}
        for (const one of document.querySelectorAll('details')) one.open = true;
        const found = await axe.run(document, {{resultTypes: ['violations']}});
        return {{version: axe.version, passes: found.passes.length, found: found.violations.map(
            one => [one.id, one.impact, one.nodes.map(node => node.html.slice(0, 120))])}};
    """
    found = browser.ask(page(ALL), script, width=width, dark=dark)
    assert found["passes"] > 20, "it looked"
    assert found["found"] == []


def test_hostile_texts_stay_inert(browser: Browser) -> None:
    runs = []
    for text in HOSTILE:
        check = CheckResult(
            f"static.{text}", text, "fail", False, 0.0, reason=text, remedy=text, details={text: text}, output=text
        )
        found = report(
            spec=text, workload=text, checks=(check,), figures=(Figure(text, 1.0, text),), curves={text: (2.0, 1.0)}
        )
        runs.append(Run.from_report(text, text, text, found, where=text, log=text))
    found = browser.ask(
        page(Results(tuple(runs))).replace("<head>", "<head><script>window.alert = () => { window.hit = 1 }</script>"),
        """
        const strange = [...document.querySelectorAll('main script, main img, main style, main iframe, [src]')];
        const handlers = [...document.querySelectorAll('*')].filter(
            one => [...one.attributes].some(at => at.name.startsWith('on')));
        const loaded = performance.getEntriesByType('resource').map(one => one.name);
        return [window.hit || 0, strange.length, handlers.length, loaded, document.querySelectorAll('.run').length];
        """,
    )
    assert found == [0, 0, 0, [], len(HOSTILE)]


def test_many_runs_are_quick_to_show(browser: Browser) -> None:
    text = page(Results((passed(),) * 300))
    assert len(text) < 8_000_000
    assert browser.ask(text, "return document.querySelectorAll('.matrix tbody tr').length") == 300
