"""What a reader of a review sees first."""

import html
from collections.abc import Iterable


def head(markdown: str) -> str:
    """The heading and the first three lines below it, as they are shown."""
    heading, *lines = markdown.split("\n")
    told = [line for line in lines if line.startswith(("- ", "> ")) and "[!CAUTION]" not in line]
    return html.unescape("\n".join([heading, *told[:3]])).replace("<code>", "").replace("</code>", "")


def lacking(facts: Iterable[str], top: str) -> list[str]:
    """The facts that a head doesn't have. Of "name 1 -> 2" the name begins the line that has the versions."""

    def has(fact: str) -> bool:
        name, _, versions = fact.lower().partition(" ")
        of_name = (line for line in top.lower().splitlines() if f"{name} " in line)
        return fact.lower() in top.lower() or (" -> " in versions and any(versions in line for line in of_name))

    return [fact for fact in facts if not has(fact)]
