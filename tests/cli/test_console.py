"""Where text leaves: no secret, nothing that steers a terminal, colours of ours alone, JSON that stays JSON."""

import io
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unicodedata import category

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from envspec.base import redact as secrets
from envspec.base.errors import InputError, Place
from envspec.base.finding import Finding, carrying, change, note
from envspec.cli import console, main
from envspec.packages.conflict import Unsatisfiable

ROOT = Path(__file__).resolve().parents[2]
STEERS = "\x1b]0;PWN\x07\x1b[2J\x9b31m\u202e\u2066\u200f\r\x08\x7f"


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    secrets.forget()
    yield
    secrets.forget()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """What was written where both streams say that they are a terminal. Called first, it makes them so."""
    monkeypatch.delenv("NO_COLOR", raising=False)

    def told() -> str:
        for stream in (sys.stdout, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: True)
        return "".join(capsys.readouterr())

    return told


def is_harmless(text: str) -> bool:
    return all(c.isprintable() or c in "\n\t" or category(c) == "Zs" for c in text)


def test_what_steers_a_terminal_is_shown_instead(shown: Callable[[], str]) -> None:
    shown()
    console.out(f"a{STEERS}b\tc\nd")
    console.say(f"error: a{STEERS}b")
    console.out_file(f"a{STEERS}b\n")
    text = shown().replace("\x1b[31m\x1b[1merror:\x1b[0m", "")
    assert is_harmless(text)
    assert "a\\x1b]0;PWN\\x07\\x1b[2J\\x9b31m\\u202e\\u2066\\u200f\\r\\x08\\x7fb\tc\nd\n" in text


def test_a_file_that_is_piped_on_is_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    console.out_file("a\r\nb\u202e\n")
    assert capsys.readouterr().out == "a\r\nb\u202e\n"


def test_only_our_own_colours_are_colours(shown: Callable[[], str]) -> None:
    shown()
    console.out(console.style_text("fine \x1b[31mred", "green;bold") + " \x1b[5m \ufdd00123456789abcdef31m")
    assert shown() == "\x1b[32m\x1b[1mfine \\x1b[31mred\x1b[0m \\x1b[5m \\ufdd00123456789abcdef31m\n"


def test_a_quiet_command_leaves_nobody_quiet_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", "--quiet", str(ROOT / "specs" / "cpu-py311.toml")]) == 0
    console.out("word")
    assert capsys.readouterr() == ("word\n", "")


def test_no_colour_where_it_goes_to_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    console.out(console.style_text("word", "red"))
    console.say("error: word", style="red")
    assert capsys.readouterr() == ("word\n", "error: word\n")


def test_what_rich_draws_is_harmless_too(shown: Callable[[], str]) -> None:
    shown()
    secrets.register("hunter2-Zq")
    drawing = console.terminal_console()
    drawing.print(f"fetching http://u:p/w@host/x hunter2-Zq {STEERS}", markup=False, highlight=False)
    text = shown()
    assert is_harmless(text) and "fetching http://host/x ****" in text


texts = st.text(st.characters(codec="utf-8")) | st.sampled_from([STEERS, "\u2028", "https://u:p@h/"])


@pytest.mark.slow
@given(st.recursive(texts | st.integers() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_json_stays_json(value: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        made = io.StringIO()
        patch.setattr("sys.stdout", made)
        console.out_json(value)
    assert is_harmless(made.getvalue())
    if "://" not in made.getvalue() and "=" not in made.getvalue() and "/t/" not in made.getvalue():
        assert json.loads(made.getvalue()) == value


def test_a_secret_that_is_a_word_of_json_breaks_none(capsys: pytest.CaptureFixture[str]) -> None:
    secrets.register('"state": "ok"')
    secrets.register("schema")
    console.out_json({"schema": "x", "said": 'it was "state": "ok"', "state": "ok"})
    assert json.loads(capsys.readouterr().out) == {"****": "x", "said": "it was ****", "state": "ok"}


def test_a_value_is_the_object_of_its_fields_and_loses_its_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    secrets.register("hunter22")
    place = Place("a-hunter22.toml", 3)
    console.out_json({"place": place, "path": Path("x/hunter22"), "all": (place,)})
    document = {"file": "a-****.toml", "line": 3, "column": 0}
    assert json.loads(capsys.readouterr().out) == {"place": document, "path": "x/****", "all": [document]}


def test_a_note_breaks_between_words_and_a_hint_stays_whole(
    shown: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hint is pasted into a shell."""
    shown()
    monkeypatch.setenv("COLUMNS", "60")
    text = "the registry has no digest for astral/uv:0.13.8, so the recipes of this spec use the tag alone"
    console.say(f"note: {text}", style="cyan")
    console.say(f"hint: {text}")
    *note, hint = re.sub(r"\x1b\[[0-9;]*m", "", shown()).splitlines()
    assert len(note) == 2 and all(len(line) <= 60 for line in note)
    assert " ".join(" ".join(note).split()) == f"note: {text}" and hint == f"hint: {text}"


def test_a_long_chain_of_reasons_is_told_by_its_ends(capsys: pytest.CaptureFixture[str]) -> None:
    """uv goes back through each release of jax: 27 steps, of which two say what is wrong."""
    steps = [f"And because jax=={n} is gone, jax>={n} cannot be used." for n in range(20)]
    text = " ".join(["cpu: Because jaxlib==1 is gone, jax==1 goes.", *steps, "And because the spec asks: no."])
    console.print_failure(console.Failure.of(Unsatisfiable(text)))
    told = (
        "error: cpu: Because jaxlib==1 is gone, jax==1 goes. (20 steps between: --json has them) And because the spec"
    )
    assert capsys.readouterr().err.replace("\n", " ").startswith(told)
    short = " ".join([*steps[:8]])
    console.print_failure(console.Failure.of(Unsatisfiable(short)))
    assert "steps between" not in capsys.readouterr().err


def test_what_moved_for_a_release_that_was_given_up_has_one_line() -> None:
    given_up = Finding("info", "given-up", "vllm 0.21.0 is locked, not 0.26.0", targets=("a", "b"), package="vllm")
    far = Finding("warning", "far-behind", "vllm 0.21.0 is far behind", targets=("a",), package="vllm")
    elsewhere = Finding("warning", "far-behind", "vllm 0.21.0 is far behind", targets=("c",), package="vllm")
    yanked = Finding("warning", "yanked", "vllm 0.21.0 is yanked", targets=("a",), package="vllm")
    warned = replace(given_up, severity="warning", code="far-behind")
    assert console.fold([yanked, given_up, far, far]) == [warned, yanked]
    assert console.fold([given_up, elsewhere]) == [elsewhere, given_up]


def test_findings_stand_above_the_error_that_ended_their_work(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        with carrying() as report:
            report += (note("one", "do"), change("wrote two"), note("one", "do"))
            with carrying() as inner:
                inner.append(Finding("warning", "far-behind", "three"))
                raise InputError("four")

    with pytest.raises(InputError) as error:
        work()
    console.tell(error.value)
    assert capsys.readouterr().err == "warning: three\nnote: one\nhint: do\nwrote two\nerror: four\n"
