"""What a reader of a review sees first."""

import html


def head(markdown: str) -> str:
    """The heading and the first three lines below it, as they are shown."""
    heading, *lines = markdown.split("\n")
    told = [line for line in lines if line.startswith(("- ", "> ")) and "[!CAUTION]" not in line]
    return html.unescape("\n".join([heading, *told[:3]])).replace("<code>", "").replace("</code>", "")
