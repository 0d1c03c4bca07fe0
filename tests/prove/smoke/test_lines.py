"""Smoke runs as lines of text, and in colour on a terminal."""

import re
import sys

import pytest
from hypothesis import given, settings
from smoke_golden import golden
from smoke_samples import several
from smoke_strategies import results
from support.examples import examples

from envspec.cli import console
from envspec.cli.table import colour_word
from envspec.prove.smoke.report.result import Results
from envspec.prove.smoke.report.words import WIDTH, lines


def test_golden() -> None:
    text = "\n".join(lines(several())) + "\n"
    assert text == golden("table.txt", text)


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
