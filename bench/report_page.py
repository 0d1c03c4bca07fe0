"""The page of `envspec report` for 1,000 packages in 12 targets, in headless Chromium: first paint, and a filter.

Times are those of the clock, so of a machine that is busy otherwise too; the processor time of the page's main thread
is not. Beside it the plain way to show the same: one HTML table with a cell for every package and target, filtered by
hiding rows. Needs chromium, node and npm (tests/support/playwright.py).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from html import escape
from pathlib import Path

from envspec.lock.model import Lock
from envspec.review.report.collect import page_of
from envspec.review.report.page import html

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.playwright import Browser, Missing, chromium
from support.report import big

ROUNDS = 9
PACKAGES = 1000
TARGETS = 12
PAINT, FILTER = 1000, 100
"""The budgets, in milliseconds: of the first paint with the matrix there, and of a filter until it is drawn."""

_OPEN = """
const page = await open(given.file);
await page.waitForFunction(() => performance.getEntriesByType("paint").length > 1);
return await page.evaluate(() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0].startTime;
  const ready = performance.getEntriesByType("navigation")[0].domContentLoadedEventEnd;
  return [paint, Math.max(paint, ready)];
});
"""
_FILTER = """
const page = await open(given.file);
const session = await page.context().newCDPSession(page);
await session.send("Performance.enable", { timeDomain: "threadTicks" });
await page.reload();
await page.waitForTimeout(600);
const busy = async () => {
  const { metrics } = await session.send("Performance.getMetrics");
  return 1000 * metrics.find((one) => one.name === "TaskDuration").value;
};
const opened = await busy();
const words = ["p", "pa", "package-09", "package-0999", "", "1.3", "no such", ""];
const taken = await page.evaluate(async (words) => {
  const field = document.getElementById("find"), taken = [];
  for (const word of words) {
    await new Promise((done) => setTimeout(done, 60));
    const start = performance.now();
    field.value = word;
    field.dispatchEvent(new Event("input", { bubbles: true }));
    // a message sent in the next frame arrives when that is laid out and painted
    await new Promise((done) => requestAnimationFrame(() => {
      const wire = new MessageChannel();
      wire.port1.onmessage = done;
      wire.port2.postMessage(0);
    }));
    taken.push(performance.now() - start);
  }
  return taken;
}, words);
return { taken, opened, each: (await busy() - opened) / words.length };
"""
_PLAIN = """
const rows = [...document.querySelectorAll("tbody tr")], words = rows.map((row) => row.textContent.toLowerCase());
document.getElementById("find").addEventListener("input", (event) => {
  rows.forEach((row, at) => { row.hidden = !words[at].includes(event.target.value.toLowerCase()); });
});
"""


def plain(lock: Lock) -> str:
    """The whole matrix as one table."""
    names = sorted({pin.name for target in lock for pin in target.pins})
    versions = [{pin.name: pin.version for pin in target.pins} for target in lock]
    cells = {name: "".join(f"<td>{escape(one[name])}</td>" for one in versions) for name in names}
    rows = (f"<tr><th>{escape(name)}</th>{cells[name]}</tr>" for name in names)
    heads = "".join(f"<th>{escape(target.name)}</th>" for target in lock)
    head = f"<!doctype html><meta charset=utf-8><title>plain</title><input id=find><table><thead><tr><th>{heads}</tr>"
    return f"{head}</thead><tbody>{''.join(rows)}</tbody></table><script>{_PLAIN}</script>"


def _measured(browser: Browser, name: str, file: Path) -> None:
    opened = [browser.run(_OPEN, file=str(file)) for _ in range(ROUNDS)]
    filtered = [browser.run(_FILTER, file=str(file)) for _ in range(ROUNDS)]
    filters = [one for run in filtered for one in run["taken"]]
    busy = [statistics.median(run[what] for run in filtered) for what in ("opened", "each")]
    paint, ready = (statistics.median(one[at] for one in opened) for at in (0, 1))
    slow, usual = statistics.quantiles(filters, n=10)[-1], statistics.median(filters)
    over = "" if ready < PAINT and slow < FILTER else "   over the budget"
    size = file.stat().st_size // 1000
    print(
        f"{name}, {PACKAGES} packages x {TARGETS} targets, {size} kB: first paint {paint:.0f} ms, matrix there "
        f"{ready:.0f} ms ({busy[0]:.0f} ms of processor until idle); filter {usual:.0f} ms, "
        f"nine of ten under {slow:.0f} ms ({busy[1]:.0f} ms of processor){over}"
    )


def main() -> None:
    """Print the times of the page and of the plain table; a line says so where one is over the budget."""
    spec, lock = big(PACKAGES, TARGETS)
    start = time.perf_counter()
    page = html(page_of(spec, lock.targets, lock="l", digest="", audit=None, review="a benchmark"))
    print(f"envspec report, making the page: {time.perf_counter() - start:.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        ours, table = Path(folder, "report.html"), Path(folder, "plain.html")
        ours.write_text(page, encoding="utf-8")
        table.write_text(plain(lock), encoding="utf-8")
        try:
            with chromium() as browser:
                _measured(browser, "envspec report", ours)
                _measured(browser, "plain table", table)
        except Missing as missing:
            print(f"not measured: {missing}")


if __name__ == "__main__":
    main()
