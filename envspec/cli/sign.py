"""`envspec sign`."""

from __future__ import annotations

from pathlib import Path

import click

from envspec.cli import options

EPILOG = """\b
Examples:
  envspec sign specs/mm-v2.9.toml --key ~/.ssh/id_ed25519
  envspec sign docs/evidence/h100.json --key ~/.ssh/id_ed25519      a report of the smoke check
  envspec verify specs/mm-v2.9.toml --signed --allowed-signers .allowed_signers

\b
Exit codes: 0 signed, 1 the lock is stale, 2 the spec, the lock, the report or the key is wrong, 3 ssh-keygen is
missing, or the signature can't be written.
"""


@click.command(epilog=EPILOG)
@click.argument("path", metavar="SPEC|REPORT", shell_complete=options.complete("spec_paths"))
@click.option(
    "--key",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The SSH key; of a public key, the agent has the private one [default: git's global user.signingKey].",
)
@options.locks_dir
@options.as_json
def command(path: str, key: Path | None, locks_dir: Path | None, as_json: bool) -> int:
    """Sign a lock, or a report of the smoke check, with an SSH key

    Writes the signature beside the lock, as envspec.lock.sig: commit it with the lock. The lock must be fresh and
    sound. `ssh-keygen -Y sign` signs, under the namespace envspec-lock; `envspec verify --signed` and a site's policy
    check it. A lock that changes loses its signature.

    Of a report (a file that ends in .json), the signature lies beside it, under the namespace envspec-report.
    """
    from envspec.cli.signature import sign_lock, sign_report

    if path.endswith(".json"):
        return sign_report(Path(path), key, as_json=as_json)
    return sign_lock(path, locks_dir, key, as_json=as_json)
