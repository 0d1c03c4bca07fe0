"""mkdocs' hooks: the site has the long pages of `python -m tools.reference --long`; what a page links to in the
repository, and outside the site, is named and not linked; and the colour switch works.

A link to what isn't there is a warning, and so an error of `make docs`. With `repo_url` in mkdocs.yml these links lead
there.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from tools.reference.pages import LONG

LOG = logging.getLogger("mkdocs.hooks.links")
LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./|ci/|design/|evidence/)[^)#]*)(#[^)]*)?\)")
ROOT = Path(__file__).resolve().parents[2]


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Return the text of a page on the site: the long one where there is one, with links that lead out changed."""
    markdown = LONG[page.file.src_uri]() if page.file.src_uri in LONG else markdown
    folder = Path(page.file.abs_src_path).parent
    docs = ROOT / "docs"

    def rewrite(match: re.Match[str]) -> str:
        words, link, _ = match.groups()
        target = (folder / link).resolve()
        if target.is_relative_to(docs) and target.parts[len(docs.parts)] not in ("ci", "design", "evidence"):
            return match[0]
        if not target.exists():
            LOG.warning("%s links to %s, which isn't there", page.file.src_uri, link)
        path = target.relative_to(ROOT).as_posix()
        if config.repo_url:
            return f"[{words}]({config.repo_url.rstrip('/')}/blob/main/{path})"
        return words if words.strip("`") == path else f"{words} (`{path}`)"

    return LINK.sub(rewrite, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Add the elements that the theme's colour switch needs: without highlight.js its style sheets are missing, and the
    switch ends in an exception."""
    return output.replace("</head>", '<link id="hljs-light" /><link id="hljs-dark" /></head>', 1)
