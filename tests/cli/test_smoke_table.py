"""Smoke runs for a terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from support.examples import examples

sys.path.append(str(Path(__file__).resolve().parents[1] / "prove" / "smoke"))

from smoke_golden import golden
from smoke_samples import blind, failed, left_out, several
from smoke_strategies import results

from envspec.cli import console
from envspec.cli.smoke import table as smoke_table
from envspec.cli.smoke.table import lines
from envspec.prove.smoke.report.result import Results


def shown(*runs: object) -> str:
    return "\n".join(lines(Results(runs)))  # type: ignore[arg-type]


def test_golden() -> None:
    text = "\n".join(lines(several())) + "\n"
    assert text == golden("table.txt", text)


def test_the_headline_is_last() -> None:
    assert list(lines(Results((blind(), left_out()))))[-1] == "no GPU check ran: 2 runs: 1 passed, 0 failed, 1 skipped"


def test_a_failed_check_has_its_remedy_and_last_words() -> None:
    text = shown(failed())
    assert "fail: compile.eager: torch.compile needs a C compiler, and there is none" in text
    assert "remedy: install gcc" in text and "| RuntimeError: no C compiler was found" in text
    assert "log: runs/2/log.txt" in text


@settings(max_examples=examples(30))
@given(results())
def test_any_results_keep_the_width_and_steer_no_terminal(found: Results) -> None:
    for line in lines(found):
        assert all(character.isprintable() for character in line)
        assert len(line) <= smoke_table.WIDTH or line.startswith("      log: ")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_colour_is_all_that_colour_adds(terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # a style is an escape sequence no sooner than it leaves
    coloured = console._safe("\n".join(lines(several())))
    assert "\x1b[31m" in coloured and "\x1b[32m" in coloured
    monkeypatch.setenv("NO_COLOR", "1")
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == "\n".join(lines(several()))
