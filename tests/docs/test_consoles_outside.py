"""The console blocks that ask real indexes: what they show is what the commands print, numbers aside."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from console_blocks import ROOT, Block, blocks, fits, shown
from test_consoles import ELSEWHERE, begins_with, set_up

pytestmark = [pytest.mark.network, pytest.mark.slow, pytest.mark.nightly]

UNREACHABLE = re.compile(r"^note: the registry has no digest for .*: \S+ can't be read: .*\n", re.MULTILINE)
"""What a machine without a way to the registry of images is told too."""


def the(words: str) -> Block:
    (found,) = (block for block in blocks() if begins_with(block, words))
    return found


def compare(block: Block, told: str) -> None:
    told = UNREACHABLE.sub("", told)
    assert fits(block, told), f"{block.page.name} shows:\n{block.text}\nprinted:\n{told}"


def test_each_block_that_does_not_run_offline_runs_here() -> None:
    source = Path(__file__).read_text("utf-8")
    assert [words for words in ELSEWHERE if f'the("{words}")' not in source] == []


def test_the_ways_of_a_refusal_give_a_lock(tmp_path: Path) -> None:
    block = the("has no CUDA 11.8")
    set_up(block, tmp_path)
    told = "".join(line for line in shown(block, tmp_path).splitlines(keepends=True) if "still at work" not in line)
    assert told == block.text


def test_inspect_reads_the_real_wheel(tmp_path: Path) -> None:
    block = the("envspec inspect")
    platform = ("--platform", "manylinux_2_28_x86_64", "--python-version", "3.12", "--only-binary", ":all:")
    download = ("download", "-q", "--no-deps", *platform, "torchvision==0.24.1")
    subprocess.run([sys.executable, "-m", "pip", *download], cwd=tmp_path, check=True, timeout=300)
    told = shown(block, tmp_path)
    assert told == block.text


def test_link_reads_the_wheels_of_the_shipped_lock(tmp_path: Path) -> None:
    block = the("envspec link")
    for name in ("specs", "locks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    told = shown(block, tmp_path)
    if "error:" in told and "pytorch/cpu" in told:
        pytest.skip(f"torch's wheel can't be had: {told}")
    assert told == block.text


def test_make_lock_in_a_fresh_clone(tmp_path: Path) -> None:
    """With what isn't committed yet: the files that git knows."""
    block = the("make lock")
    known = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    for name in filter(None, known.split("\0")):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / name)
    python = f"PYTHON={sys.executable}"
    compare(block, shown(block, tmp_path, {"PYTHONPATH": ""}, {"make": ("make", python)}))
