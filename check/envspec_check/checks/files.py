"""static.files: the packages' files are whole."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from envspec_check.environment import Installed, conda_records, distributions, own_paths
from envspec_check.interface import MIB, Context, Outcome, check, failed, passed, skipped, some
from envspec_check.lock import pins
from envspec_check.machine import usable_cpus

HASHED_ALL = 512 * MIB

HASHED_QUICK = 128 * MIB

HASHED_ONE = 4 * MIB
"""The size of every file is compared. Hashes are compared for files up to HASHED_ONE, Python's code first and then the
smallest, until HASHED_ALL bytes are read. Large libraries are cut short rather than altered, and reading gigabytes of
them from a cluster's storage would take longer than all other checks together: --deep does."""

CODE = (".py", ".so", ".pth", ".egg-link")
"""The ends of the names of files that Python would import, load or run, in folders of packages."""


def is_code(path: str) -> bool:
    name = os.path.basename(path)
    return name.endswith((*CODE, ".pyc")) or ".so." in name


class Recorded(NamedTuple):
    """A file as its installer recorded it. `size` and `sha256` are None where it didn't say."""

    path: str
    owner: str
    size: Optional[int]
    sha256: Optional[str]


Sized = Tuple[int, Tuple[Recorded, ...]]
"""A file's size, and what the packages that have it recorded of it."""


def recorded_files(installed: Sequence[Installed]) -> Iterator[Recorded]:
    """Yield the files of distributions, by their RECORD. Hashes are hexadecimal."""
    import base64
    import csv

    for package in installed:
        text = package.distribution.read_text("RECORD")
        root = os.path.dirname(package.folder)
        for row in csv.reader((text or "").splitlines()):
            if len(row) != 3 or not row[1].startswith("sha256="):
                continue  # files that RECORD doesn't vouch for: itself, compiled Python
            digest = base64.urlsafe_b64decode(row[1][7:] + "=" * (-len(row[1][7:]) % 4)).hex()
            size = int(row[2]) if row[2].isdigit() else None
            path = os.path.normpath(os.path.join(root, row[0]))
            yield Recorded(path, f"{package.name} {package.version}", size, digest)


def recorded_conda_files(records: Sequence[dict[str, Any]], prefix: str) -> Iterator[Recorded]:
    """Yield the files of conda packages. Those that hold the prefix's own path were changed when they were
    installed."""
    for record in records:
        for entry in (record.get("paths_data") or {}).get("paths", ()):
            if entry.get("path_type") == "hardlink" and not entry.get("prefix_placeholder"):
                owner = "conda's {} {}".format(record.get("name"), record.get("version"))
                path = os.path.join(prefix, entry["_path"])
                yield Recorded(path, owner, entry.get("size_in_bytes"), entry.get("sha256"))


def damage(files: Iterable[Recorded], budget: Optional[int]) -> tuple[list[str], dict[str, int]]:
    """List the damaged files, and count what was read. `budget` is how many bytes may be read for the hashes of
    files up to HASHED_ONE; None: all files are read whole. Of a path that several packages have, the content of any of
    them is whole: which one stands there is up to the installer."""
    owners: Dict[str, List[Recorded]] = {}
    for record in files:
        owners.setdefault(record.path, []).append(record)
    wrong, sized, unread, hashable = [], 0, 0, []
    for path, records in owners.items():
        owner = " and ".join(record.owner for record in records)
        try:
            size = os.stat(path).st_size
        except OSError:
            wrong.append(f"{path} of {owner} is missing")
            continue
        sized += 1
        fits = tuple(record for record in records if record.size in (None, size))
        if not fits:
            expected = [record.size for record in records if record.size is not None]
            how = "cut short" if size < min(expected) else "longer than it was" if len(records) == 1 else "another file"
            sizes = " or ".join(map(str, sorted(set(expected))))
            wrong.append("%s of %s is %s: %d bytes of %s" % (path, owner, how, size, sizes))
        elif all(record.sha256 for record in fits) and (budget is None or size <= HASHED_ONE):
            hashable.append((size, fits))
        else:
            unread += is_code(path)
    hashable.sort(key=lambda candidate: (not candidate[1][0].path.endswith(".py"), candidate))
    chosen = within(hashable, budget)
    unread += sum(is_code(fits[0].path) for _, fits in hashable[len(chosen) :])
    wrong += altered_files(sorted(chosen))
    counts = {"files": sized, "hashed": len(chosen), "bytes": sum(size for size, _ in chosen), "unread_code": unread}
    return sorted(wrong), counts


def within(files: Sequence[Sized], budget: Optional[int]) -> Sequence[Sized]:
    """The first files, as many as their sizes leave of the budget."""
    if budget is None:
        return files
    chosen = []
    for size, fits in files:
        budget -= size
        if budget < 0:
            break
        chosen.append((size, fits))
    return chosen


def altered_files(files: Sequence[Sized]) -> list[str]:
    """List the files with another hash than at their installation. A thread for each CPU reads, the largest files
    first, and the progress is printed."""
    total, read, printed = sum(size for size, _ in files), 0, time.monotonic()
    wrong = []
    with ThreadPoolExecutor(usable_cpus()) as pool:
        begun = {pool.submit(hash_of, fits[0].path): (size, fits) for size, fits in reversed(files)}
        for done in as_completed(begun):
            size, fits = begun[done]
            read += size
            if done.result() not in [record.sha256 for record in fits]:
                owner = " and ".join(record.owner for record in fits)
                wrong.append(f"{fits[0].path} of {owner} isn't the file that was installed")
            if time.monotonic() - printed > 1:
                printed = time.monotonic()
                print("%d of %d MiB read" % (read // MIB, total // MIB), flush=True)
    return wrong


def hash_of(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(MIB), b""):
            digest.update(piece)  # without Python's lock
    return digest.hexdigest()


@check("static.files", torch=False)
def static_files(ctx: Context) -> Outcome:
    """No file of a package is missing, cut short or altered."""
    installed, records = distributions(own_paths()), conda_records(sys.prefix)
    if "base" in ctx.config:
        # a vendor's records may say what they like of files that it patched
        locked = {pin.name for pin in pins(ctx.lock) if pin.kind == "pip"}
        installed = [package for package in installed if package.name in locked]
    # What conda installed has its sizes and hashes in conda-meta; a RECORD there is the package builder's.
    by_pip = [package for package in installed if package.installer != "conda"]
    files = [*recorded_files(by_pip), *recorded_conda_files(records, sys.prefix)]
    wrong, counts = damage(files, None if ctx.deep else HASHED_QUICK if ctx.quick else HASHED_ALL)
    details = {**counts, "wrong": wrong[:100]}
    if wrong:
        remedy = "install the package again; where many are damaged, check the disk's space and quota"
        return failed(some(wrong, 3), remedy, details=details)
    if not files:
        return skipped("no package here recorded its files", details=details)
    reason = "%d files of code were compared by their size alone; --deep reads them" % counts["unread_code"]
    return passed(reason=reason if counts["unread_code"] else None, details=details)
