"""Public keys as an allowed_signers file: each under a name, for one purpose, and nothing else."""

import pytest

from envspec.lock.signing.model import allowed_keys


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
