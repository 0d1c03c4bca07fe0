"""docs/cli.md and the man pages: every command, from click's own description of it. docs/cli.md has no options; the
site's page and the man pages do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import click

from envspec import __version__
from envspec.cli.main import COMMANDS, GROUPS, cli

HEAD = """\
# The commands

`envspec COMMAND --help` has a command's options and more examples. `-h` is short for `--help`, and
`envspec --version` prints the version.

Exit codes: 0 done, 1 the answer is no, 2 the input is wrong, 3 something outside failed, 130 interrupted.
Commands that report take `--json` ([the documents](json.md)); stdout has the answer, stderr the talk.
"""


@dataclass(frozen=True)
class CommandPage:
    """The page of a command.

    usage      without the word "Usage"
    paragraphs its help, paragraph by paragraph; a block is kept line by line
    options    each with its help
    examples   the lines of its examples
    notes      what stands behind them: prose, and the indented lines that follow it
    """

    name: str
    usage: str
    paragraphs: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    examples: tuple[str, ...]
    notes: tuple[tuple[str, str], ...]


def page_of(name: str) -> CommandPage:
    """Return the page of a command."""
    # click keeps the help option that a command gets with its first context
    root = click.Context(cli, info_name="envspec", **cli.context_settings)
    command = cli.get_command(root, name)
    assert command is not None, name
    context = click.Context(command, info_name=name, parent=root)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    records = [record for parameter in command.get_params(context) if (record := parameter.get_help_record(context))]
    return CommandPage(
        name,
        usage,
        tuple(_paragraphs(command.help or "")),
        tuple((option, " ".join(text.split())) for option, text in records if text),
        tuple(_examples(command.epilog or "")),
        tuple(_notes(command.epilog or "")),
    )


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        preformatted = paragraph.startswith("\b\n")
        line = " ".join(paragraph.split())
        # on a page, the line of help is a sentence among others
        yield paragraph if preformatted else line if line.endswith((".", ":")) else f"{line}."


def _examples(epilog: str) -> Iterator[str]:
    for block in _blocks(epilog):
        if block[0].startswith("Example"):
            yield from (line.strip() for line in block[1:])


def _notes(epilog: str) -> Iterator[tuple[str, str]]:
    for block in _blocks(epilog):
        if not block[0].startswith("Example"):
            prose = " ".join(line for line in block if not line.startswith(" "))
            yield prose, "\n".join(line.strip() for line in block if line.startswith(" "))


def _blocks(epilog: str) -> Iterator[list[str]]:
    for block in re.split(r"\n\s*\n", epilog.strip()):
        yield [line for line in block.splitlines() if line.strip() not in ("", "\b")]


def page() -> str:
    """Return the page's text: the purpose of each command, and an example."""
    return _page(_short)


def long_page() -> str:
    """Return the text of the site's page: all that `--help` prints."""
    return _page(_section)


def _page(section: Callable[[CommandPage], str]) -> str:
    groups = "".join(f"- {group}: {', '.join(map(_link, commands))}\n" for group, commands in GROUPS.items())
    return "\n".join([HEAD, groups, *(section(page_of(name)) for name in COMMANDS)])


def _short(page: CommandPage) -> str:
    example = re.split(r"\s{2,}", page.examples[0])[0]
    return f"## envspec {page.name}\n\n{_inert(page.paragraphs[0])}\n\n```sh\n{example}\n```\n"


def _link(name: str) -> str:
    return f"[{name}](#envspec-{name})"


def _section(page: CommandPage) -> str:
    text = f"## envspec {page.name}\n\n```text\n{page.usage}\n```\n\n"
    for paragraph in page.paragraphs:
        block = paragraph.removeprefix("\b\n")
        text += f"```text\n{block}\n```\n\n" if block != paragraph else f"{_inert(paragraph)}\n\n"
    if page.options:
        text += "| option | |\n|---|---|\n"
        text += "".join(f"| `{option}` | {_inert(words)} |\n".replace("|-", "\\|-") for option, words in page.options)
    if page.examples:
        text += "\nExamples:\n\n```sh\n" + "".join(f"{_with_comment(line)}\n" for line in page.examples) + "```\n"
    for prose, lines in page.notes:
        text += f"\n{_inert(prose)}\n" + (f"\n```text\n{lines}\n```\n" if lines else "")
    return text


def _inert(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _with_comment(line: str) -> str:
    """Return an example for a shell: the words behind a gap become a comment."""
    command, gap, comment = re.match(r"(.*?)(\s{2,}|$)(.*)", line).groups()  # type: ignore[union-attr]
    return f"{command}{gap}# {comment}" if comment and not comment.startswith("#") else line


def man_pages() -> dict[str, str]:
    """Return every man page in troff, by file name: envspec(1), and one a command."""
    pages = {"envspec.1": _man_of_all()}
    for name, line in COMMANDS.items():
        pages[f"envspec-{name}.1"] = _man(page_of(name), line)
    return pages


def _title(name: str) -> str:
    return f'.TH "{name.upper()}" 1 "" "envspec {__version__}" "envspec"\n.ad l\n'


def _man_of_all() -> str:
    text = _title("envspec") + ".SH NAME\nenvspec \\- " + _troff((cli.help or "").splitlines()[0]) + "\n"
    text += ".SH SYNOPSIS\n.B envspec\n.I COMMAND\n[\\fIARGUMENT\\fR...]\n.SH COMMANDS\n"
    for group, commands in GROUPS.items():
        text += f".SS {group}\n"
        for name, line in commands.items():
            text += f".TP\n.BR envspec\\-{_troff(name)} (1)\n{_troff(line)}\n"
    text += ".SH EXIT STATUS\n"
    for code, meaning in (
        ("0", "done"),
        ("1", "the answer is no"),
        ("2", "the input is wrong"),
        ("3", "something outside failed"),
        ("130", "interrupted"),
    ):
        text += f".TP\n.B {code}\n{meaning}\n"
    return text


def _man(page: CommandPage, line: str) -> str:
    text = _title(f"envspec-{page.name}") + f".SH NAME\nenvspec\\-{_troff(page.name)} \\- {_troff(line)}\n"
    text += f".SH SYNOPSIS\n.B {_troff(page.usage)}\n.SH DESCRIPTION\n"
    for paragraph in page.paragraphs:
        block = paragraph.removeprefix("\b\n")
        text += f".PP\n.nf\n{_troff(block)}\n.fi\n" if block != paragraph else f".PP\n{_troff(paragraph)}\n"
    text += ".SH OPTIONS\n" + "".join(f".TP\n.B {_troff(option)}\n{_troff(words)}\n" for option, words in page.options)
    if page.examples:
        text += ".SH EXAMPLES\n.nf\n" + "".join(f"{_troff(line)}\n" for line in page.examples) + ".fi\n"
    for prose, lines in page.notes:
        text += f".PP\n{_troff(prose)}\n" + (f".nf\n{_troff(lines)}\n.fi\n" if lines else "")
    return f"{text}.SH SEE ALSO\n.BR envspec (1)\n"


def _troff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    plain = "".join(sign if sign.isascii() else f"\\[u{ord(sign):04X}]" for sign in escaped)
    return re.sub(r"^([.'])", r"\\&\1", plain, flags=re.MULTILINE)
