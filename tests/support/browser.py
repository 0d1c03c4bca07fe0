"""A real browser, headless, to look at our pages with."""

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
AXE = "axe-core@4"


class Browser:
    """Loads a page with a script added to it, and gives what the script found."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = next((found for name in NAMES if (found := shutil.which(name))), None)
        if program is None:
            pytest.skip("there is no chromium here")
        self.program = program

    def ask(self, page: str, script: str, *, width: int = 1200, dark: bool = False) -> Any:
        """What `script` gives, the body of an async function, in a frame of this width that shows `page`.

        The page's own policy forbids scripts, so it is taken off: what it forbids is looked at elsewhere.
        """
        page = re.sub(r"<meta http-equiv=[^>]*>", "", page, count=1)
        asked = (
            "<script>addEventListener('load', async () => { let found;"
            f"try {{ found = await (async () => {{ {script} }})() }}"
            "catch (error) { found = {error: String(error)} }"
            "parent.document.getElementById('found').textContent = JSON.stringify(found);"
            "parent.document.title = 'done' })</script>"
        )
        (self.folder / "page.html").write_text(page.replace("</head>", asked + "</head>", 1), encoding="utf-8")
        frame = (
            f'<iframe src="page.html" style="border:0;width:{width}px;height:2000px"></iframe><pre id="found"></pre>'
        )
        (self.folder / "frame.html").write_text(f"<!doctype html><meta charset=utf-8>{frame}", encoding="utf-8")
        said = subprocess.run(
            [
                self.program,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--allow-file-access-from-files",
                "--disable-background-networking",
                f"--user-data-dir={self.folder / 'profile'}",
                f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                "--window-size=1600,2200",
                "--virtual-time-budget=60000",
                "--dump-dom",
                (self.folder / "frame.html").as_uri(),
            ],
            capture_output=True,
            encoding="utf-8",
            timeout=180,
            check=True,
        ).stdout
        found = re.search(r'<pre id="found">(.*?)</pre>', said, re.DOTALL)
        assert found and found[1], said[-2000:]
        answer = json.loads(html.unescape(found[1]))
        assert not (isinstance(answer, dict) and set(answer) == {"error"}), answer
        return answer


def axe() -> str:
    """The source of axe-core, kept in the user's cache. Without npm, or when npm can't get it, the test is skipped."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "envspec-tests" / "axe"
    source = cache / "node_modules" / "axe-core" / "axe.min.js"
    if not source.is_file():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("there is no npm here to get axe-core with")
        cache.mkdir(parents=True, exist_ok=True)
        got = subprocess.run(
            [npm, "install", "--prefix", str(cache), "--no-audit", "--no-fund", AXE], capture_output=True, check=False
        )
        if got.returncode or not source.is_file():
            pytest.skip(f"npm can't get {AXE} here")
    return source.read_text(encoding="utf-8")
