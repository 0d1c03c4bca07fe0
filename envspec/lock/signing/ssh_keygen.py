"""Runs of `ssh-keygen -Y`, which does all cryptography.

The signed content goes in by stdin, from memory: the judged bytes are signed and checked, even if the files change
meanwhile. The signature and the allowed signers lie in a folder that only this user can enter.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from envspec.base import programs
from envspec.base.errors import InputError, Place, StorageError, ToolError
from envspec.base.finding import Finding
from envspec.lock.signing.model import MOST_SIGNATURE_BYTES, Signer, signed_thing

_SECONDS = 60
_FINGERPRINT = re.compile(r"\bkey (SHA256:[A-Za-z0-9+/]{43})\b")
_USAGE = re.compile(r"^usage: ", re.MULTILINE)
_SIGNATURE, _SIGNERS, _REVOKED = "signature", "allowed_signers", "revoked"


def sign(content: bytes, key: Path, namespace: str) -> bytes:
    """Sign with a private key, or with the agent's for a public one; ssh-keygen asks for a passphrase by itself.

    Raises InputError for a key that can't sign, ToolError.
    """
    if not key.is_file():
        raise InputError("there is no such key file", place=Place(str(key)), hint="ssh-keygen -t ed25519 makes a key")
    ran = _run(["-Y", "sign", "-q", "-f", str(key.absolute()), "-n", namespace], content, seconds=None)
    if ran.returncode or not ran.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----\n"):
        hint = "name the private key, or a public key whose private key the SSH agent holds"
        raise InputError(f"ssh-keygen can't sign with this key: {_reason(ran)}", place=Place(str(key)), hint=hint)
    return ran.stdout


def signer_of(
    content: bytes, signature: bytes | None, namespace: str, allowed: str | None, revoked: bytes | None = None
) -> Signer | Finding:
    """Return the signer of a signature, by the text of an allowed_signers file, or a finding where there is none. Keys
    must be valid now: nothing proves an earlier time. If `allowed` is None, any right signature will do, and its signer
    has no name. `revoked` is a revocation file: a KRL, or public keys (ssh-keygen(1), KEY REVOCATION LISTS).

    A signature is wrong if it is damaged, of another purpose or of other content: the signed content may have changed
    since. A signature is foreign if its key may not sign.

    Raises ToolError, StorageError.
    """
    if signature is None:
        return Finding("error", "signature-missing", f"the {signed_thing(namespace)} isn't signed")
    if len(signature) > MOST_SIGNATURE_BYTES:
        return Finding("error", "signature-wrong", f"the signature is longer than {MOST_SIGNATURE_BYTES // 1024} KiB")
    try:
        with TemporaryDirectory(prefix="envspec-") as name:
            folder = Path(name)
            (folder / _SIGNATURE).write_bytes(signature)
            ran = _run(["-Y", "check-novalidate", "-n", namespace, "-s", _SIGNATURE], content, folder)
            if ran.returncode:
                message = f"the signature isn't one of this {signed_thing(namespace)}: {_reason(ran)}"
                return Finding("error", "signature-wrong", message)
            match = _FINGERPRINT.search(ran.stdout.decode(errors="replace"))
            fingerprint = match[1] if match else "a key"
            if allowed is None:
                return Signer(None, fingerprint)
            (folder / _SIGNERS).write_text(allowed, encoding="utf-8")
            if revoked is not None:
                (folder / _REVOKED).write_bytes(revoked)
            return _find_signer(content, namespace, folder, fingerprint)
    except OSError as error:
        raise StorageError(f"the folder for temporary files can't be written: {error.strerror}") from None


def _find_signer(content: bytes, namespace: str, folder: Path, fingerprint: str) -> Signer | Finding:
    files = ["-f", _SIGNERS, "-s", _SIGNATURE]
    ran = _run(["-Y", "find-principals", *files], None, folder)
    names = ran.stdout.decode(errors="replace").splitlines() if ran.returncode == 0 else []
    what = signed_thing(namespace)
    for name in filter(None, names):
        command = ["-Y", "verify", *files, "-I", name, "-n", namespace]
        ran = _run(command, content, folder)
        if ran.returncode:
            continue
        # ssh-keygen gives the same answer for a key that is revoked and for a file that it can't read
        if (folder / _REVOKED).is_file() and _run([*command, "-r", _REVOKED], content, folder).returncode:
            message = f"the key that signed the {what}, {fingerprint}, is revoked, or the revocation file is damaged"
            return Finding("error", "signature-foreign", message)
        return Signer(name, fingerprint)
    reason = _reason(ran)
    why = "" if reason == "No principal matched." else f": {reason}"
    message = f"the key that signed the {what}, {fingerprint}, may not sign {what}s{why}"
    return Finding("error", "signature-foreign", message)


def _run(
    arguments: Sequence[str], content: bytes | None, folder: Path = programs.ROOT, *, seconds: float | None = _SECONDS
) -> subprocess.CompletedProcess[bytes]:
    program = programs.find_program("ssh-keygen", os.environ)
    if program is None:
        hint = "install OpenSSH's client (8.2 or newer), or put it on PATH"
        raise ToolError("ssh-keygen isn't installed, and signatures are made and checked by it", hint=hint)
    try:
        ran = programs.run([program, *arguments], os.environ, folder, given=content or b"", seconds=seconds)
    except subprocess.TimeoutExpired:
        raise ToolError(f"ssh-keygen gave no answer in {_SECONDS} s") from None
    except OSError as error:
        raise ToolError(f"ssh-keygen can't be started: {error.strerror}") from None
    if ran.returncode and _USAGE.search(ran.stderr.decode(errors="replace")):
        raise ToolError("this ssh-keygen knows no signatures", hint="install OpenSSH 8.2 or newer")
    if ran.returncode and b"No user exists for uid" in ran.stderr:
        # of a container that runs as any number: it is no fault of the signature's
        raise ToolError(f"ssh-keygen needs a user: {_reason(ran)}", hint="give this uid a line in /etc/passwd")
    if ran.returncode < 0:
        raise ToolError(f"ssh-keygen was ended by signal {-ran.returncode}")
    return ran


def _reason(ran: subprocess.CompletedProcess[bytes]) -> str:
    """Return ssh-keygen's reason: its first line of output that gives one."""
    output = ran.stderr.decode(errors="replace").splitlines()
    lines = [line.strip() for line in output if line.strip() and not line.startswith("Signing ")]
    return lines[0].removeprefix("Signature verification failed: ") if lines else f"exit code {ran.returncode}"
