"""The check that the signature beside a lock is of this very lock."""

from __future__ import annotations

from dataclasses import dataclass

from envspec.lock.freshness import Reason
from envspec.lock.signing.model import LOCK, Refusal
from envspec.lock.signing.ssh_keygen import signer_of
from envspec.lock.store import LockFile


@dataclass(frozen=True)
class SignatureStale(Reason):
    """A signature that isn't of this lock: damaged, or the lock changed since. `problem` is what ssh-keygen says."""

    codes = ("signature-stale",)
    problem: str

    @property
    def message(self) -> str:
        return self.problem


def stale_signature(file: LockFile) -> SignatureStale | None:
    """Return what is wrong with the signature of a lock that has one. Raises ToolError without ssh-keygen."""
    if file.signature is None:
        return None
    found = signer_of(file.content, file.signature, LOCK, None)
    return SignatureStale("signature-stale", found.sentence) if isinstance(found, Refusal) else None
