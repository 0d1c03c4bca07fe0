"""The generated pages are up to date, and the man pages are pages."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from envspec.cli.main import COMMANDS
from tools.reference.terminal import PICTURES

ROOT = Path(__file__).resolve().parents[2]


def reference(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.reference", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_the_generated_pages_are_up_to_date() -> None:
    ran = reference("--check")
    assert (ran.returncode, ran.stderr) == (0, "")


def test_every_key_of_the_schema_is_described() -> None:
    page = (ROOT / "docs" / "spec.md").read_text("utf-8")
    for path in ("env.exclude-newer", "pip.indexes", "targets.NAME.glibc", "matrix.exclude[].gpus", "image.base"):
        assert f"`{path}`\n" in page, path
    headings = re.findall(r"^#{2,3} `(.+)`$", page, re.MULTILINE)
    assert len(headings) == len(set(headings)) > 80


def test_links_within_the_spec_lead_somewhere() -> None:
    page = (ROOT / "docs" / "spec.md").read_text("utf-8")
    headings = re.findall(r"^#{2,3} `(.+)`$", page, re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9_-]", "", heading.lower()) for heading in headings}
    assert set(re.findall(r"\(#([^)]+)\)", page)) <= anchors


@pytest.mark.slow
def test_man_pages(tmp_path: Path) -> None:
    assert reference("--man", str(tmp_path)).returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"envspec.1", *(f"envspec-{name}.1" for name in COMMANDS)}
    text = (tmp_path / "envspec-lock.1").read_text("utf-8")
    assert text.startswith('.TH "ENVSPEC-LOCK" 1') and "\\-\\-upgrade" in text


@pytest.mark.slow
@pytest.mark.parametrize("name", PICTURES)
def test_the_picture_is_of_a_real_run(name: str) -> None:
    code = "import sys; from tools.reference.terminal import picture; sys.stdout.write(picture(sys.argv[1]))"
    command = [sys.executable, "-c", code, name]
    drawn = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert drawn == (ROOT / name).read_text("utf-8"), "run python -m tools.reference.terminal"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff here")
def test_groff_reads_the_man_pages(tmp_path: Path) -> None:
    reference("--man", str(tmp_path))
    pages = [str(path) for path in sorted(tmp_path.iterdir())]
    ran = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", *pages], capture_output=True, text=True, check=True)
    assert ran.stderr == ""
