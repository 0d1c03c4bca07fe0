"""Publishers: what an index claims of a file is recorded, and proved by its attestations (PEP 740).

The attestation is a real one, as PyPI served it, and its roots of trust are those of the installed `sigstore`. Its file
itself isn't needed: the loopback index lists it with its hash, and the spec states what it requires.
"""

import json
from pathlib import Path

import pytest
from forging import EVIL
from msgspec.structs import replace
from support.index import Index, status
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine, cpu
from support.packages import Dist, wheel
from test_verify import codes, verify

from envspec.lock.model import Lock, Pin, Publisher
from envspec.review.verify import indexes

SDIST = Dist("pypi-attestations", "0.0.19", "pypi_attestations-0.0.19.tar.gz", b"not needed", None)
SHA256 = "9bb1add04b1b4e182be6b0b80931593f7a291eb49d69b4fd728a5d4cbcdc4bd3"
OWN = Publisher("GitHub", "trailofbits/pypi-attestations", "release.yml")
PIP = """allow-source = ['pypi-attestations']
metadata = [{ name = 'pypi-attestations', version = '0.0.19', dependencies = [] }]"""


@pytest.fixture(scope="module")
def recorded(root: Path) -> bytes:
    return (root / "tests" / "data" / "attested" / f"{SDIST.file}.provenance").read_bytes()


def serve(index: Index, provenance: bytes | None, sha256: str = SHA256) -> None:
    index.add(SDIST)
    index.lie_about(SDIST, sha256)
    if provenance is not None:
        index.attest(SDIST, provenance)


def lock(machine: Machine, publisher: Publisher = OWN, sha256: str = SHA256) -> Lock:
    pin = pip_pin(SDIST)
    assert pin.artifact is not None
    return write_lock(
        machine, [replace(pin, publisher=publisher, artifact=replace(pin.artifact, sha256=sha256))], pip=PIP
    )


def by(publisher: Publisher, provenance: bytes) -> bytes:
    document = json.loads(provenance)
    said = document["attestation_bundles"][0]["publisher"]
    said |= {"kind": publisher.kind, "repository": publisher.repository, "workflow": publisher.workflow}
    return json.dumps(document).encode()


def test_a_publisher_proved_by_a_recorded_attestation(machine: Machine, index: Index, recorded: bytes) -> None:
    pytest.importorskip("pypi_attestations")
    serve(index, recorded)
    lock(machine)
    ran, document = verify(machine)
    assert ran.status == 0 and document["attested"] == 1 and document["unproved"] == [], document
    assert "publishers: 1 proved by attestations" in machine.envspec("verify", SPEC).out


def test_without_the_extra_it_is_the_index_s_claim(
    machine: Machine, index: Index, recorded: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "attestor", lambda: None)
    serve(index, recorded)
    lock(machine)
    ran, document = verify(machine)
    assert ran.status == 0 and document["attested"] == 0
    assert document["unproved"][0]["reason"].startswith("the publisher: claimed by the index")
    lock(machine, Publisher("GitHub", "evil/evil", "release.yml"))
    assert codes(verify(machine)[1]) == {"other-publisher"}, "a change of publisher needs no extra to be seen"


def test_another_publisher_than_the_index_names(machine: Machine, index: Index, recorded: bytes) -> None:
    serve(index, recorded)
    for other in (replace(OWN, repository="evil/evil"), replace(OWN, workflow="evil.yml"), replace(OWN, kind="GitLab")):
        lock(machine, other)
        ran, document = verify(machine)
        assert ran.status == 1 and codes(document) == {"other-publisher"}, document


def test_a_publisher_that_the_attestation_is_not_of(machine: Machine, index: Index, recorded: bytes) -> None:
    """Index and lock agree, and the certificate doesn't."""
    pytest.importorskip("pypi_attestations")
    evil = replace(OWN, repository="evil/evil")
    serve(index, by(evil, recorded))
    lock(machine, evil)
    ran, document = verify(machine)
    assert ran.status == 1 and codes(document) == {"wrong-attestation"}, document


def test_a_mirror_that_lies_consistently_is_caught_by_the_attestation(
    machine: Machine, index: Index, recorded: bytes
) -> None:
    """Lock and index have another file under this name, with the attestation of the real one."""
    pytest.importorskip("pypi_attestations")
    serve(index, recorded, EVIL)
    lock(machine, sha256=EVIL)
    ran, document = verify(machine)
    assert ran.status == 1 and codes(document) == {"wrong-attestation"}, document


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"attestation_bundles": 1}', b"<html>"])
def test_what_is_no_provenance_is_not_a_forgery(machine: Machine, index: Index, body: bytes) -> None:
    serve(index, body)
    lock(machine)
    ran, document = verify(machine)
    assert ran.status == 3 and document["forged"] == [], document


def test_attestations_that_are_gone_leave_it_unproved(machine: Machine, index: Index) -> None:
    serve(index, None)
    lock(machine)
    ran, document = verify(machine)
    assert ran.status == 0 and "has no attestations" in document["unproved"][0]["reason"], document


# What `lock` records


def claim(repository: str, **more: object) -> bytes:
    said = {"kind": "GitHub", "repository": repository, "workflow": "release.yml", "environment": None, **more}
    return json.dumps({"version": 1, "attestation_bundles": [{"publisher": said, "attestations": []}]}).encode()


def publisher(lock: Lock) -> Publisher | None:
    pin: Pin | None = lock.targets[0].pin("app")
    assert pin is not None
    return pin.publisher


@pytest.mark.slow
def test_lock_records_who_the_index_says_published_a_file(machine: Machine, index: Index) -> None:
    app = wheel("app", "1.0")
    index.add(app)
    index.attest(app, claim("a/app", environment="pypi"))
    machine.spec(cpu("app"))
    assert publisher(machine.locked()) == Publisher("GitHub", "a/app", "release.yml", "pypi")
    assert 'repository = "a/app"' in machine.lock_path().read_text("utf-8")
    assert machine.envspec("check", "specs/demo.toml").status == 0
    index.asked.clear()
    index.add(wheel("other", "1.0"))
    machine.spec(cpu("app", "other"))
    assert publisher(machine.locked()) == Publisher("GitHub", "a/app", "release.yml", "pypi")
    assert not index.paths("/integrity/"), "what the lock has isn't asked again"


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        claim("a/b\u202e"),
        claim("x" * 300),
        claim("a/b", kind="\x1b[2J"),
        json.dumps({"attestation_bundles": []}).encode(),
    ],
    ids=["a web page", "bidi controls", "too long", "an escape sequence", "nobody"],
)
def test_what_an_index_says_ill_of_publishers_stops_nothing(machine: Machine, index: Index, body: bytes) -> None:
    app = wheel("app", "1.0")
    index.add(app)
    index.attest(app, body)
    machine.spec(cpu("app"))
    assert publisher(machine.locked()) is None


def test_a_server_of_attestations_that_is_down_stops_nothing(machine: Machine, index: Index) -> None:
    app = wheel("app", "1.0")
    index.add(app)
    index.attest(app, claim("a/app"))
    index.fail("/integrity/", status(500))
    machine.spec(cpu("app"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 0 and "names no publishers" in ran.err, ran.err
