"""The generated pages of docs/, and the long ones of the site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tools.reference import architecture, codes, commands, design, documents, evidence, examples, spec

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES: Mapping[str, Callable[[], str]] = {
    "architecture.md": architecture.page,
    "architecture.svg": architecture.picture,
    "spec.md": spec.page,
    "cli.md": commands.page,
    "codes.md": codes.page,
    "design/README.md": design.page,
    "examples.md": examples.page,
    "evidence.md": evidence.page,
}
"""The pages that are generated, by name in docs/."""
PARTS = {"json.md": documents.table}
"""The pages of which a part is generated: what stands between two comments."""
LONG: Mapping[str, Callable[[], str]] = {
    "cli.md": commands.long_page,
    "codes.md": codes.long_page,
    "examples.md": examples.long_page,
    "json.md": lambda: with_part("json.md", f"{documents.table()}\n{documents.sections()}"),
}
"""The pages that are longer on the site: with options, remedies, keys and whole specs."""
_BEGIN, _END = "<!-- made by `python -m tools.reference` -->\n", "<!-- end -->\n"


def with_part(name: str, part: str) -> str:
    """Return a page with its generated part anew."""
    before, _, rest = (DOCS / name).read_text("utf-8").partition(_BEGIN)
    return f"{before}{_BEGIN}{part}{_END}{rest.partition(_END)[2]}"
