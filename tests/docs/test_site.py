"""The documentation site is built, and a warning would be an error."""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs isn't installed: `make setup` brings it")

ROOT = Path(__file__).resolve().parents[2]


def build(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    ran = build("--site-dir", str(tmp_path / "site"))
    assert ran.returncode == 0, ran.stderr
    assert "WARNING" not in ran.stderr
    page = (tmp_path / "site" / "spec.html").read_text("utf-8")
    assert 'id="envexclude-newer"' in page
    # nothing is loaded from anybody's server
    assert 'src="http' not in page and 'rel="stylesheet" href="http' not in page


def test_every_page_stands_in_the_navigation() -> None:
    """What the build says too, and at once."""
    nav = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    left_out = {page for page in pages if f": {page}\n" not in nav and not page.startswith(("evidence/", "design/"))}
    assert left_out == set()
