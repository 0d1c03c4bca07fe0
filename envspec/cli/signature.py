"""Signing a lock and asking who signed it: whose key, whom to trust, and what is said."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.cli import inputs, options
from envspec.cli.console import out, say
from envspec.cli.outputs import shown_path
from envspec.errors import AnswerNo, InputError, Place, ToolError
from envspec.signing.model import LOCK, SUFFIX, Refusal, Signer, allowed_keys
from envspec.texts import printable

if TYPE_CHECKING:
    from envspec.lock.store import LockFolder
    from envspec.spec.model import Spec

_SIGNERS_KEY, _SIGNING_KEY = "gpg.ssh.allowedSignersFile", "user.signingKey"
_MOST_SIGNERS = 1 << 20


def sign_lock(path: str, locks_dir: Path | None, key: Path | None, *, as_json: bool) -> int:
    """Sign a spec's lock, which must be fresh and sound, and write the signature beside it.

    Raises SpecError, LockError, UnsoundLock, AnswerNo for a stale lock, InputError for the key, ToolError.
    """
    from envspec.signing.ssh_keygen import sign, signer_of

    spec, lock, file = inputs.read_signed_lock(path, locks_dir, "signature")
    inputs.refuse_stale(spec, lock)
    folder = inputs.folder_of(spec, locks_dir)
    signature = sign(file.content, key or _own_key(), LOCK)
    found = signer_of(file.content, signature, LOCK, None)
    if isinstance(found, Refusal):
        raise ToolError(f"ssh-keygen made a signature that it doesn't take: {found.sentence}")
    folder.sign(signature, file.content)
    if as_json:
        options.print_json("sign", _as_json(spec, folder, signature, found, None))
    else:
        say(f"wrote {folder.path}{SUFFIX}: signed by {found.fingerprint}")
    return 0


def tell_signer(path: str, locks_dir: Path | None, allowed: Path | None, *, as_json: bool) -> int:
    """Say who signed a lock, or why that can't be said: the exit code is 0 or 1. Raises SpecError, LockError,
    InputError where it isn't said who may sign, ToolError."""
    from envspec.signing.ssh_keygen import signer_of

    spec = inputs.read_spec(path)
    folder = inputs.folder_of(spec, locks_dir)
    file = inputs.there(folder.read_signed(), spec)
    signers, source = _signers(allowed)
    found = signer_of(file.content, file.signature, LOCK, signers)
    if as_json:
        options.print_json("sign", _as_json(spec, folder, file.signature, found, source))
    elif isinstance(found, Signer):
        out(f"{folder.path}: signed by {printable(str(found.name))}, {found.fingerprint}: allowed by {source}")
    else:
        out(f"{folder.path}: {printable(found.sentence)}  [{found.code}]")
    if isinstance(found, Signer):
        return 0
    say(f"hint: who may sign runs `envspec sign {spec.path}{inputs.elsewhere(locks_dir)}`, after a look at the lock")
    return AnswerNo.exit_code


def _as_json(
    spec: Spec, folder: LockFolder, signature: bytes | None, found: Signer | Refusal, source: str | None
) -> dict[str, object]:
    signer = {"name": found.name, "key": found.fingerprint} if isinstance(found, Signer) else None
    refusal = {"code": found.code, "message": found.sentence} if isinstance(found, Refusal) else None
    return {
        "ok": refusal is None,
        "spec": spec.path,
        "lock": str(folder.path),
        "signed": signature is not None,
        "signer": signer,
        "refused": refusal,
        "allowed-by": source,
    }


def _signers(given: Path | None) -> tuple[str, str]:
    """Give the text of an allowed_signers file, and where it comes from: the file named, the site's policy, or the
    user's git. A repository's own settings don't count: it mustn't say whom to trust."""
    if given is None:
        from envspec.cli.policy import site_policy

        policy = site_policy()
        if policy is not None and policy.signers:
            return allowed_keys(policy.signers, LOCK), policy.path
        given = _of_git(_SIGNERS_KEY)
    if given is None:
        raise InputError(
            "it isn't said who may sign",
            hint="--allowed-signers FILE, as git has it: a name, then a public key, a line",
        )
    place = Place(str(shown_path(given)))
    try:
        with given.open("rb") as file:
            content = file.read(_MOST_SIGNERS + 1)
        if len(content) > _MOST_SIGNERS:
            raise InputError("this isn't an allowed_signers file: it is larger than 1 MiB", place=place)
        return content.decode(), place.file
    except UnicodeDecodeError:
        raise InputError("this isn't an allowed_signers file: it isn't UTF-8", place=place) from None
    except OSError as error:
        raise InputError(f"the allowed signers can't be read: {error.strerror}", place=place) from None


def _own_key() -> Path:
    key = _of_git(_SIGNING_KEY)
    if key is None:
        raise InputError("it isn't said which key signs", hint="--key ~/.ssh/id_ed25519, or any other SSH key of yours")
    return key


def _of_git(name: str) -> Path | None:
    """Give the path in one of the user's own settings of git; None without, and for what is no file."""
    from envspec.git.program import run_git

    try:
        ran = run_git(["config", "--global", "--type=path", "--get", name], Path(os.sep))
    except ToolError:
        return None
    found = Path(os.fsdecode(ran.stdout).removesuffix("\n"))
    return found if ran.returncode == 0 and found.is_file() else None
