"""The table of packages whose wheels hold code for the host alone, made of the wheels."""

from datetime import date

import pytest
from support.cubins import cubin
from test_refresh import Fake, names

from tools.refresh.__main__ import HOST_CODE_TABLE
from tools.refresh.host_code_table import newest_wheel, refreshed_host_code

TABLE = """# Packages.
as-of = "2026-11-01"
sources.scan = "scan of each member, 2 wheels"

names = \"\"\"
alpha beta
\"\"\"
"""
LINUX = "manylinux_2_28_x86_64"
HOST = b"\x7fELF\x02\x01 nothing for GPUs"
DAY = date(2026, 11, 27)


def index(**members: bytes) -> Fake:
    pages = {name: names(name, "1.0", (12,), LINUX) for name in members}
    return Fake(pages, {}, members={name: {f"{name}/_c.so": content} for name, content in members.items()})


def refreshed(source: Fake, *asked: str) -> tuple[str, str]:
    text, notes = refreshed_host_code(TABLE, asked, source, DAY)
    return text.split('"""')[1].strip(), " ".join(notes)


def test_a_package_is_listed_by_its_wheels_content_alone() -> None:
    source = index(alpha=HOST, beta=cubin(80, abi=7), gamma=HOST, delta=b"\x7fELF\0libcudart.so.12\0")
    assert refreshed(source, "Gamma", "delta") == ("alpha beta gamma", "")
    assert refreshed(source) == ("alpha", "")
    text, _ = refreshed_host_code(TABLE, ("gamma",), source, DAY)
    assert 'as-of = "2026-11-27"' in text and "scan of each member, 3 wheels" in text


def test_what_cant_be_decided_stays_and_is_told() -> None:
    listed, notes = refreshed(index(beta=HOST))
    assert listed == "alpha beta" and "alpha has no compiled wheel for linux-64" in notes
    assert refreshed_host_code(TABLE, ("beta",), index(beta=HOST), DAY)[0] == TABLE


@pytest.mark.parametrize(
    ("version", "tag", "taken"),
    [
        ("2.0", LINUX, True),
        ("2.0rc1", LINUX, False),
        ("2.0", "musllinux_1_2_x86_64", False),
        ("2.0", "manylinux_2_28_aarch64", False),
        ("0.9", LINUX, False),
    ],
)
def test_the_newest_wheel(version: str, tag: str, taken: bool) -> None:
    old, new = names("acme", "1.0", (11, 12), LINUX), names("acme", version, (12,), tag)
    source = Fake({"acme": ["acme-1.0.tar.gz", *old, *new]}, {})
    assert newest_wheel(source.files("acme")) == (new if taken else old)[0]


def test_the_shipped_table_has_the_form_that_is_written() -> None:
    text = HOST_CODE_TABLE.read_text(encoding="utf-8")
    found, _ = refreshed_host_code(text, ("acme",), index(acme=HOST), DAY)
    before, after = (one.split('"""')[1].split() for one in (text, found))
    assert after == sorted([*before, "acme"])
