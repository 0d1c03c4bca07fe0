"""Learning about a lock's packages: from PyPI and the user's indexes, from a downloaded database, or from what is
kept of earlier audits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from envspec.audit.model import Answer, Facts, FileFacts, Package, Release
from envspec.audit.store import Stored
from envspec.errors import OutsideError

_WORKERS = 16

Key = TypeVar("Key")
Value = TypeVar("Value")


class Database(Protocol):
    """Known vulnerabilities."""

    def ask(self, release: Release) -> Answer:
        """What is known of a release. Raises OutsideError."""


class Pages(Protocol):
    """The pages of projects on the indexes of a lock."""

    def ask(self, index: str, project: str) -> Mapping[str, FileFacts] | None:
        """The files of a project by name; None for an index whose address isn't known here. Raises OutsideError."""


def gather(
    packages: Sequence[Package],
    database: Database,
    pages: Pages,
    now: datetime,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> tuple[Facts, Stored]:
    """Ask the database about every release, and the indexes about every file that it said nothing of. Gives the facts,
    and what is worth keeping of them.

    What can't be read is in the facts' `unread`, not raised: the rest is worth telling. After the first failure nothing
    more is asked of the same side.
    """
    releases = sorted({p.release for p in packages if p.release is not None}, key=lambda r: (r.name, r.version))
    answers, failed = _ask_all(releases, database.ask, lambda done, total: on_progress(done, 2 * total))
    unread = [failed] if failed else []
    if not failed:
        unread += _without_answer(packages, answers, "the database has no answer for")

    found: dict[tuple[str, str], FileFacts] = {}
    wanted: dict[tuple[str, str], None] = {}
    for package in packages:
        answer = answers.get(package.release) if package.release and package.kind == "pip" else None
        for artifact in package.files if package.kind == "pip" and package.index not in ("git", "url") else ():
            facts = answer.files.get(artifact.file) if answer else None
            # PyPI says nothing of what another index has under the same name
            if facts is not None and package.index == "pypi":
                found[package.index, artifact.file] = facts
            else:
                wanted[package.index, package.name] = None
    listed, failed = _ask_all(
        list(wanted),
        lambda page: pages.ask(*page),
        lambda done, total: on_progress(len(releases) + done, len(releases) + total),
    )
    unread += [failed] if failed else []
    for (index, _), page in listed.items():
        found.update({(index, file): facts for file, facts in (page or {}).items()})
    used = {(p.index, artifact.file) for p in packages for artifact in p.files}
    files = {key: facts for key, facts in found.items() if key in used}
    fetched = stamp(now)
    kept = answers if any(answer.known for answer in answers.values()) else {}
    return Facts(answers, files, tuple(unread)), Stored(kept, {k: (fetched, f) for k, f in files.items()})


def recall(packages: Sequence[Package], stored: Stored, now: datetime, max_age: timedelta) -> Facts:
    """The facts that are kept of earlier audits, as far as they aren't older than `max_age`."""
    oldest = stamp(now - max_age)
    answers = {release: answer for release, answer in stored.answers.items() if answer.fetched >= oldest}
    files = {key: facts for key, (fetched, facts) in stored.files.items() if fetched >= oldest}
    return Facts(answers, files, tuple(_without_answer(packages, answers, "no answer that is new enough is kept of")))


def stamp(moment: datetime) -> str:
    """A moment in UTC, RFC 3339 to the second."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _without_answer(packages: Sequence[Package], answers: Mapping[Release, Answer], what: str) -> list[str]:
    """Which packages nobody can say anything of, as a line or none.

    What PyPI installs, its database must know. A build of the PyTorch index or a conda package may never have been on
    PyPI: for these, that the database was asked is enough.
    """
    asked = [(package, package.release) for package in packages if package.release is not None]
    if asked and answers and not any(answer.known for answer in answers.values()):
        return ["the database knows none of the releases: there is none at this address, or only a mirror of the files"]
    names = sorted(
        {
            f"{package.name} {package.version}"
            for package, release in asked
            if release not in answers or (package.index == "pypi" and not answers[release].known)
        }
    )
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return [f"{what} {', '.join(names[:5])}{more}"]


def _ask_all(
    keys: Iterable[Key], ask: Callable[[Key], Value], on_progress: Callable[[int, int], None]
) -> tuple[dict[Key, Value], str]:
    """Every answer, and the first failure's words or ""."""
    pool = ThreadPoolExecutor(_WORKERS)
    answers: dict[Key, Value] = {}
    failed = ""
    try:
        asking = {pool.submit(ask, key): key for key in keys}
        for done, future in enumerate(as_completed(asking), 1):
            try:
                answers[asking[future]] = future.result()
            except OutsideError as error:
                failed = error.message
                break
            on_progress(done, len(asking))
    finally:
        # after a failure, nobody waits for what is still being read
        pool.shutdown(wait=not failed, cancel_futures=True)
    return answers, failed
