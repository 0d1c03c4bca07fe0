"""Which addresses lie below another, and which only look as if."""

import re

import pytest
from hypothesis import given, strategies as st

from envspec.lock.model import GitSource, Pin
from envspec.lock.rules.requirements import pinned_address
from envspec.packages.address import is_within, parse_address

ORG = "https://code.example/our-org"


@pytest.mark.parametrize(
    "url",
    [
        ORG,
        f"{ORG}/",
        f"{ORG}/repo.git",
        "https://CODE.example:443/our-org/repo",
        "https://user:pw@code.example/our-org/repo",
        "https://code.example./our-org/x",
        f"{ORG}/a?x=1#y",
    ],
)
def test_within(url: str) -> None:
    assert is_within(url, ORG) and is_within(url, f"{ORG}/")


@pytest.mark.parametrize(
    "url",
    [
        "https://code.example/our-org-evil/x",
        "https://code.example/",
        "https://code.example.evil.example/our-org/x",
        "https://code.example@evil.example/our-org/x",
        "https://evil.example/https://code.example/our-org/x",
        "https://evil.example/our-org/x",
        "http://code.example/our-org/x",
        "https://code.example:8443/our-org/x",
        f"{ORG}/../evil/x",
        f"{ORG}/%2e%2e/evil/x",
        f"{ORG}/%252e%252e/evil/x",
        f"{ORG}%2f..%2fevil/x",
        f"{ORG}/..\\evil",
        f"{ORG}/%5c..%5cevil",
        "https://code.example\\@evil.example/our-org/x",
        "https://[::1/our-org/x",
        "https://code.example:x/our-org",
        "//code.example/our-org/x",
        "/our-org/x",
        "",
        "file:///our-org/x",
    ],
)
def test_not_within(url: str) -> None:
    assert not is_within(url, ORG)


def test_a_name_holds_no_address() -> None:
    assert not is_within("pypi", "pypi") and not is_within("https://pypi", "pypi")
    assert is_within("file:///srv/wheels/x", "file:///srv/wheels") and not is_within(
        "file:///srv/x", "file:///srv/wheels"
    )


@given(st.text(max_size=60))
def test_anything_else_is_answered(text: str) -> None:
    assert is_within(f"{ORG}/{text}", ORG) in (True, False)
    assert not is_within(text, ORG) or text.strip().lower().startswith("https://")


PIECES = ("https://", "ssh://", "a", "B", "@", ":", "/", "\\", "\t", "..", "%2e", "443", "0", "٤", "ü", "?", ".")


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_what_is_an_address_is_the_same_one_to_the_parser_of_uv_and_rattler(pieces: list[str]) -> None:
    rattler = pytest.importorskip("rattler")
    url = "".join(("https://", *pieces))
    try:
        one = parse_address(url)
    except ValueError:
        return
    port = "" if one.port is None else f":{one.port}"
    query = f"?{one.query}" if "?" in url else ""
    theirs = re.sub("^https://[^/]*@", "https://", rattler.Channel(url).base_url)
    # rattler ends a path with a slash, and leaves those that are there
    path = one.path if one.path.endswith("/") else f"{one.path}/"
    assert theirs.rstrip("/") == f"https://{one.host}{port}{path}{query}".rstrip("/")


@pytest.mark.parametrize("port", ["٤٤٣", "+443", "4_4", "65536", " 443"])
def test_a_port_is_ascii_digits(port: str) -> None:
    with pytest.raises(ValueError, match=r"host and a port|as it is|no port"):
        parse_address(f"https://code.example:{port}/x")


def test_a_pin_whose_repository_has_a_fragment_of_its_own_is_at_no_commit() -> None:
    """Its commit would stand in the fragment, and its revision would be another."""
    for url, is_one in (("https://code.example/a", True), ("https://code.example/a@v1#", False)):
        pin = Pin("pip", "a", "1", "git", None, git=GitSource(url, "0" * 40))
        assert (pinned_address(pin) is not None) is is_one


@pytest.mark.parametrize("odd", ["\\", " ", "\t", "\x7f", "\n"])
def test_a_login_ends_no_host(odd: str) -> None:
    """WHATWG's parsers, as uv's, take what stands before a backslash for the host, and drop tabs and line ends."""
    with pytest.raises(ValueError, match="can't stand in an address"):
        parse_address(f"https://evil.example{odd}@code.example/a")


def test_a_file_is_the_one_whose_hash_the_requirement_names() -> None:
    url = "https://code.example/a-1.0-py3-none-any.whl"
    asked = parse_address(f"{url}#sha256={'A' * 64}")
    assert asked.names(parse_address(f"{url}#sha256={'a' * 64}")) and parse_address(url).names(asked)
    assert not asked.names(parse_address(f"{url}#sha256={'b' * 64}")) and not asked.names(parse_address(url))


@pytest.mark.parametrize("said", ["subdirectory=a&subdirectory=b", f"sha256={'a' * 64}&sha256={'b' * 64}"])
def test_a_fragment_that_says_a_thing_twice(said: str) -> None:
    with pytest.raises(ValueError, match="twice"):
        parse_address(f"https://code.example/a.zip#{said}")
