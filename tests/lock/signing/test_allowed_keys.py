"""Public keys as an allowed_signers file: each under a name, for one purpose, and nothing else; and what is refused."""

import shutil

import pytest

from envspec.base.finding import Finding
from envspec.lock.signing.model import MOST_SIGNATURE_BYTES, allowed_keys
from envspec.lock.signing.ssh_keygen import signer_of


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("ssh-ed25519 AAAA ada@example.org", "ada@example.org"),
        ("ssh-ed25519 AAAA", "key-1"),
        # what would be a pattern, a list, a negation, options or a quotation there
        ("ssh-ed25519 AAAA *", "key-1"),
        ("ssh-ed25519 AAAA ada,eve", "key-1"),
        ("ssh-ed25519 AAAA !ada", "key-1"),
        ('ssh-ed25519 AAAA "ada', "key-1"),
        ("ssh-ed25519 AAAA ada the second", "key-1"),
    ],
)
def test_a_key_has_a_name(key: str, name: str) -> None:
    assert allowed_keys([key], "demo") == f'{name} namespaces="demo" ssh-ed25519 AAAA\n'


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen isn't installed")
@pytest.mark.parametrize(
    "signature", [None, b"damaged", b"x" * (MOST_SIGNATURE_BYTES + 1)], ids=["none", "damaged", "too long"]
)
def test_each_refusal_is_an_error(signature: bytes | None) -> None:
    found = signer_of(b"content", signature, "envspec-lock", None)
    assert isinstance(found, Finding) and found.severity == "error"
