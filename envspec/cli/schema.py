"""`envspec schema`."""

from __future__ import annotations

import click

from envspec.cli.console import out

EPILOG = """\b
Example:
  envspec schema > spec.schema.json
"""


@click.command(epilog=EPILOG)
def command() -> None:
    """Print the JSON Schema of specs

    Editors complete and check specs by it: save it, and name it in a spec's first line, as #:schema ./spec.schema.json
    """
    from envspec.spec.schema import rendered_json_schema

    out(rendered_json_schema().rstrip("\n"))
