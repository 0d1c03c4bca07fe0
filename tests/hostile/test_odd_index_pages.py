"""Pages of an index in odd charsets and spellings: read as UTF-8, or named as no page of an index."""

import zlib

import pytest
from msgspec.structs import replace
from support.index import Answer, Fault, Index
from support.machine import Machine
from support.packages import wheel

pytestmark = pytest.mark.e2e

ALPHA = wheel("alpha", "1.0")
PAGE = b'<html><body><a href="/files/alpha-1.0-py3-none-any.whl">alpha-1.0-py3-none-any.whl</a></body></html>'
SPEC = "[env]\npython = '3.12'\n[pip]\ndependencies = ['alpha']\n[targets.cpu]\nplatform = 'linux-64'\n"


def in_charset(charset: str, body: bytes) -> Fault:
    return lambda handler, answer: replace(answer, kind=f"text/html; charset={charset}", body=body)


@pytest.mark.parametrize("charset", ["zlib_codec", "x" * 30_000, "utf-16", "utf-7", ""], ids=lambda one: one[:9])
@pytest.mark.parametrize("form", ["plain", "zlib", "utf-16"])
def test_a_charset(machine: Machine, index: Index, charset: str, form: str) -> None:
    bodies = {"plain": PAGE, "zlib": zlib.compress(PAGE)}
    index.add(ALPHA)
    index.fail("/simple/alpha/", in_charset(charset, bodies.get(form) or PAGE.decode().encode(form)))
    machine.default = index.url
    ran = machine.envspec("lock", machine.spec(SPEC))
    if form == "plain":
        assert ran.status == 0, ran.err
    else:
        assert ran.status == 3 and "isn't an index page" in ran.err, ran.err


@pytest.mark.parametrize("form", ["json", "html"])
def test_a_hash_in_capitals(machine: Machine, index: Index, form: str) -> None:
    """uv takes it; the lock has it in small letters."""

    def capitals(handler: object, answer: Answer) -> Answer:
        return replace(answer, body=answer.body.replace(ALPHA.sha256.encode(), ALPHA.sha256.upper().encode()))

    index.form = form
    index.add(ALPHA)
    index.fail("/simple/alpha/", capitals)
    machine.default = index.url
    machine.envspec("lock", machine.spec(SPEC), status=0)
    assert f'sha256 = "{ALPHA.sha256}"' in machine.lock_path().read_text()
