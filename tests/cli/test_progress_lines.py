"""What takes long says where nothing can be drawn."""

import re
import time

import pytest

from envspec.cli.console import ask_verbose, begin_output
from envspec.cli.progress import InLines
from envspec.install.model import Fetching
from envspec.lock.model import Artifact, Pin


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
    progress.count(3, 9)
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


def test_downloads_of_a_resolution_say_their_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    ask_verbose()
    progress = InLines(every=0.02)
    with progress.fetching("apex.tar.gz", 4 << 20) as came:
        came(1 << 20)
        time.sleep(0.02)
        with progress.telling():
            assert "still at work after 0 s: fetching apex.tar.gz: 1 MiB of 4 MiB (0 s)" in told(capsys)
    assert re.search(r"^fetched apex.tar.gz: 1 MiB in \d+\.\d s$", capsys.readouterr().err, re.M)
    begin_output()


def test_a_download_says_its_bytes_and_a_build_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    with InLines(every=0.02, text="reading the installed packages").telling() as progress:
        fetching = Fetching(progress)
        fetching.begin([Pin("pip", "torch", "2.9.1", "pypi", Artifact("torch.whl", "0" * 64, 900 << 20))])
        fetching.came(2 << 20)
        capsys.readouterr()
        assert "still at work after 0 s: pip: fetching 1 file: 2 MiB of 900 MiB" in told(capsys)
        progress.phase("writing demo.tar", 4 << 20)
        progress.came(1 << 20)
        told(capsys)
        assert "still at work after 0 s: writing demo.tar: 1 MiB of 4 MiB" in told(capsys)
        progress.phase("building apex 0.1")
        progress._started -= 2
        told(capsys)
        assert "still at work after 0 s: building apex 0.1 (0 s)" in told(capsys)
