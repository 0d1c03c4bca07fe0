"""No password leaves: the user part of every URL goes, whatever stands around it."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envspec.redact import redact


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("https://user:secret@host/simple", "https://host/simple"),
        ("https://token@host/simple", "https://host/simple"),
        ("https://:secret@host:8080/a?b#c", "https://host:8080/a?b#c"),
        ("git+https://user:secret@host/repo.git@v1", "git+https://host/repo.git@v1"),
        ("a `https://u:p@a/` and (https://u:p@b/), done", "a `https://a/` and (https://b/), done"),
        ("https://u:p@ss@host/", "https://host/"),
        ("https://u:p%40ss@host/", "https://host/"),
        ("write to me@example.org", "write to me@example.org"),
        ("https://host/path@1.0", "https://host/path@1.0"),
        ("name @ https://u:p@host/x.whl", "name @ https://host/x.whl"),
        ("https://host/", "https://host/"),
        ("", ""),
    ],
)
def test_user_parts(text: str, bare: str) -> None:
    assert redact(text) == bare


def test_secrets_wherever_they_stand() -> None:
    assert redact("hunter2 in https://h/?key=hunter2", ["hunter2", ""]) == "**** in https://h/?key=****"


scheme = st.sampled_from(["https", "http", "git+https", "file", "ssh+x", "HTTPS"])
anything = st.text(min_size=1, max_size=20).map(lambda text: quote(text, safe="!$&'()*+,;=-._~"))
around = st.text(st.characters(codec="utf-8", exclude_characters="@:/"), max_size=20)


@given(scheme, anything, st.none() | anything, around, around)
def test_no_user_part_survives(name: str, user: str, password: str | None, before: str, after: str) -> None:
    secret = user if password is None else f"{user}:{password}"
    text = f"{before} {name}://{secret}@host.example/simple {after}"
    clean = redact(text)
    assert clean == f"{before} {name}://host.example/simple {after}"
    assert urlsplit(clean.split()[-1] if not after.strip() else f"{name}://host.example/simple").username is None


@given(st.text(max_size=200))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(st.text(st.sampled_from("ab:/@ht%'\" \n"), max_size=40))
def test_texts_full_of_colons_slashes_and_at_signs(text: str) -> None:
    clean = redact(text)
    assert redact(clean) == clean
    assert len(clean) <= len(text)
