"""SSH keys of a test's own, made by the real ssh-keygen."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.oci import skip_without


@dataclass(frozen=True)
class Key:
    path: Path

    @property
    def public(self) -> str:
        """The line of the public key's file."""
        return self.path.with_suffix(".pub").read_text(encoding="utf-8").strip()


def make_key(folder: Path, name: str = "ada", kind: str = "ed25519") -> Key:
    """Make a key whose comment is `name`@example.org."""
    skip_without("ssh-keygen")
    path = folder / name
    run = ["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", f"{name}@example.org", "-f", str(path)]
    subprocess.run(run, check=True, capture_output=True)
    return Key(path)


def allow(path: Path, *keys: Key, options: str = "") -> Path:
    """Write an allowed_signers file: each key under its file's name at example.org."""
    words = f" {options}" if options else ""
    path.write_text("".join(f"{key.path.name}@example.org{words} {key.public}\n" for key in keys), encoding="utf-8")
    return path


def signature(content: bytes, key: Key, namespace: str) -> bytes:
    """Sign by hand, as anyone may."""
    run = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(key.path), "-n", namespace]
    return subprocess.run(run, input=content, check=True, capture_output=True).stdout
