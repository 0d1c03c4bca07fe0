"""Self-contained HTML pages: templates whose values are cleaned and escaped, in a frame that loads nothing.

A template is named by its path below `envspec/`. It extends `base/frame.html.j2`, and fills its blocks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envspec.base.texts import byte_size, clean_text, plural

if TYPE_CHECKING:
    from jinja2 import Environment

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The Content-Security-Policy of a page without scripts."""

_ROOT = Path(__file__).parents[1]


def asset(name: str) -> str:
    """Read a file of a page by its path below `envspec/`."""
    return _ROOT.joinpath(name).read_text(encoding="utf-8")


def render(template: str, *, policy: str = POLICY, clean: Callable[[str], str] = clean_text, **values: Any) -> str:
    """Fill a template: HTML shows each text and does nothing else. `clean` makes a foreign text printable."""
    return _environment(clean).get_template(template).render(policy=policy, **values)


@cache
def _environment(clean: Callable[[str], str]) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(_ROOT),
        undefined=StrictUndefined,
        autoescape=True,
        # what the template has marked up is escaped already
        finalize=lambda value: clean(value) if isinstance(value, str) and not hasattr(value, "__html__") else value,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # a narrow screen breaks a line between the two characters of `->`
    made.filters |= {"arrows": lambda text: text.replace("->", "→"), "bytes": byte_size}
    made.globals |= {"asset": asset, "plural": plural}
    return made
