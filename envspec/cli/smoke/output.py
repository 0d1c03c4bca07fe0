"""The output of `envspec smoke`: the folder of its runs, documents, the table or JSON, and the exit code."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from envspec.app.outputs import location, write_text
from envspec.app.smoke.cases import Skipped
from envspec.base.atomic import refuse_read_only
from envspec.base.errors import StorageError
from envspec.base.storage import storage_error
from envspec.base.texts import printable
from envspec.cli.console import columns, out, say
from envspec.cli.failure import tell
from envspec.cli.options import print_json
from envspec.prove.smoke.report.result import Results, Run

if TYPE_CHECKING:
    from envspec.app.smoke.options import SmokeOptions
    from envspec.prove.smoke.run.command import Step

EXIT = {"pass": 0, "fail": 1, "skip": 1, "error": 3}
"""The exit code by the verdict of all runs: a missing answer is a failure outside the environment."""


def cache_folder() -> Path:
    """Give the folder that keeps environments and images between runs."""
    from envspec.base.settings import load_settings

    return load_settings().cache().absolute() / "smoke"


def results_folder(options: SmokeOptions) -> Path:
    """Give the folder for reports and logs: the named one, or a new one in the cache."""
    if options.output.output is not None:
        return Path(os.path.abspath(options.output.output))
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return cache_folder() / "results" / f"{stamp}-{secrets.token_hex(2)}"


def refuse_unwritable(options: SmokeOptions) -> None:
    """Test that the documents can be written, before hours of a cluster are spent. Raises StorageError."""
    for option, path in options.output.documents.items():
        try:
            with location(path.parent, options.selection.paths).open(make=True) as folder:
                folder.refuse_odd(path.name)
                refuse_read_only(folder)
        except OSError as error:
            raise storage_error(error, path, option=option) from None


def skipped_runs(skipped: Iterable[Skipped], runner: str) -> tuple[Run, ...]:
    """Give the runs of skipped targets."""
    return tuple(Run(spec, target, runner, "skip", None, reason) for spec, target, reason in skipped)


def show_steps(steps: Sequence[Step], skipped: Iterable[Skipped]) -> int:
    """Print what would run, and give the exit code."""
    from envspec.prove.smoke.run.command import dry

    for spec, target, reason in skipped:
        out(f"# skipped: {spec} × {target}: {printable(reason)}")
    if steps:
        out(dry(steps))
    return 0


def finish(options: SmokeOptions, runs: tuple[Run, ...], results: Path) -> int:
    """Write the documents, print the runs of `results`, and give the exit code."""
    whole = Results(runs)
    failed: StorageError | None = None
    for option, path in options.output.documents.items():
        # hours of a cluster aren't thrown away because one page can't be written
        try:
            write_text(path, _document(option, whole), option, options.selection.paths)
            say(f"wrote {path}")
        except StorageError as error:
            tell(error)
            failed = error
    if options.output.as_json:
        from envspec.prove.smoke.report.as_json import as_json

        print_json("smoke", as_json(whole))
    else:
        from envspec.cli.table import coloured
        from envspec.prove.smoke.report.lines import WIDTH, lines

        out("\n".join(lines(whole, columns() or WIDTH, coloured)))
    if any(run.status != "skip" for run in runs):
        say(f"reports and logs: {results}")
    return EXIT[whole.verdict] if failed is None else failed.exit_code


def _document(option: str, results: Results) -> str:
    if option == "--junit":
        from envspec.prove.smoke.report.junit import junit

        return junit(results)
    from envspec.prove.smoke.report.page import page

    return page(results)
