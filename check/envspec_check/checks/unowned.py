"""static.unowned: no code in the environment that no package brought."""

from __future__ import annotations

import os
import sys
from typing import Any, Iterable, Iterator, List, Sequence, Set

from envspec_check.checks.files import is_code
from envspec_check.environment import Installed, conda_records, distributions, own_paths
from envspec_check.interface import Context, Outcome, check, failed, passed, skipped, some

MADE_WITH_IT = ("_virtualenv.py", "_virtualenv.pth")
"""What virtualenv and uv put into each environment that they make."""

RUN_AT_START = ("sitecustomize", "usercustomize")


def owned_files(installed: Iterable[Installed], records: Iterable[Any], prefix: str) -> Set[str]:
    """Return the files that packages brought, as their installers recorded them."""
    import csv

    paths = {os.path.join(prefix, name) for record in records for name in record.get("files", ())}
    for package in installed:
        root = os.path.dirname(package.folder)
        rows = csv.reader((package.distribution.read_text("RECORD") or "").splitlines())
        paths.update(os.path.normpath(os.path.join(root, row[0])) for row in rows if row)
    return {os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in paths}


def code_in(folder: str) -> Iterator[str]:
    """Yield the files below a folder of packages that Python would import, load or run, and the links to folders: what
    is behind them is code too. What Python compiled itself lies in `__pycache__`: `static.bytecode` compares it."""
    for here, folders, names in os.walk(folder):
        yield from filter(os.path.islink, (os.path.join(here, name) for name in folders))
        folders[:] = [
            name for name in folders if name != "__pycache__" and not name.endswith((".dist-info", ".egg-info"))
        ]
        yield from (os.path.join(here, name) for name in names if is_code(name) and name not in MADE_WITH_IT)


def strays_in(folder: str, owned: Set[str]) -> List[str]:
    """Return the code below a folder of packages that is in none of them. Links to a package's own folders in it are
    its own; what a package's folder has elsewhere is seen by no check."""
    homes = {os.path.dirname(path) for path in owned if path.startswith(folder + os.sep)}
    return [path for path in code_in(folder) if path not in owned and os.path.realpath(path) not in homes]


def kind_of(path: str, folder: str) -> str:
    """Describe an unowned file's effect; empty where it can only be imported."""
    name = os.path.basename(path)
    if os.path.islink(path) and os.path.isdir(path):
        return "is a link to %s" % os.path.realpath(path)
    if os.path.dirname(path) == folder and name.partition(".")[0] in RUN_AT_START:
        return "runs at every start of Python"
    if name.endswith(".pth"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = [line.strip() for line in file]
        except OSError:
            return ""
        code = any(line.startswith(("import ", "import\t")) for line in lines)
        return "runs at every start of Python" if code else "adds folders to sys.path"
    if os.path.dirname(path) == folder and name.partition(".")[0] in standard_names():
        return "has the name of a module of the standard library"
    return ""


def standard_names() -> Set[str]:
    """Return the modules of the standard library, for Python 3.8 too."""
    names = getattr(sys, "stdlib_module_names", None)
    if names is None:
        names = [name.partition(".")[0] for name in os.listdir(os.path.dirname(os.__file__))]
    return {*names, *sys.builtin_module_names}


def without_record(installed: Sequence[Installed], by_conda: Set[str]) -> List[str]:
    """Return the distributions that don't say which files are theirs."""
    lacking = []
    for package in installed:
        here = os.path.join(
            os.path.realpath(os.path.dirname(package.folder)), os.path.basename(package.folder), "METADATA"
        )
        by_pip = (
            package.name
            and package.folder.endswith(".dist-info")
            and package.installer != "conda"
            and here not in by_conda
        )
        if by_pip and not package.distribution.read_text("RECORD"):
            lacking.append(f"{package.name} {package.version}")
    return lacking


@check("static.unowned", torch=False)
def static_unowned(ctx: Context) -> Outcome:
    """All code in the environment's folders of packages belongs to a package."""
    if sys.prefix.startswith("/nix/store/"):
        return skipped("Nix's store can't be written to: what is in it was built into it")
    if "base" in ctx.config:
        return skipped("of the base's own files, the lock knows none")
    paths, records = own_paths(), conda_records(sys.prefix)
    installed = distributions(paths)
    by_conda = owned_files([], records, sys.prefix)
    lacking = without_record(installed, by_conda)
    owned = by_conda | owned_files(installed, [], sys.prefix)
    folders = sorted({os.path.realpath(path) for path in paths if os.path.basename(path) == "site-packages"})
    strays = [path for folder in folders for path in strays_in(folder, owned)]
    if lacking:
        # all of their files would be told, and what is wrong is one file
        reason = f"no RECORD says which files belong to {some(lacking)}"
        return failed(reason, "install these packages again from the lock", details={"without_record": lacking})
    details = {"folders": folders, "owned": len(owned), "unowned": strays[:100]}
    if not strays:
        return passed(details=details)
    described = []
    for path in strays:
        kind = next(filter(None, (kind_of(path, folder) for folder in folders)), "")
        described.append((not kind, f"{path} {kind}" if kind else path))
    reason = f"no package brought {some([words for _, words in sorted(described)], 3)}"
    return failed(reason, "remove what doesn't belong there, or make the environment again", details=details)
