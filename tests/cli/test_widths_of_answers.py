"""What asks an index, reads wheels or trains fits the terminal as the tables of test_widths.py do."""

import sys
from pathlib import Path

import pytest
from audit_index import OLD, PATH, pypi as pypi
from cli_project import Envspec
from support.audit import Pypi, vulnerability
from support.packages import wheel
from test_inspect import demo as demo
from test_widths import on_a_terminal, words

sys.path.append(str(Path(__file__).resolve().parents[1] / "prove" / "smoke"))

from smoke_samples import several

from envspec.cli.console import columns, out
from envspec.cli.table import colour_word
from envspec.prove.smoke.report.words import WIDTH, lines

pytest_plugins = ["cli_fixtures"]

WIDTHS = (60, 100, 200)


def test_audit_outdated_link_and_inspect(
    pypi: Pypi, envspec: Envspec, demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pypi.know("lib", "2.5", vulnerability("PYSEC-1", "CVE-1", fixed=("2.6",), text="Things go wrong. " * 9))
    pypi.add(wheel("lib", "2.6"), wheel("app", "1.5", "lib<2.6"), uploaded=OLD)
    commands = (("audit", PATH), ("outdated", PATH), ("link", PATH), ("inspect", str(demo), "--gpu", "H100"))
    for command in commands:
        whole = envspec(*command).out
        assert whole.strip(), command
        for width in WIDTHS:
            with monkeypatch.context() as terminal:
                on_a_terminal(terminal, width)
                fits(envspec(*command).out, whole, width)


def test_smoke(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    out("\n".join(lines(several(), columns() or WIDTH, colour_word)))
    whole = capsys.readouterr().out
    for width in WIDTHS:
        on_a_terminal(monkeypatch, width)
        out("\n".join(lines(several(), columns() or WIDTH, colour_word)))
        fits(capsys.readouterr().out, whole, width)


def fits(shown: str, whole: str, width: int) -> None:
    wide = [line for line in shown.splitlines() if len(line) > width and len(line.split()) > 1]
    assert wide == []
    assert words(shown) == words(whole)
