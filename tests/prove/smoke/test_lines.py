"""Smoke runs as lines of text, and in colour on a terminal."""

import re
import sys

import pytest
from hypothesis import given, settings
from smoke_golden import golden
from smoke_samples import blind, failed, left_out, several
from smoke_strategies import results
from support.examples import examples

from envspec.cli import console
from envspec.cli.table import colour_word
from envspec.prove.smoke.report.result import Results
from envspec.prove.smoke.report.words import WIDTH, lines


def shown(*runs: object) -> str:
    return "\n".join(lines(Results(runs)))  # type: ignore[arg-type]


def test_golden() -> None:
    text = "\n".join(lines(several())) + "\n"
    assert text == golden("table.txt", text)


def test_the_headline_is_last() -> None:
    assert lines(Results((blind(), left_out())))[-1] == "no GPU check ran: 2 runs: 1 passed, 0 failed, 1 skipped"


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
        assert len(line) <= WIDTH or line.startswith("      log: ")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_colour_is_all_that_colour_adds(terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    # a style is an escape sequence no sooner than it leaves
    text = console._safe("\n".join(lines(several(), marked=colour_word)))
    assert "\x1b[31m" in text and "\x1b[32m" in text
    monkeypatch.setenv("NO_COLOR", "1")
    assert re.sub(r"\x1b\[[0-9;]*m", "", text) == "\n".join(lines(several()))
