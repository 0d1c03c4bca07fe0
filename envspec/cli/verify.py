"""`envspec verify`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envspec.app import inputs
from envspec.app.evidence import keep
from envspec.base.errors import AnswerNo, InputError, OutsideError
from envspec.base.texts import printable, shown
from envspec.cli import options
from envspec.cli.console import out, silence_stdout, styled, warn
from envspec.cli.groups import heading
from envspec.cli.progress import counting

if TYPE_CHECKING:
    from envspec.lock.model import Lock, LockedTarget
    from envspec.review.verify.model import Claims, Difference, Outcome, Told
    from envspec.review.verify.report import Verification
    from envspec.spec.model import Spec

EPILOG = """\b
Examples:
  envspec verify specs/mm-v2.9.toml
  envspec verify specs/mm-v2.9.toml --from origin/main      only what changed since
  envspec verify specs/mm-v2.9.toml --signed --allowed-signers .allowed_signers
  envspec verify docs/evidence/h100.json --signed           a report of the smoke check

\b
Exit codes: 0 the indexes publish what the lock pins, 1 they don't: it is forged, or was published anew since; or it
isn't signed by an allowed signer, 2 the spec, the lock or the revision is wrong, 3 an index couldn't be asked, and
nothing that was asked is forged; or ssh-keygen is missing.
"""

_NAMES = 8


@click.command(epilog=EPILOG)
@options.spec
@options.target
@click.option("--from", "revision", metavar="REV", help="Ask only for what the lock of this git revision doesn't have.")
@click.option("--offline", is_flag=True, envvar="UV_OFFLINE", help="Refused: the indexes are what is asked.")
@click.option("--signed", is_flag=True, help="Ask for the lock's signature instead of the indexes.")
@click.option(
    "--allowed-signers",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Who may have signed: an allowed_signers file of OpenSSH, as git uses it.",
)
@options.evidence
@options.locks_dir
@options.as_json
def command(
    path: str,
    targets: tuple[str, ...],
    revision: str | None,
    offline: bool,
    signed: bool,
    allowed_signers: Path | None,
    evidence: Path | None,
    locks_dir: Path | None,
    as_json: bool,
) -> int:
    """Prove a lock against the indexes that publish what it pins; with --signed, by the signature beside it

    Asks each index for every file: that it is there under this hash and size, that its METADATA requires what the lock
    says, its licence, whether it was yanked, and whether it came before exclude-newer. conda packages are compared with
    their channels' repodata. What answers is this machine's index or mirror, and the output names it: the mirror that
    a lock was made from proves that the lock is what the mirror serves, and no more.

    With --signed it asks no index: one of the allowed signers must have signed this very lock (`envspec sign`), or the
    report of the smoke check that is named in the spec's place. They are those of --allowed-signers, else the site's
    policy's, else those of git's global gpg.ssh.allowedSignersFile.
    """
    if signed:
        if revision is not None or targets:
            raise InputError("a signature is of the whole lock: --signed takes neither --from nor --target")
        from envspec.cli.signature import tell_report_signer, tell_signer

        if path.endswith(".json"):
            return tell_report_signer(Path(path), allowed_signers, as_json=as_json)
        return tell_signer(path, locks_dir, allowed_signers, as_json=as_json)
    if allowed_signers is not None:
        raise InputError("--allowed-signers says who may have signed", hint="add --signed")
    if offline:
        raise OutsideError(
            "verify asks the indexes, and --offline forbids it",
            hint="run without --offline; `envspec check` judges a lock without a network",
        )
    spec, lock = inputs.read_lock(path, locks_dir, making="proof")
    inputs.warn_if_stale(spec, lock)
    chosen = inputs.locked_targets(lock, targets)
    from envspec.review.verify.claims import changed, unasked_parts
    from envspec.review.verify.report import Verification

    claims = claims_in(spec, lock, chosen)
    old = _lock_at(revision, spec, locks_dir) if revision is not None else None
    asked = claims if old is None else changed(claims, claims_in(spec, old, old.targets))
    found = Verification(asked_of(spec, lock, asked), len(claims), unasked_parts(lock, old))
    try:
        if as_json:
            about = {"spec": spec.path, "from": revision, "targets": [target.name for target in chosen]}
            options.print_json("verify", {**about, **_as_json(found)})
        else:
            out("\n".join(_lines(found, spec, lock, revision)))
    except BrokenPipeError:
        # who reads only the first line must not take this for a proof
        silence_stdout()
    for reason, names in found.unasked.items():
        warn(f"couldn't be asked: {_few(names)}: {printable(reason)}")
    if found.forged:
        return AnswerNo.exit_code
    if evidence is not None and not found.unasked and revision is None:
        keep(evidence, "verified", lock, chosen)
    return OutsideError.exit_code if found.unasked else 0


def claims_in(spec: Spec, lock: Lock, targets: Iterable[LockedTarget]) -> Claims:
    """Collect what a lock of a spec claims, within the bounds in time that the spec has for single packages."""
    from envspec.review.verify.claims import bounded, claims_of
    from envspec.spec.newer import bounds, standing

    return bounded(claims_of(lock, targets), bounds(standing(spec, lock.inputs.exclude_newer)))


def _lock_at(revision: str, spec: Spec, locks_dir: Path | None) -> Lock | None:
    """Read the lock of a git revision; None where it has none."""
    from envspec.lock.read import loads
    from envspec.review.diff.revision import text_at

    place = inputs.folder_of(spec, locks_dir).path
    text = text_at(place, revision)
    return None if text is None else loads(text, f"{revision}:{place}")


def asked_of(spec: Spec, lock: Lock, claims: Claims) -> tuple[Told, ...]:
    """Ask this machine's indexes and channels for claims of a lock."""
    from envspec.app.site_policy import site_policy
    from envspec.review.verify.ask import SecondSource, ask_all
    from envspec.review.verify.channels import ask_channels
    from envspec.review.verify.indexes import Indexes

    policy = site_policy()
    second = policy.second if policy is not None else {}
    pins = tuple(pin for target in lock for pin in target.pins)
    indexes = Indexes.of(spec, os.environ, second)
    channels = partial(ask_channels, spec=spec, env=os.environ)
    with counting("asking the indexes") as on_progress:
        told = ask_all(claims, pins, indexes, channels, on_progress)
    if not second:
        return told
    with counting("asking the second source") as on_progress:
        return SecondSource(indexes, second).ask(told, pins, on_progress)


def _lines(found: Verification, spec: Spec, lock: Lock, revision: str | None) -> Iterator[str]:
    from envspec.review.verify.report import label

    def told(word: str, style: str, one: Told) -> str:
        return f"{styled(word, style)}  {printable(label(one.claim))}, {heading(one.targets, lock)}"

    for one, outcome, difference in found.forged:
        yield f"{told('forged', 'red;bold', one)}  {difference.code}"
        by = f" (by {printable(outcome.source)})" if one.second is not None else ""
        yield f"  {shown(difference.sentence)}{by}"
    for one, _, difference in found.unexpected:
        yield f"{told('unexpected', 'yellow;bold', one)}  {difference.code}"
        yield f"  {shown(difference.sentence)}"
    for one, reason in found.yanked:
        yield told("yanked", "yellow;bold", one)
        yield f"  {shown(reason) or 'its index gives no reason'}"
    for sentence, names in found.unproved.items():
        yield f"not proved: {_few(names)}: {printable(sentence)}"
    for (index, source), count in found.sources.items():
        yield f"{index}: {count} by {printable(source)}"
    if found.attested:
        yield f"publishers: {found.attested} proved by attestations"
    since = f"{found.total - len(found.told)} are as at {revision}, " if revision is not None else ""
    unasked = sum(one.is_unasked for one in found.told)
    rest = f", {unasked} couldn't be asked" if unasked else ""
    strange = len({one.claim for one, *_ in found.unexpected})
    rest += f"; `envspec lock` wouldn't take {strange} of them" if strange else ""
    yield (
        f"{spec.path}: of {found.total} pins {since}{found.proved} are what their index publishes, "
        f"{sum(one.differs for one in found.told)} aren't{rest}"
    )


def _few(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return printable(", ".join(names[:_NAMES]) + more)


def _as_json(found: Verification) -> dict[str, Any]:
    return {
        "ok": not found.forged and not found.unasked,
        "complete": not found.unasked,
        "pins": {"total": found.total, "asked": len(found.told), "proved": found.proved},
        "sources": [{"index": i, "source": source, "pins": count} for (i, source), count in found.sources.items()],
        "attested": found.attested,
        "forged": [_forgery(one, outcome, difference) for one, outcome, difference in found.forged],
        "unexpected": [_forgery(one, outcome, difference) for one, outcome, difference in found.unexpected],
        "yanked": [{**_pin(one), "reason": reason} for one, reason in found.yanked],
        "unproved": _reasons(found.unproved),
        "unasked": _reasons(found.unasked),
    }


def _forgery(one: Told, outcome: Outcome, difference: Difference) -> dict[str, Any]:
    return {
        "code": difference.code,
        **_pin(one),
        "source": outcome.source,
        "message": difference.sentence,
        "locked": difference.locked,
        "published": difference.published,
    }


def _pin(one: Told) -> dict[str, Any]:
    pin = one.claim.pin
    return {
        "kind": pin.kind,
        "package": pin.name,
        "version": pin.version,
        "index": pin.index,
        "builds": one.claim.builds,
        "targets": list(one.targets),
    }


def _reasons(found: Mapping[str, tuple[str, ...]]) -> list[dict[str, Any]]:
    return [{"reason": reason, "packages": list(names)} for reason, names in found.items()]
