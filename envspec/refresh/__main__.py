"""`python -m envspec.refresh`: shows what PyPI has and the tables lack, as a diff, or writes it with `--write`.

Exit codes: 0 the tables are up to date, or were written; 1 they aren't; 2 and 3 as everywhere in envspec.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

import envspec.facts
from envspec.cli.console import out, say
from envspec.cli.main import tell
from envspec.errors import EnvspecError, ToolError
from envspec.net.connections import index_fetcher
from envspec.net.simple_page import parse_page
from envspec.refresh.published import PublishedFile
from envspec.refresh.torch_table import refreshed
from envspec.resolve.pip.metadata import MetadataCache, MetadataReader
from envspec.settings import Settings, load_settings, split_credentials
from envspec.uv.answer import FoundFile
from envspec.uv.default_index import uvs_default_index
from envspec.uv.program import find_uv

ACCEPT = "application/vnd.pypi.simple.v1+json, text/html;q=0.5"
"""The Accept header: JSON pages (PEP 691), which name yanked files, rather than HTML."""

TABLE = Path(envspec.facts.__file__).parent / "data" / "torch.toml"


class PyPI:
    """Give this machine's URL for PyPI, by the user's settings; by default uv's own."""

    def __init__(self, settings: Settings, env: Mapping[str, str]) -> None:
        address = settings.default_index or uvs_default_index(find_uv(env), settings.cache())
        if not address:
            raise ToolError("uv doesn't say where PyPI is", hint="set UV_DEFAULT_INDEX")
        self._url = split_credentials(address.rstrip("/"))[0]
        self._fetcher = index_fetcher(settings, {}, env)
        self._metadata = MetadataReader(MetadataCache(settings.cache()), self._fetcher)
        self._found: dict[str, FoundFile] = {}

    def files(self, project: str) -> tuple[PublishedFile, ...]:
        """Read the files on a project's page, none if PyPI doesn't have the project. Raises IndexFailure."""
        url = f"{self._url}/{project}/"
        reply = self._fetcher.get(url, headers={"Accept": ACCEPT})
        page = parse_page(reply.body, url) if reply.status != 404 else []
        return tuple(self._remembered(dict(row)) for row in page)

    def _remembered(self, row: dict[str, Any]) -> PublishedFile:
        name = row["filename"]
        self._found[name] = FoundFile(row["url"], name, row["hashes"]["sha256"], row.get("size"))
        return PublishedFile(name, row.get("requires-python"), bool(row.get("yanked")), row.get("upload-time"))

    def requires_dist(self, project: str, file: str) -> tuple[str, ...]:
        """Read the Requires-Dist lines of a wheel on a page that was read. Raises IndexFailure."""
        found = self._found[file]
        return (self._metadata.cached(found) or self._metadata.read(found)).requires_dist


@click.command()
@click.option("--write", is_flag=True, help="Write the tables instead of only showing what would change.")
def command(write: bool) -> int:
    """Compare envspec's table of torch builds with PyPI, and print the difference."""
    before = TABLE.read_text(encoding="utf-8")
    found = refreshed(before, PyPI(load_settings(os.environ), os.environ))
    for note in found.notes:
        say(f"note: {note}", style="yellow")
    name = f"envspec/facts/data/{TABLE.name}"
    out("".join(_diff(before, found.text, name)), newline=False)
    if found.text == before:
        say(f"{name} is up to date")
        return 0
    if not write:
        say("hint: python -m envspec.refresh --write")
        return 1
    partial = TABLE.with_suffix(".partial")
    partial.write_text(found.text, encoding="utf-8")
    partial.replace(TABLE)
    return 0


def _diff(before: str, after: str, name: str) -> list[str]:
    return list(difflib.unified_diff(before.splitlines(True), after.splitlines(True), f"a/{name}", f"b/{name}", n=1))


def main() -> None:
    """Run the program, and end the process with its exit code."""
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
