"""Quoting: what each format's own reader makes of a token is the text that went in."""

import json
import re
import shlex
import shutil
import subprocess

import pytest
from hypothesis import given, strategies as st
from support.matrix import first_by_day

from envspec.export import quote

HOSTILE = [
    "", " ", "a b", '"; rm -rf /', "$(touch x)", "`x`", "\\", "\\\\n", "'", "'''", '"""', "${x}", "$${x}", "$$",
    "''${x}",
    "#", "%", "é", "\u2028", "\u202e", "\U0001f600", "-n", "=", "a=b", "~", "*", "!x", "\t", "\x1b[2J", "yes", "1.0",
    "2026-01-01", "null", ": ", "- a", "&a", "{}", "[", "]]", "--[[", "\x7f", "\x85", "\xa0", "\ufeff",
]  # fmt: skip
LINES = ["a\nb", "\n", "a\r\nb", "\r", "a\u2028b", "a\u2029b", "a\x85b", "a\x0bb", "a\x0cb", "a\x1cb"]
text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@pytest.mark.parametrize("given_text", [*HOSTILE, *LINES])
def test_a_shell_reads_it_back(given_text: str) -> None:
    ran = subprocess.run(["sh", "-c", f"printf %s {quote.shell(given_text)}"], capture_output=True, check=True)
    assert ran.stdout.decode() == given_text


@given(text)
def test_a_lexer_reads_it_back(given_text: str) -> None:
    assert shlex.split(quote.shell(given_text)) == [given_text]


def unquoted(token: str) -> str:
    """A Dockerfile's double-quoted word, by BuildKit's rules: a backslash counts before `"`, `$` and itself."""
    assert token[0] == token[-1] == '"'
    inside = token[1:-1]
    assert not re.search(r'(?<!\\)(?:\\\\)*[$"]', inside), "a bare quote or dollar"
    return re.sub(r'\\([\\"$])', r"\1", inside)


@given(text.filter(lambda t: t.splitlines() in ([], [t])))
def test_a_dockerfile_reads_it_back(given_text: str) -> None:
    token = quote.dockerfile(given_text)
    assert unquoted(token) == given_text and len(token.splitlines()) == 1


@pytest.mark.parametrize("given_text", LINES)
def test_a_dockerfile_holds_no_line_end(given_text: str) -> None:
    with pytest.raises(quote.Unquotable, match="line end"):
        quote.dockerfile(given_text)


@pytest.mark.parametrize("writer", [quote.shell, quote.dockerfile, quote.nix])
def test_a_nul_is_refused(writer: object) -> None:
    assert callable(writer)
    with pytest.raises(quote.Unquotable, match="NUL"):
        writer("a\0b")


@pytest.mark.parametrize("given_text", first_by_day(9, [*HOSTILE, *LINES]))
def test_nix_reads_it_back(given_text: str) -> None:
    nix = shutil.which("nix-instantiate")
    if nix is None:
        pytest.skip("nix-instantiate is missing")
    command = [nix, "--eval", "--strict", "--json", "--expr", quote.nix(given_text)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == given_text


@pytest.mark.parametrize("given_text", [*HOSTILE, *LINES, "a\0b", "\0001"])
def test_lua_reads_it_back(given_text: str) -> None:
    lua = shutil.which("lua") or shutil.which("lua5.4") or shutil.which("lua5.3")
    if lua is None:
        pytest.skip("lua is missing")
    ran = subprocess.run([lua, "-e", f"io.write({quote.lua(given_text)})"], capture_output=True, check=True)
    assert ran.stdout.decode() == given_text


@given(st.text())
def test_a_comment_stays_one_line(given_text: str) -> None:
    assert len(quote.comment(given_text).splitlines()) <= 1
