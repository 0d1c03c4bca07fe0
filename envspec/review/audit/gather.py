"""Facts about a lock's packages: from PyPI and the user's indexes, from a downloaded database, or from the stored
answers of earlier audits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import as_completed
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from envspec.base.errors import OutsideError
from envspec.base.texts import few
from envspec.base.threads import Pool
from envspec.review.audit.model import AuditedPackage, DatabaseAnswer, Facts, FileFacts, PublishedRelease
from envspec.review.audit.store import Stored

_WORKERS = 16

Key = TypeVar("Key")
Value = TypeVar("Value")


class VulnerabilityDatabase(Protocol):
    """Known vulnerabilities."""

    def ask(self, release: PublishedRelease) -> DatabaseAnswer:
        """Look up the known facts about a release. Raises OutsideError."""


class ProjectPages(Protocol):
    """The pages of projects on the indexes of a lock."""

    def ask(self, index: str, project: str) -> Mapping[str, FileFacts] | None:
        """Fetch the files of a project by name; None for an index whose address isn't known here. Raises
        OutsideError."""


FileKey = tuple[str, str]
"""A file by its index's name and its own."""


def gather(
    packages: Sequence[AuditedPackage],
    database: VulnerabilityDatabase,
    pages: ProjectPages | None,
    now: datetime,
    shipped: Mapping[FileKey, FileFacts],
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Facts, Stored]:
    """Ask the database about every release, and the indexes about every file that the database doesn't cover. Return
    the facts, and those worth storing.

    `pages` is None where facts of files aren't wanted. `shipped` has the facts of files that no index can answer for.
    Unreadable sources are in the facts' `unread` and aren't raised, because the rest is still useful. After its first
    failure, the database or the indexes get no more requests.
    """
    releases = releases_of(packages)
    answers, failed = _ask_all(releases, database.ask, lambda done, total: on_progress(done, 2 * total))
    unread = [failed] if failed else []
    if not failed:
        unread += _without_answer(packages, answers, "the database has no answer for")

    storable = answers if any(answer.known for answer in answers.values()) else {}
    if pages is None:
        return Facts(answers, None, tuple(unread)), Stored(storable)
    file_facts: dict[FileKey, FileFacts] = {}
    unanswered: dict[FileKey, None] = {}
    for package in packages:
        answer = answers.get(package.release) if package.release else None
        for artifact in package.indexed_files:
            facts = answer.files.get(artifact.file) if answer else None
            # PyPI says nothing of what another index has under the same name
            if facts is not None and package.index == "pypi":
                file_facts[package.index, artifact.file] = facts
            else:
                unanswered[package.index, package.name] = None
    listed, failed = _ask_all(
        list(unanswered),
        lambda page: pages.ask(*page),
        lambda done, total: on_progress(len(releases) + done, len(releases) + total),
    )
    for (index, _), page in listed.items():
        file_facts.update({(index, file): facts for file, facts in (page or {}).items()})
    used = {(p.index, artifact.file) for p in packages for artifact in p.indexed_files}
    files = {key: facts for key, facts in file_facts.items() if key in used}
    nowhere = {index for (index, _), page in listed.items() if page is None}
    known = {**{key: facts for key, facts in shipped.items() if key[0] in nowhere}, **files}
    unread_files = [failed] if failed else _without_page(packages, known, nowhere)
    fresh = Stored(storable, {key: (stamp(now), facts) for key, facts in files.items()})
    return Facts(answers, known, tuple(unread), tuple(unread_files)), fresh


def releases_of(packages: Iterable[AuditedPackage]) -> list[PublishedRelease]:
    """List the releases that a database can know, each once."""
    return sorted(
        {package.release for package in packages if package.release is not None}, key=lambda r: (r.name, r.version)
    )


def recall_facts(
    packages: Sequence[AuditedPackage],
    stored: Stored,
    now: datetime,
    max_age: timedelta,
    shipped: Mapping[FileKey, FileFacts] | None,
) -> Facts:
    """Return the stored facts of earlier audits that aren't older than `max_age`. `shipped` has further facts of files,
    None where facts of files aren't wanted."""
    oldest = stamp(now - max_age)
    answers = {release: answer for release, answer in stored.answers.items() if answer.fetched >= oldest}
    unread = tuple(_without_answer(packages, answers, "no recent enough answer is stored for"))
    if shipped is None:
        return Facts(answers, None, unread)
    recent = {key: facts for key, (fetched, facts) in stored.files.items() if fetched >= oldest}
    files = {**shipped, **recent}
    missing = _name_packages("no recent enough facts are stored for the files of", _without_facts(packages, files))
    return Facts(answers, files, unread, tuple(missing))


def stamp(moment: datetime) -> str:
    """Write a moment in UTC as RFC 3339, to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _without_answer(
    packages: Sequence[AuditedPackage], answers: Mapping[PublishedRelease, DatabaseAnswer], what: str
) -> list[str]:
    """Name the packages that the database has no answer for, in one line or none.

    The database must know what PyPI serves. A build of the PyTorch index or a conda package may never have been on
    PyPI: for these, any answer is enough.
    """
    published = [(package, package.release) for package in packages if package.release is not None]
    if published and answers and not any(answer.known for answer in answers.values()):
        return ["the database has none of the releases: this address has no database, or is a mirror of the files only"]
    return _name_packages(
        what,
        [
            package
            for package, release in published
            if release not in answers or (package.index == "pypi" and not answers[release].known)
        ],
    )


def _without_page(
    packages: Sequence[AuditedPackage], files: Mapping[FileKey, FileFacts], nowhere: Iterable[str]
) -> list[str]:
    """Name the files of indexes without an address, and those that their index doesn't have, in one line per index."""
    lines: list[str] = []
    missing = _without_facts(packages, files)
    for index in sorted({package.index for package in missing}):
        here = [package for package in missing if package.index == index]
        if index in nowhere:
            lines += _name_packages(f'no address is known for the index "{index}" of', here)
        else:
            lines += _name_packages(f'the index "{index}" doesn\'t have the locked files of', here)
    return lines


def _without_facts(packages: Iterable[AuditedPackage], files: Mapping[FileKey, FileFacts]) -> list[AuditedPackage]:
    return [p for p in packages if any((p.index, artifact.file) not in files for artifact in p.indexed_files)]


def _name_packages(what: str, packages: Iterable[AuditedPackage]) -> list[str]:
    """Write one line about some packages; no line where there are none."""
    names = sorted({f"{package.name} {package.version}" for package in packages})
    return [f"{what} {few(names, 5)}"] if names else []


def _ask_all(
    keys: Iterable[Key], ask: Callable[[Key], Value], on_progress: Callable[[int, int], None]
) -> tuple[dict[Key, Value], str]:
    """Return every answer, and the message of the first failure or ""."""
    answers: dict[Key, Value] = {}
    try:
        with Pool(_WORKERS) as pool:
            asking = {pool.submit(ask, key): key for key in keys}
            for done, future in enumerate(as_completed(asking), 1):
                answers[asking[future]] = future.result()
                on_progress(done, len(asking))
    except OutsideError as error:
        return answers, error.message
    return answers, ""
