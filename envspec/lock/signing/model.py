"""Signatures as values: their purposes and their signers."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable

from msgspec import Struct

LOCK, REPORT = "envspec-lock", "envspec-report"
"""The namespaces: a signature made for another purpose (a commit, a file) is none of a lock or of a smoke report."""

SUFFIX = ".sig"
MOST_SIGNATURE_BYTES = 64 * 1024
"""The longest signature that is read. One by the longest RSA key takes 6 kB."""

PUBLIC_KEY = r"(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/]+={0,2}(?: [!-~][ -~]*)?"
"""One line of a public key file: the kind, the key, and whose it is."""


class Signer(Struct, frozen=True):
    """The signer: the key's name among the allowed signers, None where none were asked, and its fingerprint
    (`SHA256:…`)."""

    name: str | None
    fingerprint: str


def signed_thing(namespace: str) -> str:
    """Name the kind of document that is signed in a namespace: "lock", "report"."""
    return namespace.removeprefix("envspec-")


def allowed_keys(keys: Iterable[str], namespace: str) -> str:
    """Render public keys as the text of an allowed_signers file (ssh-keygen(1), ALLOWED SIGNERS) for one purpose.

    A key is known by its comment there, as far as that can be a principal's name, else by its number.
    """
    lines = []
    for number, key in enumerate(keys, start=1):
        kind, text, *comment = key.split(None, 2)
        name = comment[0] if comment and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9@._+-]*", comment[0]) else f"key-{number}"
        lines.append(f'{name} namespaces="{namespace}" {kind} {text}\n')
    return "".join(lines)


def is_public_key(line: str) -> bool:
    """Return whether a line of a public key file holds a whole key of the kind that it names, in base64's one spelling
    of it: two keys are the same, then, if their texts are. RFC 4253, 6.6: fields, each after its length."""
    kind, text = line.split(None, 2)[:2]
    try:
        key = base64.b64decode(text, validate=True)
    except ValueError:
        return False
    fields, at = [], 0
    while at < len(key):
        end = at + 4 + int.from_bytes(key[at : at + 4], "big")
        fields.append(key[at + 4 : end])
        at = end
    whole = at == len(key) and len(fields) > 1 and fields[0] == kind.encode()
    return whole and base64.b64encode(key).decode() == text
