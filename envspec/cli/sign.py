"""`envspec sign`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envspec.app.inputs import elsewhere
from envspec.base.errors import AnswerNo
from envspec.base.texts import printable
from envspec.cli import options
from envspec.cli.console import say, wants_json
from envspec.lock.signing.model import SUFFIX, Signer, signed_thing

if TYPE_CHECKING:
    from envspec.app.sign import Signed

EPILOG = """\b
Examples:
  envspec sign specs/mm-v2.9.toml --key ~/.ssh/id_ed25519
  envspec sign docs/evidence/h100.json --key ~/.ssh/id_ed25519      a report of the smoke check
  envspec verify specs/mm-v2.9.toml --signed --allowed-signers .allowed_signers

Exit codes: 0 signed, 1 the lock is stale, 2 the spec, the lock, the report or the key is wrong, 3 ssh-keygen is
missing, or the signature can't be written.
"""


@click.command(epilog=EPILOG)
@options.default_spec("[SPEC|REPORT]")
@click.option(
    "--key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The SSH key; of a public key, the agent has the private one [default: git's global user.signingKey].",
)
@options.locks_dir
@options.as_json
def command(path: str, key: Path | None, locks_dir: Path | None) -> int:
    """Sign a lock, or a report of the smoke check, with an SSH key

    envspec writes the signature beside the lock, as envspec.lock.sig: commit it with the lock. The lock must be fresh
    and sound. `ssh-keygen -Y sign` signs, under the namespace envspec-lock; `envspec verify --signed` and a site's
    policy check the signature. A changed lock loses its signature; another key's signature replaces it.

    A report's signature lies beside the report (a file that ends in .json), under the namespace envspec-report.
    """
    from envspec.app.sign import sign_lock, sign_report

    done = sign_report(Path(path), key) if path.endswith(".json") else sign_lock(path, locks_dir, key)
    if wants_json():
        options.print_json("sign", _document(done))
    elif isinstance(done.signer, Signer):
        say(f"wrote {printable(done.path)}{SUFFIX}: signed by {done.signer.fingerprint}")
    return 0


def show_signer(path: str, locks_dir: Path | None, allowed: Path | None, revoked: Path | None) -> int:
    """Print a lock's or a report's signer, or the reason why there is none to name: the exit code is 0 or 1."""
    from envspec.app.sign import signer_of_lock, signer_of_report

    is_report = path.endswith(".json")
    if is_report:
        signed = signer_of_report(Path(path), allowed, revoked)
    else:
        signed = signer_of_lock(path, locks_dir, allowed, revoked)
    signer, where = signed.signer, printable(signed.path)
    lines = (
        [f"{where}: {printable(signer.message)}  [{signer.code}]"]
        if not isinstance(signer, Signer)
        else [f"{where}: signed by {printable(str(signer.name))}, {signer.fingerprint}: allowed by {signed.source}"]
    )
    options.answer("sign", _document(signed), lines)
    if isinstance(signer, Signer):
        return 0
    again = signed.path if is_report else f"{signed.about['spec']}{elsewhere(locks_dir)}"
    what = signed_thing(signed.namespace)
    say(f"hint: who may sign runs `envspec sign {printable(again)}`, after a look at the {what}")
    return AnswerNo.exit_code


def _document(signed: Signed) -> dict[str, object]:
    outcome = signed.signer
    signer = {"name": outcome.name, "key": outcome.fingerprint} if isinstance(outcome, Signer) else None
    refusal = None if isinstance(outcome, Signer) else outcome.document
    return {
        "ok": refusal is None,
        **signed.about,
        "signed": signed.signed,
        "signer": signer,
        "refused": refusal,
        "allowed-by": signed.source,
    }
