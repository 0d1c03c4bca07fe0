"""The report in a real browser: keys, filters, map, graph, both schemes, a phone's width, no script, axe-core."""

import json
from pathlib import Path
from typing import Any

import pytest
from support import report as sample
from support.playwright import Browser, browser as browser

from envspec.lock.formats.foreign.side import Side
from envspec.review.diff.model import nothing
from envspec.review.diff.review import review
from envspec.review.report.collect import page_of
from envspec.review.report.model import AuditSummary, Trouble
from envspec.review.report.page import html

pytestmark = [pytest.mark.nightly, pytest.mark.e2e]

DIGEST = "sha256:" + "0" * 64
OPEN = """
const page = await open(given.file, given.options ?? {});
if (given.options?.javaScriptEnabled !== false) await page.waitForSelector("html[data-drawn]");
"""
FOCUSED = "await page.evaluate(() => document.activeElement.textContent)"
SHOWN = "#matrix .body .row:not([hidden]) button"
ROWS = f"await page.evaluate(() => [...document.querySelectorAll('{SHOWN}')].map((one) => one.textContent))"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the sample, with a package that means harm, an audit, and a comparison."""
    evil = sample.HOSTILE
    of = sample.spec()
    lock = sample.lock(of, extra=(sample.pin("evil", f"1.0{evil}", licence=evil, direct=True),))
    names = sorted({pin.name for target in lock.targets for pin in target.pins})
    link = "https://example.org/CVE-1"
    trouble = Trouble(
        "vulnerability", "error", names.index("lib"), "2.6", (1, 2), evil, "upgrade", None, "CVE-1", link=link
    )
    audit = AuditSummary("db", None, (trouble,), (("packages from git", (names.index("speedup"),)),), (), ())
    found = review(Side("HEAD", nothing("sample")), Side("now", lock))
    page = page_of(of, lock.targets, lock="l", digest=DIGEST, audit=audit, review=found)
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html(page), encoding="utf-8")
    return path


@pytest.fixture
def drive(browser: Browser, report: Path) -> Any:
    """Open the report and run code on it."""

    def run(code: str, **options: Any) -> Any:
        return browser.run(OPEN + code, file=str(report), options=options)

    return run


def test_it_loads_nothing_and_says_nothing(drive: Any) -> None:
    title, told = drive("return [await page.title(), told()];")
    assert told == [] and title.startswith("sample: ")


def test_hostile_texts_run_nothing(drive: Any) -> None:
    title, told, evil, pictures = drive(f"""
        await page.fill("#find", "evil");
        await page.click("#matrix .body .row:not([hidden]) button");
        const evil = await page.textContent("#matrix .row:not([hidden]) .version");
        return [await page.title(), told(), evil, await page.locator("img").count(), {ROWS}];
    """)[:4]
    assert "owned" not in title and told == [] and pictures == 0
    assert evil == f"+ 1.0{sample.HOSTILE}"


def test_filters(drive: Any) -> None:
    found = drive(f"""
        const seen = {{}};
        const note = async (name) => {{ seen[name] = {ROWS}; }};
        const fresh = async () => {{ await page.click("#filters [type=reset]"); await page.waitForTimeout(20); }};
        await note("all");
        await page.fill("#find", "PYTORCH/cu126"); await note("index"); await fresh();
        await page.fill("#find", "nothing-like-it"); await note("none");
        seen.empty = await page.isVisible("#matrix .empty"); await fresh();
        await page.selectOption("#kind", "conda"); await note("conda"); await fresh();
        await page.check("#direct"); await note("direct"); await fresh();
        await page.check("#differs"); await note("differs");
        seen.count = await page.textContent("#count"); await fresh();
        await page.check("#vulnerable"); await note("vulnerable"); await fresh();
        await page.selectOption("#licence", {{ label: "GPL-3.0-only (1)" }}); await note("licence"); await fresh();
        await page.click(".choice summary"); await page.click("#none");
        await page.check("#filters [name=target] >> nth=0"); await note("cpu");
        seen.chosen = await page.textContent("#chosen");
        await page.check("#differs"); await note("one");
        return seen;
    """)
    assert len(found["all"]) == 11 and found["index"] == ["torch"] and found["none"] == [] and found["empty"]
    assert found["conda"] == ["ffmpeg", "zlib"] and found["direct"] == ["app", "evil", "ffmpeg", "torch"]
    assert found["differs"] == ["ffmpeg", "lib", "nvidia-cudnn-cu12", "torch", "zlib"]
    assert found["count"] == "5 of 11 packages" and found["vulnerable"] == ["lib"] and found["licence"] == ["ping"]
    assert "nvidia-cudnn-cu12" not in found["cpu"] and len(found["cpu"]) == 10
    assert found["chosen"] == "1 of 3" and found["one"] == []


def test_what_changed_and_an_address_that_says_so(drive: Any) -> None:
    found = drive(f"""
        const seen = {{}};
        await page.check("#changed");
        seen.rows = {ROWS};
        seen.address = await page.evaluate(() => location.hash);
        await page.fill("#find", "lib");
        seen.cell = await page.textContent("#matrix .row:not([hidden]) .old");
        seen.both = await page.evaluate(() => location.hash);
        await page.click("#filters [type=reset]"); await page.waitForTimeout(20);
        await page.evaluate(() => {{ location.hash = "#packages?direct=yes&changed=yes"; }});
        await page.waitForTimeout(50);
        seen.restored = {ROWS};
        await page.evaluate(() => {{ location.hash = "#graph?package=lib&target=cpu&depth=1"; }});
        await page.waitForTimeout(50);
        seen.graph = [await page.textContent("#drawing .centre"), await page.inputValue("#depth")];
        await page.selectOption("#size-what", "difference");
        seen.note = await page.textContent("#size-note");
        seen.tiles = await page.locator("#treemap button").count();
        return seen;
    """)
    assert len(found["rows"]) == 11 and found["address"] == "#packages?changed=yes"
    assert found["cell"] == "+ 2.5" and found["both"] == "#packages?find=lib&changed=yes"
    assert found["restored"] == ["app", "evil", "ffmpeg", "torch"]
    assert found["graph"] == ["lib", "1"]
    assert "in all, of" in found["note"] and found["tiles"] > 1


@pytest.mark.parametrize(
    "address", ["#packages?find=%00%ff&kind=x&licence=99", "#graph?package=<img>&target=..&depth=9"]
)
def test_an_address_that_means_nothing_does_nothing(drive: Any, address: str) -> None:
    told = drive(
        f"""
        await page.evaluate((given) => {{ location.hash = given; }}, {json.dumps(address)});
        await page.waitForTimeout(50);
        return [told(), await page.locator("img").count()];
        """
    )
    assert told == [[], 0]


def test_on_a_phone_rows_are_cards_and_numbers_whole(drive: Any) -> None:
    found = drive(
        """
        return await page.evaluate(() => {
          const cards = [...document.querySelectorAll(".cards td[data-head]")];
          const broken = [...document.querySelectorAll("td.n, .whole, td[data-head=size] p")].filter((one) => {
            const range = document.createRange();
            range.selectNodeContents(one);
            const boxes = [...range.getClientRects()].filter((box) => box.width);
            return new Set(boxes.map((box) => Math.round(box.top))).size > 1;
          });
          return [cards.length, cards.filter((one) => one.getBoundingClientRect().right > innerWidth).length,
                  broken.map((one) => one.textContent)];
        });
        """,
        width=390,
    )
    assert found[0] > 10 and found[1:] == [0, []]


def test_paper_has_everything_open(drive: Any) -> None:
    """Chromium's own print layout: nothing folded, no row left out, the map as wide as the paper."""
    found = drive("""
        await page.emulateMedia({ media: "print" });
        return await page.evaluate(() => {
          dispatchEvent(new Event("beforeprint"));
          const folded = [...document.querySelectorAll("main details:not(.choice)")].filter((one) => !one.open).length;
          const rows = [...document.querySelectorAll("#matrix .body .row")];
          const seen = rows.filter((one) => getComputedStyle(one).contentVisibility === "visible").length;
          const map = document.getElementById("treemap").getBoundingClientRect();
          const tiles = [...document.querySelectorAll("#treemap button")];
          const right = Math.max(...tiles.map((one) => one.getBoundingClientRect().right));
          dispatchEvent(new Event("afterprint"));
          return [folded, rows.length - seen, Math.abs(map.right - right) < 2,
                  document.querySelectorAll("[data-printed]").length];
        });
    """)
    assert found == [0, 0, True, 0]


def test_the_matrix_by_keys(drive: Any) -> None:
    found = drive(f"""
        const seen = [];
        const press = async (key) => {{ await page.keyboard.press(key); seen.push({FOCUSED}); }};
        await page.focus("#filters [type=reset]");
        await press("Tab");
        await press("ArrowDown"); await press("ArrowDown"); await press("ArrowUp");
        await press("End"); await press("Home"); await press("PageDown");
        await page.keyboard.press("Home"); await page.keyboard.press("ArrowDown");
        await press("Enter");
        const centre = await page.inputValue("#centre");
        await press("Escape");
        await page.keyboard.press("Tab");
        seen.push(await page.evaluate(() => document.activeElement.getAttribute("aria-label")));
        return [seen, centre];
    """)
    keys, centre = found
    assert keys[:6] == ["app", "evil", "ffmpeg", "evil", "zlib", "app"] and keys[6] != "app"
    # Enter shows the package in the graph, Escape leads back, and Tab goes on behind the whole list
    assert keys[7:9] == ["evil", "evil"] and centre == "evil" and keys[9] == "All targets"


def test_the_map_by_keys(drive: Any) -> None:
    seen, note, centre = drive(f"""
        await page.selectOption("#size-target", {{ label: "cu128-hopper" }});
        await page.focus("#treemap button");

        const seen = [await page.evaluate(() => document.activeElement.getAttribute("aria-label"))];
        await page.keyboard.press("End");
        seen.push(await page.evaluate(() => document.activeElement.getAttribute("aria-label")));
        await page.keyboard.press("Home");
        await page.keyboard.press("Enter");
        return [seen, await page.textContent("#size-note"), {FOCUSED}];
    """)
    assert seen == ["torch 900.0 MB, 2.9.1, 100 %", "+ 5 5 kB, 5 smaller packages, under 0.1 %"]
    assert note.endswith("Not counted, size unknown (1): speedup.") and centre == "torch"


def test_tiles_fill_the_map_without_overlapping(drive: Any) -> None:
    area, whole, overlaps = drive("""
        await page.selectOption("#size-target", { label: "cu126-volta" });
        return await page.evaluate(() => {
          const map = document.getElementById("treemap");
          const boxes = [...map.children].map((one) => one.getBoundingClientRect());
          const across = (a, b) => a.left + 1 < b.right && b.left + 1 < a.right;
          const along = (a, b) => a.top + 1 < b.bottom && b.top + 1 < a.bottom;
          const overlaps = boxes.flatMap((a) => boxes.filter((b) => a !== b && across(a, b) && along(a, b))).length;
          const area = boxes.reduce((sum, one) => sum + one.width * one.height, 0);
          return [area, map.clientWidth * map.clientHeight, overlaps];
        });
    """)
    assert overlaps == 0 and area == pytest.approx(whole, rel=0.01)


def test_the_graph_is_walked_and_recentred(drive: Any) -> None:
    found = drive(f"""
        await page.selectOption("#graph-target", {{ label: "cpu" }});
        const nodes = async () => page.$$eval("#drawing ol", (lists) =>
          lists.map((list) => [...list.children].map((node) => node.textContent)));
        const type = async (name) => {{
          await page.fill("#centre", name);
          await page.keyboard.press("Enter");
          await page.keyboard.press("Tab");
        }};
        await type("lib");
        const first = await nodes();
        await page.focus("#drawing .centre");
        await page.keyboard.press("ArrowRight"); await page.keyboard.press("ArrowDown");
        const at = {FOCUSED};
        await page.keyboard.press("Enter");
        const second = [await nodes(), {FOCUSED}, await page.inputValue("#centre")];
        await page.selectOption("#depth", "1");
        const shallow = await nodes();
        await type("ffmpeg (conda)");
        const note = await page.textContent("#graph-note");
        await type("no such");
        return {{ first, at, second, shallow, note, missing: await page.textContent("#graph-note") }};
    """)
    assert found["first"] == [["the spec"], ["app"], ["lib"], ["fsspec", "ping", "speedup"], ["pong"]]
    assert found["at"] in ("fsspec", "ping", "speedup")
    assert found["second"][1] == found["second"][2] == found["at"]
    assert len(found["shallow"]) <= 3
    assert found["note"] == "ffmpeg 1.0 in cpu: asked for by the spec, needs 1 package."
    assert found["missing"] == "No package is called no such."


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 360])
def test_axe_finds_nothing(drive: Any, scheme: str, width: int) -> None:
    code = """
        await page.evaluate(() => document.querySelectorAll("details").forEach((one) => { one.open = true; }));
        return await axe();
    """
    assert drive(code, scheme=scheme, width=width) == []


def test_schemes_differ(drive: Any) -> None:
    colour = "return await page.evaluate(() => getComputedStyle(document.body).backgroundColor);"
    assert drive(colour, scheme="light") != drive(colour, scheme="dark")


@pytest.mark.parametrize("width", [320, 360, 768])
def test_the_page_itself_never_scrolls_sideways(drive: Any, width: int) -> None:
    code = "return await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);"
    whole, window = drive(code, width=width)
    assert whole <= window


def test_the_focus_is_seen(drive: Any) -> None:
    outline = drive("""
        await page.keyboard.press("Tab"); await page.keyboard.press("Tab");
        return await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    """)
    assert outline == "solid"


def test_without_script(drive: Any) -> None:
    """What is there then is real text: targets, direct packages, licences, GPUs, findings, changes."""
    text, shown = drive(
        """return [await page.locator("main").innerText(), await page.locator("#filters").isVisible()];""",
        javaScriptEnabled=False,
    )
    assert not shown and "2.9.1+cu126" in text and "GPL-3.0-only" in text and "CVE-1" in text
    assert "cuDNN has no code for it" in text and "525.60.13" in text


def test_columns_line_up(drive: Any) -> None:
    """Every row is a grid of its own; a long version must not push its neighbours."""
    apart = drive("""
        return await page.evaluate(() => {
          const sizes = [...document.querySelectorAll("#matrix .row:not([hidden]) .size")];
          const right = sizes.map((one) => one.getBoundingClientRect().right);
          return Math.max(...right) - Math.min(...right);
        });
    """)
    assert apart < 1
