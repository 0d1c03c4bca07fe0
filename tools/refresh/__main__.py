"""`python -m tools.refresh`: shows what PyPI has and the tables lack, as a diff, or writes it with `--write`.

`python -m tools.refresh names FILE` does the same for the table of the most used names, `conda FOLDER` for that of
conda-forge's builds of pytorch, `conda-names FILE` for that of conda-forge's names of PyPI projects, `pythons FILE` for
that of the builds of Python, and `wheels` for the tables of the PyTorch indexes. `host-code NAME…` and
`wheel-code NAME…` read whole wheels, for the tables of those without code for GPUs and with it.
`sizes VARIANT…` asks these how large the wheels of the tables are. `linked SPEC…` writes what `envspec link` knows of
wheels without reading them, `edition` the tables as the package envspec-facts.

Exit codes: 0 the tables are up to date, or were written; 1 they aren't; 2 and 3 as everywhere in envspec.
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import click

import envspec.facts
import envspec.packages
from envspec.app.inputs import read_lock
from envspec.artifacts.metadata import MetadataCache, MetadataReader
from envspec.artifacts.urls import index_address
from envspec.base.documents import Unreadable, read_json
from envspec.base.errors import EnvspecError, IndexFailure, InputError, Place
from envspec.base.texts import byte_size
from envspec.binaries.wheel import OpenWheel, UnreadableWheel, open_wheel
from envspec.cli.console import out, say, tell
from envspec.configuration.settings import Settings, load_settings, split_credentials
from envspec.facts import torch_builds, wheels
from envspec.facts.cuda_stack import TORCH, is_toolkit
from envspec.facts.edition import MANIFEST, shipped_edition
from envspec.lock.model import LockedTarget
from envspec.net.connections import index_fetcher
from envspec.net.fetch import Fetcher
from envspec.net.remote_file import open_remote
from envspec.net.simple_page import parse_page
from envspec.packages.metadata import Metadata
from envspec.prove.link.model import WheelFacts
from envspec.prove.link.store import MACHINES, SHIPPED, LinkStore, pack
from envspec.prove.link.system import is_read
from envspec.resolve.uv.answer import FoundFile
from tools.refresh import conda_names_table, conda_table, edition, most_used_table, python_builds_table, torch_table
from tools.refresh.host_code_table import refreshed_host_code
from tools.refresh.published import PublishedFile
from tools.refresh.releases import refreshed_dates
from tools.refresh.torch_table import refresh
from tools.refresh.triton_table import refreshed_triton
from tools.refresh.wheel_code_table import refreshed_wheel_code
from tools.refresh.wheels_table import Group, Source, refreshed_wheels


def shipped_facts(targets: Iterable[LockedTarget], store: LinkStore, path: Path) -> tuple[str, ...]:
    """Write the facts of the targets' torch and CUDA wheels to `path`; give the files that weren't read here.

    Raises OSError.
    """
    by_wheel: dict[tuple[str, int], WheelFacts] = {}
    unread = set[str]()
    for target in targets:
        machine = MACHINES.get(target.inputs.platform)
        for pin in target.pins:
            is_shipped = (pin.name in TORCH or is_toolkit(pin.name)) and is_read(pin)
            if machine is None or not is_shipped or pin.artifact is None:
                continue
            facts = store.get(pin.artifact.sha256, machine)
            if facts is None:
                unread.add(f"{pin.artifact.file} of {pin.index}")
            else:
                by_wheel[pin.artifact.sha256, machine] = facts
    pack(by_wheel, path)
    return tuple(sorted(unread))


ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
"""The Accept header: JSON pages (PEP 691), which name yanked files, rather than HTML."""

TABLE = Path(envspec.facts.__file__).parent / "data" / "torch.toml"

NAMES_TABLE = TABLE.with_name("most_used.toml")

RELEASED_TABLE = TABLE.with_name("released.toml")

TRITON_TABLE = TABLE.with_name("triton.toml")

CONDA_TABLE = TABLE.with_name("conda_builds.toml")

HOST_CODE_TABLE = TABLE.with_name("host_code.toml")

WHEEL_CODE_TABLE = TABLE.with_name("wheel_code.toml")

CONDA_NAMES = Path(envspec.packages.__file__).parent / "data" / "conda_pypi.txt"

PYTHONS_TABLE = TABLE.with_name("python_builds.toml")

WHEELS = TABLE.with_name("wheels")

WHOLE = 256 << 20
"""Bytes of the largest wheel that is fetched whole, where the index offers no ranges."""

_AT_ONCE = 8
"""How many packages are compared with PyPI at once: what takes time is waiting."""


class LiveIndex:
    """An index at this machine's address for it, by the user's settings; by default uv's own: "pypi", "pytorch/cu130".
    Raises OutsideError where there is none."""

    def __init__(self, name: str, settings: Settings, env: Mapping[str, str]) -> None:
        address = index_address(name, {}, settings, env)
        self._url = split_credentials(address.rstrip("/"))[0]
        self._fetcher = index_fetcher(settings, {}, env)
        self._metadata = MetadataReader(MetadataCache(settings.cache()), self._fetcher)
        self._found: dict[str, FoundFile] = {}

    @property
    def fetcher(self) -> Fetcher:
        return self._fetcher

    def files_with_addresses(self, project: str) -> tuple[FoundFile, ...]:
        """Read the files on a project's page with their addresses. Raises IndexFailure."""
        return tuple(self._found[file.file] for file in self.files(project))

    def files(self, project: str) -> tuple[PublishedFile, ...]:
        """Read the files on a project's page, none if the index doesn't have the project. Raises IndexFailure."""
        url = f"{self._url}/{project}/"
        reply = self._fetcher.get(url, headers={"Accept": ACCEPT})
        page = parse_page(reply.body, url) if reply.status != 404 else []
        return tuple(self._row_file(dict(row)) for row in page if row["hashes"])

    def _row_file(self, row: dict[str, Any]) -> PublishedFile:
        name = row["filename"]
        beside = row.get("core-metadata")
        hashed = beside if isinstance(beside, str) else None
        self._found[name] = FoundFile(row["url"], name, row["hashes"]["sha256"], row.get("size"), hashed)
        return PublishedFile(
            *(name, row.get("requires-python"), bool(row.get("yanked")), row.get("upload-time")),
            row["hashes"]["sha256"],
        )

    def requires_dist(self, project: str, file: str) -> tuple[str, ...]:
        """Read the Requires-Dist lines of a wheel on a page that was read. Raises IndexFailure."""
        return self.metadata(file).requires_dist

    def metadata(self, file: str) -> Metadata:
        """Read the METADATA of a wheel on a page that was read. Raises IndexFailure."""
        listed = self._found[file]
        known = self._metadata.recall(listed)
        if known is None and listed.size is None and listed.metadata_sha256:
            # without sizes on the page, `read` would ask for the wheel's too
            known = self._metadata.read_beside(listed)
        return known or self._metadata.read(listed)

    @contextmanager
    def open(self, file: str) -> Iterator[OpenWheel]:
        """Open a wheel on a page that was read, by ranges. Raises IndexFailure."""
        try:
            with open_remote(self._fetcher, self._found[file].url, WHOLE) as content, open_wheel(content) as wheel:
                yield wheel
                say(f"read {byte_size(content.fetched)} of {file}")
        except UnreadableWheel as error:
            raise IndexFailure(f"{file} can't be read: {error}") from None


@click.group(invoke_without_command=True)
@click.option("--write", is_flag=True, help="Write the tables instead of only showing what would change.")
@click.pass_context
def command(context: click.Context, write: bool) -> int:
    """Compare envspec's tables of torch builds, triton's compilers and release dates with PyPI, and print the
    difference. Where PyPI has what would make a wrong row, all stay as they are."""
    if context.invoked_subcommand is not None:
        return 0
    index = _pypi()
    refreshed = refresh(TABLE.read_text(encoding="utf-8"), index)
    texts = {
        TABLE: refreshed.text,
        TRITON_TABLE: refreshed_triton(TRITON_TABLE.read_text(encoding="utf-8"), index),
        RELEASED_TABLE: refreshed_dates(RELEASED_TABLE.read_text(encoding="utf-8"), index),
    }
    for note in refreshed.notes:
        say(f"note: {note}", style="yellow")
    return max([_show(table, text, write, "python -m tools.refresh --write") for table, text in texts.items()])


@command.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--revision", required=True, help="The commit that the file is of, in hexadecimal digits.")
@click.option("--write", is_flag=True, help="Write the table instead of only showing what would change.")
def names(file: Path, revision: str, write: bool) -> int:
    """Make the table of the most used names from a ranking of downloads, and print the difference."""
    _refuse_no_commit(revision)
    text = most_used_table.table_from(_json(file), revision)
    return _show(NAMES_TABLE, text, write, f"python -m tools.refresh names {file} --revision {revision} --write")


@command.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--revision", required=True, help="The commit that the file is of, in hexadecimal digits.")
@click.option("--date", required=True, help="The day of that commit: 2026-08-21.")
@click.option("--write", is_flag=True, help="Write the table instead of only showing what would change.")
def pythons(file: Path, revision: str, date: str, write: bool) -> int:
    """Bring the table of the builds of Python up to date with a copy of uv's own, and print the difference.

    Builds that uv no longer names stay: locks have them.
    """
    _refuse_no_commit(revision)
    before = PYTHONS_TABLE.read_text(encoding="utf-8")
    text = python_builds_table.table_from(_json(file), revision, date, before)
    again = f"python -m tools.refresh pythons {file} --revision {revision} --date {date} --write"
    return _show(PYTHONS_TABLE, text, write, again)


@command.command("conda-names")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--revision", required=True, help="The commit that the file is of, in hexadecimal digits.")
@click.option("--date", required=True, help="The day of that commit: 2026-08-19.")
@click.option("--write", is_flag=True, help="Write the table instead of only showing what would change.")
def of_conda_forges_packages(file: Path, revision: str, date: str, write: bool) -> int:
    """Make the table of conda-forge's packages and their PyPI projects from parselmouth's, and print the difference."""
    _refuse_no_commit(revision)
    text = conda_names_table.table_from(_json(file), revision, date)
    again = f"python -m tools.refresh conda-names {file} --revision {revision} --date {date} --write"
    return _show(CONDA_NAMES, text, write, again)


@command.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--revision", required=True, help="The commit that the folder holds, in hexadecimal digits.")
@click.option("--write", is_flag=True, help="Write the table instead of only showing what would change.")
def conda(folder: Path, revision: str, write: bool) -> int:
    """Compare the table of conda-forge's builds of pytorch with a copy of their recipe, and print the difference.

    Its scripts are read, and none of them is run.
    """
    _refuse_no_commit(revision)
    paths = [
        *sorted((folder / conda_table.VARIANTS).glob("*.yaml")),
        *(folder / script for script in conda_table.SCRIPTS),
    ]
    if missing := [path for path in paths if not path.is_file()]:
        raise InputError(f"{missing[0]} isn't there", hint=f"name the folder of a copy of {conda_table.REPOSITORY}")
    files = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    text = conda_table.refreshed_builds(CONDA_TABLE.read_text(encoding="utf-8"), files, revision)
    return _show(CONDA_TABLE, text, write, f"python -m tools.refresh conda {folder} --revision {revision} --write")


_Refreshed = Callable[[str, Iterable[str], "LiveIndex", date], tuple[str, tuple[str, ...]]]


def _show_read(word: str, table: Path, refreshed: _Refreshed, names: tuple[str, ...], write: bool) -> int:
    """Show, or write, a table of what wheels hold as it is after they were read anew."""
    text, notes = refreshed(table.read_text(encoding="utf-8"), names, _pypi(), datetime.now(timezone.utc).date())
    for note in notes:
        say(f"note: {note}", style="yellow")
    return _show(table, text, write, " ".join([f"python -m tools.refresh {word}", *names, "--write"]))


@command.command("host-code")
@click.argument("names", nargs=-1)
@click.option("--write", is_flag=True, help="Write the table instead of only showing what would change.")
def of_host_code(names: tuple[str, ...], write: bool) -> int:
    """Read the newest wheels of packages to their end, list those that hold no code for GPUs, and print the difference:
    of all packages in the table (2.8 GB), or of those that are named."""
    return _show_read("host-code", HOST_CODE_TABLE, refreshed_host_code, names, write)


@command.command("wheel-code")
@click.argument("names", nargs=-1)
@click.option("--write", is_flag=True, help="Write the table instead of only showing what would change.")
def of_wheel_code(names: tuple[str, ...], write: bool) -> int:
    """Read the wheels of packages' newest releases for GPUs to their end, or of a release (vllm==0.11.0), and print the
    difference: of all packages in the table (some 10 GB), or of those that are named."""
    return _show_read("wheel-code", WHEEL_CODE_TABLE, refreshed_wheel_code, names, write)


@command.command("wheels")
@click.argument("variants", nargs=-1)
@click.option("--write", is_flag=True, help="Write the tables instead of only showing what would change.")
def of_the_pytorch_index(variants: tuple[str, ...], write: bool) -> int:
    """Compare the tables of the PyTorch indexes' files with the indexes, and print the difference: of all variants that
    have a table, or that the newest torch in the table of builds has, or of those that are named (cu132)."""
    newest = {build.variant for build in torch_builds.builds(torch_builds.newest().version)}
    texts = {}
    for variant in variants or sorted({*wheels.variants(), *newest}):
        table = WHEELS / f"{variant}.json"
        before = table.read_text(encoding="utf-8") if table.exists() else None
        texts[table] = refreshed_wheels(before, variant, _source(variant))
    command_line = " ".join(["python -m tools.refresh wheels", *variants, "--write"])
    return max([_show(table, text, write, command_line) for table, text in texts.items()])


def _source(variant: str) -> Source:
    index = LiveIndex(f"pytorch/{variant}", load_settings(os.environ), os.environ)

    def metadata(file: str) -> Group:
        published = index.metadata(file)
        lists = {"requires_dist": list(published.requires_dist), "provides_extra": list(published.provides_extra)}
        return {"requires_python": published.requires_python, **lists}

    def has(release: str, platform: str) -> bool:
        return any(torch_builds.builds(release, platform=platform, variant=variant))

    cpu = wheels.load("cpu")
    return Source(index.files, metadata, has, {project: cpu.files(project)[0].version for project in cpu.projects})


@command.command()
@click.argument("specs", nargs=-1, required=True)
def link(specs: tuple[str, ...]) -> int:
    """Write the facts that `envspec link` ships: those that this machine has read of torch and CUDA wheels in locks.

    `envspec link SPEC` reads the wheels; the command names those that it hasn't read.
    """
    store = LinkStore(load_settings(os.environ).cache())
    targets = [target for path in specs for target in read_lock(path, None, stale="ignore")[1]]
    unread = shipped_facts(targets, store, SHIPPED)
    for file in unread:
        say(f"not read: {file}")
    say(f"wrote {SHIPPED.name} ({byte_size(SHIPPED.stat().st_size)})")
    return 1 if unread else 0


@command.command()
@click.argument("variants", nargs=-1, required=True)
@click.option("--write", is_flag=True, help="Write the tables instead of only showing what would change.")
def sizes(variants: tuple[str, ...], write: bool) -> int:
    """Ask the PyTorch indexes of variants (cu126) for the lengths of files whose size the tables lack, and print the
    difference. Files that an index doesn't have, or has with another hash, are left as they are."""
    settings = load_settings(os.environ)
    fetcher = index_fetcher(settings, {}, os.environ)
    status = 0
    for variant in variants:
        table = TABLE.parent / "wheels" / f"{variant}.json"
        if not table.is_file():
            raise InputError(f"{variant}: envspec has no table of this variant", hint="name one such as cu126")
        text = table.read_text(encoding="utf-8")
        address = split_credentials(index_address(f"pytorch/{variant}", {}, settings, os.environ).rstrip("/"))[0]
        missing = torch_table.files_without_size(text)
        projects = sorted({file.split("-", 1)[0].replace("_", "-") for file, _ in missing})
        rows = [row for project in projects for row in _rows(fetcher, f"{address}/{project}/")]
        listed = {(row["filename"], row["hashes"].get("sha256")): row for row in rows}
        known = {key: listed[key] for key in missing if key in listed}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            lengths = pool.map(lambda row: row.get("size") or _length(fetcher, row["url"]), known.values())
            sizes = {key: size for key, size in zip(known, lengths, strict=True) if size}
        say(f"{variant}: {len(sizes)} of {len(missing)} sizes found")
        again = f"python -m tools.refresh sizes {' '.join(variants)} --write"
        status = max(status, _show(table, torch_table.with_sizes(text, sizes), write, again))
    return status


def _rows(fetcher: Fetcher, url: str) -> list[dict[str, Any]]:
    reply = fetcher.get(url, headers={"Accept": ACCEPT})
    return [dict(row) for row in parse_page(reply.body, url)] if reply.status == 200 else []


def _length(fetcher: Fetcher, url: str) -> int | None:
    """Return a file's length by its server's answer about one byte; None where the answer has none."""
    reply = fetcher.range(url, 0, 1)
    return reply.total if reply.status in (200, 206) else None


@command.command("edition")
@click.argument("folder", type=click.Path(path_type=Path), default=Path("tools", "publish", "facts", "envspec_facts"))
def write_edition(folder: Path) -> int:
    """Write the tables with the list of their hashes, ready to be built: by default into tools/publish/facts/ here."""
    out(f"wrote {folder}: facts {edition.write(folder)}")
    return 0


def _json(file: Path) -> Any:
    try:
        return read_json(file.read_bytes())
    except Unreadable as error:
        raise InputError(f"this isn't JSON: {error}", place=Place(str(file))) from None


def _refuse_no_commit(revision: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{8,64}", revision):
        raise InputError(
            f"--revision: `{revision}` isn't a commit's hash", hint="run `git rev-parse HEAD` in the folder"
        )


def _pypi() -> LiveIndex:
    return LiveIndex("pypi", load_settings(os.environ), os.environ)


def _show(table: Path, text: str, write: bool, hint: str) -> int:
    """Print how a table changes, and write it if asked. Gives the exit code."""
    before = table.read_text(encoding="utf-8") if table.exists() else ""
    data = table.parent.parent if table.parent.name == "wheels" else table.parent
    room = "packages" if table == CONDA_NAMES else "facts"
    name = f"envspec/{room}/data/{table.relative_to(data).as_posix()}"
    out("".join(_diff(before, text, name)), newline=False)
    if text == before:
        say(f"{name} is up to date")
        return 0
    if not write:
        say(f"hint: {hint}")
        return 1
    texts = {table: text}
    if room == "facts":
        version = edition.next_version(shipped_edition().version, datetime.now(timezone.utc).date())
        texts[data / MANIFEST] = edition.manifest(version)
    for path, content in texts.items():
        partial = path.with_suffix(".partial")
        partial.write_text(content, encoding="utf-8")
        partial.replace(path)
    return 0


def _diff(before: str, after: str, name: str) -> list[str]:
    return list(difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{name}", f"b/{name}", n=1))


def main() -> None:
    """Run the program, and end the process with its exit code."""
    os.environ["ENVSPEC_FACTS"] = "shipped"  # the tables of this checkout, whatever is installed beside it
    try:
        status = command.main(standalone_mode=False)
    except EnvspecError as error:
        tell(error)
        status = error.exit_code
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    sys.exit(status)


if __name__ == "__main__":
    main()
