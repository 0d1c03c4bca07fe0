"""The check as a distribution of its own: its wheel is the folder that images carry."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from envspec_check.environment import check_digest

HERE = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_the_wheel_is_the_folder(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=HERE, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("envspec_check-*-py3-none-any.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    program = tmp_path / "site" / "envspec_smoke_check"
    metadata = (next((tmp_path / "site").glob("*.dist-info")) / "METADATA").read_text(encoding="utf-8")
    assert "Requires-Dist" not in metadata and "Requires-Python: >=3.8" in metadata
    text = "import sys; sys.path.insert(0, sys.argv[1])\nfrom envspec_check.environment import check_digest\n"
    command = [sys.executable, "-IB", "-c", f"{text}print(check_digest())", str(program)]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == check_digest()
    helped = subprocess.run([sys.executable, "-IB", str(program), "--help"], capture_output=True, text=True, check=True)
    assert "--config" in helped.stdout
