"""Records of what a command proved, as `envspec report` reads them back."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envspec.app.observer import say
from envspec.app.outputs import write_text
from envspec.base.documents import read_json
from envspec.base.errors import InputError, StorageError
from envspec.base.finding import errors
from envspec.base.plain_files import read_plain
from envspec.base.texts import printable
from envspec.lock.judge import judge
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.read import load
from envspec.lock.slice import slice_digest, slice_of
from envspec.prove.doctor.fits import without_framework
from envspec.prove.proof.records import KIND, SCHEMA, Standing, of_report, read_records, standings
from envspec.prove.proof.table import file_name, has_tables, with_tables, without_places
from envspec.prove.smoke.report.read import KIND as REPORT, load_report
from envspec.prove.smoke.report.result import SmokeReport
from envspec.spec.document import project_root

FOLDER = Path("docs", "evidence")
"""Where records lie, from the folder that has `specs/`."""


def keep(
    folder: Path, rung: str, lock: Lock, targets: Sequence[LockedTarget], details: Mapping[str, Any] | None = None
) -> None:
    """Write a record for each target that is proved as far as a rung; `details` are by target. Raises StorageError."""
    _make(folder)
    for target in targets:
        record = {
            "schema": SCHEMA,
            "kind": KIND,
            "rung": rung,
            "spec": lock.name,
            "target": target.name,
            "lock_digest": slice_digest(slice_of(lock, target)),
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "details": (details or {}).get(target.name),
        }
        path = folder / f"{lock.name}-{target.name}-{rung}.json"
        write_text(path, json.dumps(record, indent=1, ensure_ascii=False) + "\n", "--evidence")
        say(f"wrote {printable(str(path))}")
    write_tables(folder)


def keep_reports(folder: Path, results: Path, environments: Path) -> None:
    """Keep each report of a smoke run's results that proves something of its lock, without this machine's places.

    A report of another lock, which is of the same target and machine, goes. `environments` is the folder of those that
    the runs were made in. Raises InputError, StorageError.
    """
    for path in sorted(results.glob("runs/*/check.json")):
        try:
            report = load_report(path)
        except InputError:  # of a run that gave no answer, which is told already
            continue
        proof = of_report(report, path.name)
        if not proof.rungs:
            why = proof.refused or "it proves nothing"
            say(f"{printable(report.spec)} × {printable(report.target)}: no report is kept: {printable(why)}")
            continue
        _make(folder)
        destination = folder / file_name(report)
        text = read_plain(path).decode().replace(f"{results.absolute()}/", "RESULTS/")
        text = without_places(text, str(environments), str(Path.home()))
        write_text(destination, text, "--evidence")
        say(f"wrote {printable(str(destination))}")
    write_tables(folder)


def write_tables(folder: Path) -> None:
    """Remove the records of other locks than today's, and write the tables of the page beside the records anew, where
    its README.md has room for them: of the locks of the project whose docs/evidence it is, and of those that lie in it.

    Raises as `load`, InputError, StorageError.
    """
    if not folder.is_dir():
        return  # nothing was kept yet
    rows, old = _standings(folder)
    for name in old:
        (folder / name).unlink(missing_ok=True)
        say(f"removed {printable(str(folder / name))}: it is of another lock")
    page = folder / "README.md"
    text = read_plain(page).decode() if page.is_file() else ""
    if has_tables(text):
        write_text(page, with_tables(text, rows, _reports(folder)), "--evidence")


def render_page(page: str, folder: Path) -> str:
    """Return the page of a folder of records with its tables anew. Raises as `load`, InputError, StorageError."""
    return with_tables(page, _standings(folder)[0], _reports(folder))


def _standings(folder: Path) -> tuple[list[tuple[str, Standing]], list[str]]:
    """Give the standing of each target of the locks beside a folder of records, with its spec's name, and the records
    of other locks of these specs."""
    records = read_records(folder)
    locks = folder.absolute().parents[1] / "locks"
    rows, old = [], []
    for path in [*sorted(locks.glob("*/envspec.lock")), *sorted(folder.glob("locks/*/envspec.lock"))]:
        lock = load(path)
        if errors(judge(lock)):
            say(f"{printable(str(path))} isn't sound, so no rung is claimed for it: envspec check has the reasons")
            continue
        proved = [target for target in lock if not without_framework(target)]
        rows += [(lock.name, standing) for standing in standings(lock, proved, records)]
        digests = {target.name: slice_digest(slice_of(lock, target)) for target in lock}
        of_spec = (record for record in records if record.spec == lock.name)
        old += [record.file for record in of_spec if record.lock_digest != digests.get(record.target)]
    return rows, old


def _reports(folder: Path) -> list[tuple[str, SmokeReport]]:
    """List the reports among the records in a folder, with their files' names."""
    recorded = {record.file for record in read_records(folder)}
    documents = ((name, read_json(read_plain(folder / name))) for name in sorted(recorded))
    return [(name, load_report(folder / name)) for name, document in documents if document.get("kind") == REPORT]


def kept_runs(specs: Iterable[str], folder: Path | None) -> dict[tuple[str, str], SmokeReport]:
    """Return the stored reports by spec and target: those of a folder, else of the folder beside each spec. Raises
    InputError, StorageError."""
    folders = [folder] if folder else [project_root(path) / FOLDER for path in specs]
    existing = [path for path in dict.fromkeys(folders) if path.is_dir()]
    return {(report.spec, report.target): report for path in existing for _, report in _reports(path)}


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{folder} can't be made: {error.strerror or error}") from error


def standings_of(
    spec: str, lock: Lock, targets: Sequence[LockedTarget], folder: Path | None = None
) -> tuple[Standing, ...]:
    """Return each target's rung of proof: by the records in a folder, else by those beside the spec. Records that prove
    nothing are reported. Raises InputError, StorageError."""
    if folder is None:
        folder = project_root(spec) / FOLDER
    proved = standings(lock, targets, read_records(folder) if folder.is_dir() else ())
    for standing in proved:
        for file, reason in standing.outdated:
            say(f"{printable(file)} proves nothing of {standing.target}: {printable(reason)}")
    return proved
