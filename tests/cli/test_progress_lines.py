"""What a long resolution says where nothing can be drawn."""

from __future__ import annotations

import re
import time

import pytest

from envspec.cli.progress import InLines


def told(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The lines of a moment, at least one."""
    written = ""
    ends = time.monotonic() + 20
    while not written.endswith("\n") and time.monotonic() < ends:
        time.sleep(0.02)
        written += capsys.readouterr().err
    return {re.sub(r"[0-9]+ s", "0 s", line) for line in written.splitlines()}


def test_a_long_resolution_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    progress = InLines(every=0.02)
    progress.counted(3, 9)
    with progress.solving(["cpu", "gpu"]), progress.doing("reading mamba_ssm-2.2.4.tar.gz"):
        time.sleep(0.02)
        with progress.telling():
            lines = told(capsys)
    assert lines == {
        "still at work after 0 s: resolving cpu, gpu (0 s); reading mamba_ssm-2.2.4.tar.gz (0 s); "
        "METADATA of 3 of 9 packages read"
    }


def test_also_between_its_steps(capsys: pytest.CaptureFixture[str]) -> None:
    with InLines(every=0.02).telling():
        assert told(capsys) == {"still at work after 0 s: resolving"}


def test_a_short_one_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with InLines().telling() as progress, progress.solving(["cpu"]):
        pass
    assert capsys.readouterr().err == ""
