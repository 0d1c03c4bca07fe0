"""The documentation site in a real browser: no page is wider than its window, on a phone or at a desk, each has one
title and its pictures, and there is a dark form."""

from pathlib import Path

import pytest
from support.playwright import Browser, browser as browser
from test_site import build

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.e2e]

MEASURED = """
const page = await open(given.file, {width: 1400});
const found = [];
for (const width of [1400, 400]) {
  await page.setViewportSize({width, height: 900});
  found.push(...await page.evaluate(() => {
    const side = document.querySelector(".bs-sidebar");
    const edge = side.getBoundingClientRect().right + 1;
    const text = (one) => { const range = document.createRange(); range.selectNodeContents(one); return range; };
    return [
      document.documentElement.scrollWidth > innerWidth ? [`wider than ${innerWidth} pixels`] : [],
      [...side.querySelectorAll("a")].filter((one) => text(one).getBoundingClientRect().right > edge)
        .map((one) => `beyond its list: ${one.textContent}`),
      document.querySelectorAll("h1[id]").length === 1 ? [] : ["not one title"],
      [...document.images].filter((one) => !one.naturalWidth).map((one) => `no picture: ${one.src}`),
    ].flat();
  }));
}
return found;
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    ran = build("--site-dir", str(folder))
    assert ran.returncode == 0, ran.stderr
    return folder


def test_every_page_fits_a_desk_and_a_phone(browser: Browser, site: Path) -> None:
    pages = sorted(page for page in site.rglob("*.html") if page.name != "404.html")
    wrong = {page.name: found for page in pages if (found := browser.run(MEASURED, file=str(page)))}
    assert wrong == {}
    assert len(pages) > 30


def test_a_dark_system_gets_a_dark_page(browser: Browser, site: Path) -> None:
    code = """
        const page = await open(given.file, {scheme: given.scheme});
        return await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    """
    grounds = {scheme: browser.run(code, file=str(site / "index.html"), scheme=scheme) for scheme in ("light", "dark")}
    assert grounds == {"light": "rgb(255, 255, 255)", "dark": "rgb(33, 37, 41)"}


def test_the_colour_switch_works_and_is_kept(browser: Browser, site: Path) -> None:
    code = """
        const page = await open(given.file, {scheme: "light"});
        const wrong = [];
        // the search wants a server
        page.on("pageerror", (error) => error.message.includes("Worker") || wrong.push(error.message));
        await page.reload();
        await page.evaluate(() => document.querySelector('[data-bs-theme-value="dark"]').click());
        const colour = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        return [colour, ...wrong];
    """
    assert browser.run(code, file=str(site / "index.html")) == ["rgb(33, 37, 41)"]
