"""Signing a lock or a smoke report and asking who signed it: whose key, and whom to trust."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from msgspec import Struct

from envspec.app import inputs
from envspec.app.outputs import shown_path
from envspec.app.site_policy import site_policy
from envspec.base import atomic
from envspec.base.errors import InputError, Place, StorageError, ToolError
from envspec.base.finding import Finding
from envspec.base.open_folder import locate
from envspec.base.places import config_home, home_of
from envspec.base.plain_files import read_operand
from envspec.lock.signing.model import LOCK, MOST_SIGNATURE_BYTES, REPORT, SUFFIX, Signer, allowed_keys
from envspec.lock.signing.ssh_keygen import sign, signer_of
from envspec.prove.smoke.report.read import report_bytes, report_in
from envspec.prove.smoke.report.result import is_pretended
from envspec.review.git.program import git_error, run_git

_MOST_MIB = 1
_KRL = b"SSHKRL\n\0"

ALLOWED_SIGNERS = ".allowed_signers"
"""A repository's own list of who may sign, at its top. Who checks signatures names it (`--allowed-signers`): nothing in
a repository says by itself whom to trust. A review of a signed lock tells what changed in it."""


class Signed(Struct, frozen=True):
    """A lock or a report, and who signed it, or why that can't be said.

    about   the paths: `spec` and `lock`, or `report`
    signed  whether there is a signature
    source  who says who may sign, None where that wasn't asked
    """

    path: str
    namespace: str
    about: Mapping[str, str]
    signed: bool
    signer: Signer | Finding
    source: str | None = None


def sign_lock(path: str, locks_dir: Path | None, key: Path | None) -> Signed:
    """Sign a spec's lock, which must be fresh and sound, and write the signature beside it.

    Raises SpecError, LockError, UnsoundLock, AnswerNo for a stale lock, InputError for the key, ToolError.
    """
    spec, _, file = inputs.read_signed_lock(path, locks_dir, "signature", "refuse")
    folder = inputs.folder_of(spec, locks_dir)
    signature, signer = _signature(file.content, key, LOCK)
    folder.sign(signature, file.content)
    return Signed(str(folder.path), LOCK, {"spec": spec.path, "lock": str(folder.path)}, True, signer)


def sign_report(path: Path, key: Path | None) -> Signed:
    """Sign a report of the smoke check, and write the signature beside it.

    Raises InputError for the report, for one of a pretended GPU and for the key, NotPlain, StorageError, ToolError.
    """
    content = report_bytes(path)
    if is_pretended(report_in(content, str(path))):
        raise InputError("this report is of a pretended GPU, which proves nothing", place=Place(str(path)))
    signature, signer = _signature(content, key, REPORT)
    try:
        with locate(path.parent).open() as folder:
            atomic.replace_files(folder, {f"{path.name}{SUFFIX}": signature})
    except OSError as error:
        raise StorageError(f"{path}{SUFFIX} can't be written: {error.strerror}") from None
    return Signed(str(path), REPORT, {"report": str(path)}, True, signer)


def _signature(content: bytes, key: Path | None, namespace: str) -> tuple[bytes, Signer]:
    signature = sign(content, key or _own_key(), namespace)
    signer = signer_of(content, signature, namespace, None)
    if not isinstance(signer, Signer):
        raise ToolError(f"ssh-keygen made a signature that it doesn't take: {signer.message}")
    return signature, signer


def signer_of_lock(path: str, locks_dir: Path | None, allowed: Path | None, revoked: Path | None) -> Signed:
    """Find the signer of a lock. Raises SpecError, LockError, InputError without allowed signers, ToolError."""
    spec = inputs.read_spec(path)
    folder = inputs.folder_of(spec, locks_dir)
    file = inputs.require_lock(folder.read_with_signature(), spec)
    trusted, source = _signers(allowed, LOCK)
    signer = signer_of(file.content, file.signature, LOCK, trusted, _revoked_keys(revoked))
    about = {"spec": spec.path, "lock": str(folder.path)}
    return Signed(str(folder.path), LOCK, about, file.signature is not None, signer, source)


def signer_of_report(path: Path, allowed: Path | None, revoked: Path | None) -> Signed:
    """Find the signer of a report of the smoke check. Raises InputError, also without allowed signers, NotPlain,
    StorageError, ToolError."""
    content = report_bytes(path)
    report_in(content, str(path))
    try:
        with locate(path.parent).open() as folder:
            signature = folder.read(f"{path.name}{SUFFIX}", MOST_SIGNATURE_BYTES + 1)
    except OSError as error:
        raise StorageError(f"{path}{SUFFIX} can't be read: {error.strerror}") from None
    trusted, source = _signers(allowed, REPORT)
    signer = signer_of(content, signature, REPORT, trusted, _revoked_keys(revoked))
    return Signed(str(path), REPORT, {"report": str(path)}, signature is not None, signer, source)


def _signers(given: Path | None, namespace: str) -> tuple[str, str]:
    """Give the text of an allowed_signers file, and where it comes from: the file named, the site's policy, or the
    user's git. A repository's own settings don't count: it mustn't say whom to trust."""
    if given is None:
        policy = site_policy()
        if policy is not None and policy.signers:
            keys = policy.keys_on(datetime.now(timezone.utc).date())
            return allowed_keys(keys, namespace), policy.path
        given = _of_git("gpg.ssh.allowedSignersFile", "--allowed-signers FILE")
        given = given if given and given.exists() else None
    if given is None:
        hint = "--allowed-signers FILE, as git has it: a name, then a public key, a line"
        raise InputError("it isn't said who may sign", hint=hint)
    return signers_text(given), str(shown_path(given))


def signers_text(path: Path) -> str:
    """Read an allowed_signers file. Raises InputError."""
    place = Place(str(shown_path(path)))
    try:
        return _read(path, "the allowed signers").decode()
    except UnicodeDecodeError:
        raise InputError("this isn't an allowed_signers file: it isn't UTF-8", place=place) from None


def _revoked_keys(given: Path | None) -> bytes | None:
    """Read the revocation file: the one named, or that of the user's git, which must be there then."""
    given = given or _of_git("gpg.ssh.revocationFile", "--revoked FILE")
    if given is None:
        return None
    content = _read(given, "the revoked keys")
    # ssh-keygen reads a line as far as its first NUL, and takes what follows a lone CR for a comment's end
    if not content.startswith(_KRL) and re.search(rb"\0|\r(?!\n)", content):
        raise InputError("this is neither a KRL nor a list of public keys", place=Place(str(shown_path(given))))
    return content


def _read(path: Path, what: str) -> bytes:
    place = Place(str(shown_path(path)))
    try:
        content = read_operand(path, (_MOST_MIB << 20) + 1)
    except OSError as error:
        raise InputError(f"{what} can't be read: {error.strerror}", place=place) from None
    if len(content) > _MOST_MIB << 20:
        raise InputError(f"{what} are more than {_MOST_MIB} MiB", place=place)
    return content


def _own_key() -> Path:
    key = _of_git("user.signingKey", "--key FILE")
    if key is None or not key.is_file():
        raise InputError("it isn't said which key signs", hint="--key ~/.ssh/id_ed25519, or any other SSH key of yours")
    return key


def _of_git(name: str, instead: str) -> Path | None:
    """Give the path in one of the user's own settings of git; None without.

    Raises InputError for one that can't be read, which is not one that isn't there, and for a relative path: it would
    make a file of the repository the user's own. Raises ToolError where there are settings, and no git.
    """
    home = home_of(os.environ)
    words = ["config", "--global", "--type=path", "--get", name]
    try:
        ran = run_git(words, Path(os.sep), os.environ | {"HOME": str(home)})
    except ToolError:
        if any(map(os.path.lexists, (home / ".gitconfig", config_home(os.environ, home) / "git" / "config"))):
            raise
        return None
    if ran.returncode not in (0, 1):
        hint = f"mend it, or name the file by {instead}"
        raise InputError(f"git's {name} can't be read: {git_error(ran)}", hint=hint)
    text = os.fsdecode(ran.stdout).removesuffix("\n")
    if text and not os.path.isabs(text):
        hint = f"write its path from / or ~ on, or name the file by {instead}"
        raise InputError(f"git's {name} is no absolute path: {text}", hint=hint)
    return Path(text) if text else None
