"""`envspec verify`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envspec.app.evidence import keep
from envspec.app.verify import verify
from envspec.base.errors import AnswerNo, InputError, OutsideError
from envspec.base.finding import Finding
from envspec.base.texts import clean_text, few, plural, printable
from envspec.cli import options
from envspec.cli.console import say, silence, warn
from envspec.cli.sign import show_signer
from envspec.cli.table import colour_word, heading

if TYPE_CHECKING:
    from envspec.lock.model import Lock
    from envspec.review.verify.model import ClaimResult, Outcome, Verification
    from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec verify specs/mm-v2.9.toml
  envspec verify specs/mm-v2.9.toml --from origin/main      only what changed since
  envspec verify specs/mm-v2.9.toml --signed --allowed-signers .allowed_signers
  envspec verify docs/evidence/h100.json --signed           a report of the smoke check

Exit codes: 0 the indexes publish the pins, 1 they don't: a pin is forged or was republished since; or the lock
isn't signed by an allowed signer, 2 the spec, the lock or the revision is wrong, 3 an index couldn't be asked, and
nothing that was asked is forged; or ssh-keygen is missing.
"""


@click.command(epilog=EPILOG)
@options.spec
@options.target
@click.option("--from", "revision", metavar="REV", help="Ask only for pins that the lock of this git revision lacks.")
@click.option("--live", is_flag=True, help="Ask the PyTorch indexes too, instead of envspec's own facts.")
@click.option("--offline", is_flag=True, envvar="UV_OFFLINE", help="Refused: this command asks the indexes.")
@click.option("--signed", is_flag=True, help="Ask for the lock's signature instead of the indexes.")
@click.option(
    "--allowed-signers",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The allowed signers: an allowed_signers file of OpenSSH, as for git.",
)
@click.option(
    "--revoked",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Revoked keys: a KRL of OpenSSH, or public keys [default: git's global gpg.ssh.revocationFile].",
)
@options.evidence
@options.locks_dir
@options.as_json
def command(
    path: str,
    targets: tuple[str, ...],
    revision: str | None,
    live: bool,
    offline: bool,
    signed: bool,
    allowed_signers: Path | None,
    revoked: Path | None,
    evidence: Path | None,
    locks_dir: Path | None,
) -> int:
    """Prove a lock by the indexes that publish its files, or with --signed by its signature

    envspec asks each index for every file: its hash and size, the requirements and licence in its METADATA, whether it
    was yanked, and whether it precedes exclude-newer. It compares conda packages with their channels' repodata. It asks
    this machine's index or mirror, and the output names it: a mirror only proves that the lock matches that mirror.
    envspec's own facts answer for released files of the PyTorch indexes, and the output counts these apart; with --live
    the indexes answer.

    With --signed it asks no index: an allowed signer must have signed this very lock (`envspec sign`), or the report of
    the smoke check that is given instead of the spec. The allowed signers are those of --allowed-signers, else of the
    site's policy, else of git's global gpg.ssh.allowedSignersFile.
    """
    if signed:
        if revision is not None or targets:
            raise InputError("a signature is of the whole lock: --signed takes neither --from nor --target")
        return show_signer(path, locks_dir, allowed_signers, revoked)
    if allowed_signers or revoked:
        raise InputError("--allowed-signers and --revoked say who may have signed", hint="add --signed")
    if offline:
        hint = "run without --offline; `envspec check` judges a lock without a network"
        raise OutsideError("verify asks the indexes, and --offline forbids it", hint=hint)
    verified = verify(path, targets, revision, locks_dir, live=live)
    spec, verification = verified.spec, verified.verification
    try:
        about = {"spec": spec.path, "from": revision, "targets": [target.name for target in verified.targets]}
        options.answer(
            "verify", {**about, **_as_json(verification)}, _lines(verification, spec, verified.lock, revision)
        )
    except BrokenPipeError:
        # who reads only the first line must not take this for a proof
        silence(sys.stdout)
    for reason, names in verification.unasked.items():
        warn(f"couldn't be asked: {printable(few(names))}: {printable(reason)}")
    if verification.forged:
        say(f"hint: find out who changed the lock, then run `envspec lock {shlex.quote(path)} --upgrade`")
        return AnswerNo.exit_code
    if evidence is not None and not verification.unasked and revision is None:
        keep(evidence, "verified", verified.lock, verified.targets)
    return OutsideError.exit_code if verification.unasked else 0


def _lines(verification: Verification, spec: Spec, lock: Lock, revision: str | None) -> Iterator[str]:
    def line_of(word: str, result: ClaimResult, code: str) -> str:
        return f"{colour_word(word)}: {printable(result.claim.label)}, {heading(result.targets, lock)}  [{code}]"

    for result, outcome, difference in (*verification.forged, *verification.unexpected):
        yield line_of(difference.severity, result, difference.code)
        by = f" (by {printable(outcome.source)})" if result.second is not None else ""
        yield f"  {clean_text(difference.message)}{by}"
    for result, reason in verification.yanked:
        yield line_of("warning", result, "yanked")
        yield f"  {clean_text(reason) or 'its index gives no reason'}"
    for sentence, names in verification.unproved.items():
        yield f"not proved: {printable(few(names))}: {printable(sentence)}"
    for (index, source), count in verification.sources.items():
        yield f"{plural(count, 'pin')} of {index}: {printable(source)} answered"
    if verification.attested:
        yield f"publishers: {verification.attested} proved by attestations"
    strange = len({result.claim for result, *_ in verification.unexpected})
    counts = (
        (verification.total - len(verification.results), f"as at {revision}"),
        (verification.proved, "as published"),
        (verification.by_facts, "by envspec's own records (`--live` asks the index)"),
        (sum(result.differs for result in verification.results), "NOT as published"),
        (sum(result.is_unasked for result in verification.results), "not asked in full"),
    )
    summary = ", ".join(f"{count} {what}" for count, what in counts if count)
    rest = f"; `envspec lock` wouldn't take {strange} of them" if strange else ""
    yield f"{spec.path}: {plural(verification.total, 'pin')}: {summary or 'none to ask'}{rest}"


def _as_json(verification: Verification) -> dict[str, Any]:
    return {
        "ok": not verification.forged and not verification.unasked,
        "complete": not verification.unasked,
        "pins": {
            "total": verification.total,
            "asked": len(verification.results),
            "proved": verification.proved,
            "facts": verification.by_facts,
        },
        "sources": [
            {"index": i, "source": source, "pins": count} for (i, source), count in verification.sources.items()
        ],
        "attested": verification.attested,
        "forged": [_forgery(result, outcome, difference) for result, outcome, difference in verification.forged],
        "unexpected": [
            _forgery(result, outcome, difference) for result, outcome, difference in verification.unexpected
        ],
        "yanked": [{**_pin(result), "reason": reason} for result, reason in verification.yanked],
        "unproved": _reasons(verification.unproved),
        "unasked": _reasons(verification.unasked),
    }


def _forgery(result: ClaimResult, outcome: Outcome, difference: Finding) -> dict[str, Any]:
    return {**difference.document, **_pin(result), "source": outcome.source, **dict(difference.evidence)}


def _pin(result: ClaimResult) -> dict[str, Any]:
    pin = result.claim.pin
    return {
        "kind": pin.kind,
        "package": pin.name,
        "version": pin.version,
        "index": pin.index,
        "builds": result.claim.builds,
        "targets": result.targets,
    }


def _reasons(packages_by_reason: Mapping[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    return [{"reason": reason, "packages": names} for reason, names in packages_by_reason.items()]
