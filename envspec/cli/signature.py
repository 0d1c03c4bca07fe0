"""Signing a lock or a smoke report and asking who signed it: whose key, whom to trust, and what is said."""

from __future__ import annotations

import os
from pathlib import Path

from envspec.app import inputs
from envspec.app.outputs import shown_path
from envspec.base.errors import AnswerNo, InputError, Place, ToolError
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import out, say
from envspec.lock.signing.model import LOCK, MOST_BYTES, REPORT, SUFFIX, Refusal, Signer, allowed_keys, signed_thing

_SIGNERS_KEY, _SIGNING_KEY = "gpg.ssh.allowedSignersFile", "user.signingKey"
_MOST_SIGNERS = 1 << 20


def sign_lock(path: str, locks_dir: Path | None, key: Path | None, *, as_json: bool) -> int:
    """Sign a spec's lock, which must be fresh and sound, and write the signature beside it.

    Raises SpecError, LockError, UnsoundLock, AnswerNo for a stale lock, InputError for the key, ToolError.
    """
    spec, lock, file = inputs.read_signed_lock(path, locks_dir, "signature")
    inputs.refuse_stale(spec, lock)
    folder = inputs.folder_of(spec, locks_dir)
    signature, signer = _signature(file.content, key, LOCK)
    folder.sign(signature, file.content)
    _tell_signed({"spec": spec.path, "lock": str(folder.path)}, str(folder.path), signer, as_json=as_json)
    return 0


def sign_report(path: Path, key: Path | None, *, as_json: bool) -> int:
    """Sign a report of the smoke check, and write the signature beside it.

    Raises InputError for the report, for one of a pretended GPU and for the key, NotPlain, StorageError, ToolError.
    """
    from envspec.base import atomic
    from envspec.base.errors import StorageError
    from envspec.base.open_folder import located
    from envspec.prove.smoke.report.evidence import is_pretended
    from envspec.prove.smoke.report.read import report_bytes, report_in

    content = report_bytes(path)
    if is_pretended(report_in(content, str(path))):
        raise InputError("this report is of a pretended GPU, which proves nothing", place=Place(str(path)))
    signature, signer = _signature(content, key, REPORT)
    try:
        with located(path.parent).open() as folder:
            atomic.replace_files(folder, {f"{path.name}{SUFFIX}": signature})
    except OSError as error:
        raise StorageError(f"{path}{SUFFIX} can't be written: {error.strerror}") from None
    _tell_signed({"report": str(path)}, str(path), signer, as_json=as_json)
    return 0


def _signature(content: bytes, key: Path | None, namespace: str) -> tuple[bytes, Signer]:
    from envspec.lock.signing.ssh_keygen import sign, signer_of

    signature = sign(content, key or _own_key(), namespace)
    found = signer_of(content, signature, namespace, None)
    if isinstance(found, Refusal):
        raise ToolError(f"ssh-keygen made a signature that it doesn't take: {found.sentence}")
    return signature, found


def _tell_signed(about: dict[str, str], path: str, signer: Signer, *, as_json: bool) -> None:
    if as_json:
        options.print_json("sign", _as_json(about, True, signer, None))
    else:
        say(f"wrote {printable(path)}{SUFFIX}: signed by {signer.fingerprint}")


def tell_signer(path: str, locks_dir: Path | None, allowed: Path | None, *, as_json: bool) -> int:
    """Say who signed a lock, or why that can't be said: the exit code is 0 or 1. Raises SpecError, LockError,
    InputError where it isn't said who may sign, ToolError."""
    spec = inputs.read_spec(path)
    folder = inputs.folder_of(spec, locks_dir)
    file = inputs.there(folder.read_signed(), spec)
    again = f"{spec.path}{inputs.elsewhere(locks_dir)}"
    about = {"spec": spec.path, "lock": str(folder.path)}
    return _tell(about, str(folder.path), file.content, file.signature, LOCK, allowed, again, as_json=as_json)


def tell_report_signer(path: Path, allowed: Path | None, *, as_json: bool) -> int:
    """Say who signed a report of the smoke check, or why that can't be said: the exit code is 0 or 1. Raises
    InputError, also where it isn't said who may sign, NotPlain, StorageError, ToolError."""
    from envspec.base.errors import StorageError
    from envspec.base.open_folder import located
    from envspec.prove.smoke.report.read import report_bytes, report_in

    content = report_bytes(path)
    report_in(content, str(path))
    try:
        with located(path.parent).open() as folder:
            signature = folder.read(f"{path.name}{SUFFIX}", MOST_BYTES + 1)
    except OSError as error:
        raise StorageError(f"{path}{SUFFIX} can't be read: {error.strerror}") from None
    about = {"report": str(path)}
    return _tell(about, str(path), content, signature, REPORT, allowed, str(path), as_json=as_json)


def _tell(
    about: dict[str, str],
    path: str,
    content: bytes,
    signature: bytes | None,
    namespace: str,
    allowed: Path | None,
    again: str,
    *,
    as_json: bool,
) -> int:
    from envspec.lock.signing.ssh_keygen import signer_of

    signers, source = _signers(allowed, namespace)
    found = signer_of(content, signature, namespace, signers)
    if as_json:
        options.print_json("sign", _as_json(about, signature is not None, found, source))
    elif isinstance(found, Signer):
        out(f"{printable(path)}: signed by {printable(str(found.name))}, {found.fingerprint}: allowed by {source}")
    else:
        out(f"{printable(path)}: {printable(found.sentence)}  [{found.code}]")
    if isinstance(found, Signer):
        return 0
    what = signed_thing(namespace)
    say(f"hint: who may sign runs `envspec sign {printable(again)}`, after a look at the {what}")
    return AnswerNo.exit_code


def _as_json(about: dict[str, str], signed: bool, found: Signer | Refusal, source: str | None) -> dict[str, object]:
    signer = {"name": found.name, "key": found.fingerprint} if isinstance(found, Signer) else None
    refusal = {"code": found.code, "message": found.sentence} if isinstance(found, Refusal) else None
    return {
        "ok": refusal is None,
        **about,
        "signed": signed,
        "signer": signer,
        "refused": refusal,
        "allowed-by": source,
    }


def _signers(given: Path | None, namespace: str) -> tuple[str, str]:
    """Give the text of an allowed_signers file, and where it comes from: the file named, the site's policy, or the
    user's git. A repository's own settings don't count: it mustn't say whom to trust."""
    if given is None:
        from envspec.app.site_policy import site_policy

        policy = site_policy()
        if policy is not None and policy.signers:
            return allowed_keys(policy.signers, namespace), policy.path
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
    from envspec.review.git.program import run_git

    try:
        ran = run_git(["config", "--global", "--type=path", "--get", name], Path(os.sep))
    except ToolError:
        return None
    found = Path(os.fsdecode(ran.stdout).removesuffix("\n"))
    return found if ran.returncode == 0 and found.is_file() else None
