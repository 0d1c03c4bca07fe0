"""Advisories in the OSV format (https://ossf.github.io/osv-schema/): a downloaded database, read without a network.

OSV publishes all advisories about PyPI as one zip with a JSON file each; a folder of such files is as good.
"""

from __future__ import annotations

import json
import lzma
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote

from packaging.version import Version

from envspec.base.documents import read_json
from envspec.base.errors import IndexFailure, InputError, OutsideError, Place
from envspec.base.plain_files import open_plain, read_plain
from envspec.base.redact import redact
from envspec.configuration.settings import split_credentials
from envspec.net.body import Pace, TooMuch, read_whole
from envspec.net.fetch import Fetcher
from envspec.net.limits import LIMITS
from envspec.net.transport import PeerTooSlow, deadline
from envspec.packages.requirement import canonical_name
from envspec.review.audit.model import Advisory, DatabaseAnswer, PublishedRelease
from envspec.review.audit.pypi import first_line

# OSV's service: one query names the advisories about all releases (https://google.github.io/osv.dev/post-v1-querybatch/),
# and each advisory has a page of its own. PyPI's own JSON doesn't have the reports of malicious releases.


_OSV = "https://api.osv.dev"
_AT_ONCE = 1000
"""The service takes no more queries in a request."""
_SECONDS = 5.0
"""Whoever locks or installs waits for it."""
_MOST = 8_000_000
_MOST_PAGES = 100


def reports_of(
    releases: Sequence[PublishedRelease], url: str, fetcher: Fetcher, fetched: str
) -> Mapping[PublishedRelease, DatabaseAnswer]:
    """Ask the service at `url` for the reports (`MAL-…`) about PyPI's releases, and nothing else. Raises IndexFailure
    for what isn't a whole answer."""
    named = _query(releases, batch_address(url), fetcher)
    reports = {release: sorted(name for name in names if name.startswith("MAL-")) for release, names in named.items()}
    return {release: DatabaseAnswer(fetched, tuple(map(Advisory, names))) for release, names in reports.items()}


class OsvService:
    """OSV's service at an address. The first question is one query about all of `releases`; each advisory that it names
    is fetched once."""

    def __init__(self, releases: Sequence[PublishedRelease], url: str, fetcher: Fetcher, fetched: str) -> None:
        self._releases, self._url, self._fetcher, self._fetched = releases, url, fetcher, fetched
        self._asking = Lock()
        self._named: dict[PublishedRelease, list[str]] | OutsideError | None = None

    def ask(self, release: PublishedRelease) -> DatabaseAnswer:
        """Look up a release. Raises IndexFailure."""
        with self._asking:
            if self._named is None:
                try:
                    self._named = _query(self._releases, batch_address(self._url), self._fetcher)
                except OutsideError as error:
                    self._named = error
        if isinstance(self._named, OutsideError):
            raise self._named
        advisories = [self._advisory(name, release) for name in sorted(self._named[release])]
        return DatabaseAnswer(self._fetched, tuple(advisory for advisory in advisories if advisory is not None))

    def _advisory(self, name: str, release: PublishedRelease) -> Advisory | None:
        address = f"{self._url.rstrip('/')}/v1/vulns/{quote(name, safe='')}"
        reply = self._fetcher.get(address, headers={"Accept": "application/json"})
        try:
            if reply.status == 200:
                return _advisory(_record(reply.body), release)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass
        raise _no_answer(address)


def service_of(env: Mapping[str, str]) -> str | None:
    """Return the address of OSV's service, None where the user named none: the service learns the packages' names.

    uv's own switch counts too."""
    if url := env.get("ENVSPEC_OSV_URL"):
        return url
    if env.get("UV_MALWARE_CHECK", "").lower() in ("1", "true", "yes", "on"):
        return env.get("UV_MALWARE_CHECK_URL") or _OSV
    return None


def batch_address(url: str) -> str:
    """Give the address of the service's one query about many releases."""
    return f"{url.rstrip('/')}/v1/querybatch"


def _query(releases: Sequence[PublishedRelease], address: str, fetcher: Fetcher) -> dict[PublishedRelease, list[str]]:
    """Find the identifiers of the advisories about each release, all of their pages."""
    identifiers: dict[PublishedRelease, list[str]] = {release: [] for release in releases}
    waiting = [(release, "") for release in releases]
    for _ in range(_MOST_PAGES):
        batch, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
        queries = [
            {"package": {"name": release.name, "ecosystem": "PyPI"}, "version": release.version}
            | ({"page_token": token} if token else {})
            for release, token in batch
        ]
        answers = parse_answer(_post(address, {"queries": queries}, fetcher), len(queries), address)
        for (release, _), (names, more) in zip(batch, answers, strict=True):
            identifiers[release] += names
            waiting += [(release, more)] if more else []
        if not waiting:
            return identifiers
    raise _no_answer(address)


def parse_answer(body: bytes, queries: int, url: str) -> list[tuple[list[str], str]]:
    """Read the identifiers of the advisories about each of so many queries, with the token of the next page or "".
    Raises IndexFailure."""
    try:
        rows = read_json(body)["results"]
        results = [
            (
                [str(vulnerability["id"]) for vulnerability in row.get("vulns") or ()],
                str(row.get("next_page_token") or ""),
            )
            for row in rows
        ]
        if len(results) != queries:
            raise ValueError
        return results
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _no_answer(url) from None


def _no_answer(url: str) -> IndexFailure:
    bare = redact(split_credentials(url)[0])
    return IndexFailure(f"{bare} didn't answer as OSV's service does", hint="check ENVSPEC_OSV_URL")


def _post(url: str, value: object, fetcher: Fetcher) -> bytes:
    from urllib3.exceptions import HTTPError

    bare = split_credentials(url)[0]
    try:
        with deadline(LIMITS.whole_seconds) as whole:
            with whole.holds():
                response = fetcher.pool(bare).request(
                    "POST",
                    bare,
                    body=json.dumps(value).encode(),
                    headers={"Content-Type": "application/json"},
                    timeout=_SECONDS,
                    retries=False,
                    redirect=False,
                    preload_content=False,
                )
            body = read_whole(response, _MOST, Pace(redact(bare), LIMITS, whole, whole=True))
            response.release_conn()
    except TooMuch:
        raise IndexFailure(f"{redact(bare)} sends more than {_MOST >> 20} MiB") from None
    except (HTTPError, PeerTooSlow, OSError) as error:
        raise IndexFailure(f"{redact(bare)} can't be asked: {type(error).__name__}") from None
    if response.status != 200:
        raise IndexFailure(f"{redact(bare)} answered HTTP {response.status}, {len(body)} bytes")
    return bytes(body)


_DOWNLOAD = "download OSV's `all.zip` of the ecosystem PyPI again"


class OsvDatabase:
    """All advisories of a file. `modified` is the time of the latest change of any of them: the database's age.

    Raises InputError for an entry that names no package.
    """

    def __init__(self, records: Iterable[Mapping[str, Any]], name: str) -> None:
        self._records: dict[str, list[Mapping[str, Any]]] = {}
        self.name = name
        self.modified = ""
        for record in records:
            self.modified = max(self.modified, str(record.get("modified", "")))
            try:
                about = {canonical_name(str(affected["package"]["name"])) for affected in _about_pypi(record)}
            except (KeyError, TypeError, AttributeError):
                raise _format_error(record, name) from None
            for package in about:
                self._records.setdefault(package, []).append(record)

    @staticmethod
    def read(path: Path) -> OsvDatabase:
        """Read the database in a zip, a folder, or one JSON file. Raises InputError."""
        place = Place(str(path))
        try:
            records = list(_records(path))
        except OSError as error:
            raise InputError(f"the database can't be read: {error.strerror or error}", place=place) from None
        except (ValueError, KeyError, RecursionError):
            raise InputError("this isn't a database in the OSV format", place=place, hint=_DOWNLOAD) from None
        except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError) as error:
            # RuntimeError: encrypted, or compressed in a way that this Python can't undo
            raise InputError(f"the archive can't be unpacked: {error}", place=place, hint=_DOWNLOAD) from None
        database = OsvDatabase(records, path.name)
        if not database._records:
            raise InputError("the database has no entries about PyPI packages", place=place, hint=_DOWNLOAD)
        return database

    def ask(self, release: PublishedRelease) -> DatabaseAnswer:
        """Look up a release. A database of all advisories has an answer for every release.

        Raises InputError for an entry about the package that names no versions.
        """
        advisories: list[Advisory] = []
        for record in self._records.get(release.name, ()):
            try:
                advisory = _advisory(record, release)
            except (KeyError, TypeError, AttributeError):
                raise _format_error(record, self.name) from None
            advisories += [advisory] if advisory else []
        return DatabaseAnswer(self.modified, tuple(sorted(advisories, key=lambda advisory: advisory.id)))


def _format_error(record: Mapping[str, Any], database: str) -> InputError:
    return InputError(f"the entry {record.get('id')} isn't in the OSV format", place=Place(database), hint=_DOWNLOAD)


def _records(path: Path) -> Iterator[Mapping[str, Any]]:
    if path.is_dir():
        for file in sorted(path.rglob("*.json")):
            yield _record(read_plain(file))
        return
    with open_plain(path) as opened:
        if not zipfile.is_zipfile(opened):
            opened.seek(0)
            yield _record(opened.read())
            return
        with zipfile.ZipFile(opened) as archive:
            for name in archive.namelist():
                if name.endswith(".json"):
                    yield _record(archive.read(name))


def _record(content: bytes) -> Mapping[str, Any]:
    record = read_json(content)
    if not isinstance(record, dict) or "id" not in record or "modified" not in record:
        raise ValueError
    return record


def _about_pypi(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if record.get("withdrawn"):
        return []
    return [affected for affected in _list(record, "affected") if affected["package"]["ecosystem"] == "PyPI"]


def _list(within: Mapping[str, Any], key: str) -> Sequence[Any]:
    """Return a list that may be missing. Raises TypeError for anything else, because a text would pass for a list of
    letters."""
    value = within.get(key)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError
    return value


def _advisory(record: Mapping[str, Any], release: PublishedRelease) -> Advisory | None:
    version = Version(release.version)
    ours = [
        affected for affected in _about_pypi(record) if canonical_name(str(affected["package"]["name"])) == release.name
    ]
    # the schema's evaluation algorithm
    if not any(
        version in _versions(_list(affected, "versions"))
        or any(_is_within(events, version) for events in _ranges(affected))
        for affected in ours
    ):
        return None
    fixed = {
        event["fixed"] for affected in ours for events in _ranges(affected) for event in events if "fixed" in event
    }
    specific = record.get("database_specific")
    severity = specific.get("severity") if isinstance(specific, dict) else None
    return Advisory(
        id=str(record["id"]),
        aliases=tuple(sorted(map(str, _list(record, "aliases")))),
        summary=first_line(str(record.get("summary") or record.get("details") or "")),
        fixed_in=tuple(str(v) for v in sorted(_versions(fixed)) if v > version),
        link=_link(record),
        severity=str(severity).lower() if severity else None,
    )


def _link(record: Mapping[str, Any]) -> str | None:
    rows = [
        reference
        for reference in _list(record, "references")
        if isinstance(reference, dict) and reference.get("type") == "ADVISORY"
    ]
    return next((str(reference["url"]) for reference in rows if reference.get("url")), None)


def _ranges(affected: Mapping[str, Any]) -> list[list[Mapping[str, str]]]:
    ranges = [version_range for version_range in _list(affected, "ranges") if version_range.get("type") == "ECOSYSTEM"]
    if not all(isinstance(version_range["events"], list) for version_range in ranges):
        raise TypeError
    return [version_range["events"] for version_range in ranges]


def _is_within(events: Iterable[Mapping[str, str]], version: Any) -> bool:
    ordered = sorted((at, kind) for event in events for kind, text in event.items() for at in _versions([text]))
    within = False
    for at, kind in ordered:
        if kind == "introduced" and version >= at:
            within = True
        elif (kind == "fixed" and version >= at) or (kind == "last_affected" and version > at):
            within = False
    return within


def _versions(texts: Iterable[str]) -> set[Any]:
    """Return the texts that are PEP 440 versions: OSV also lists some that could never be installed. Raises TypeError
    for what isn't a text."""
    versions = set()
    for text in texts:
        if not isinstance(text, str):
            raise TypeError
        try:
            # "0" is the schema's word for before everything
            versions.add(Version("0.dev0" if text == "0" else text))
        except ValueError:
            continue
    return versions
