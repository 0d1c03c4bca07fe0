"""The templates of recipes: none has a value without a filter that quotes it, and what they say is read as it was."""

import re
import shlex
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from jinja2 import Environment, UndefinedError, nodes
from support.examples import examples

from envspec.export import template
from envspec.export.carried import carried_files
from envspec.export.quote import Unquotable
from envspec.export.template import FILTERS, Variable, command, fold, names

TEMPLATES = sorted(path.name for path in template.FOLDER.glob("*.j2"))
PARSER = Environment(trim_blocks=True, lstrip_blocks=True, variable_start_string="<<", variable_end_string=">>")


def unfiltered(text: str) -> list[int]:
    """The lines of a template with a value that no filter of `FILTERS` is the last to change."""
    shown = (one for output in PARSER.parse(text).find_all(nodes.Output) for one in output.nodes)
    return [
        one.lineno
        for one in shown
        if not isinstance(one, nodes.TemplateData) and not (isinstance(one, nodes.Filter) and one.name in FILTERS)
    ]


def test_the_templates_are_known() -> None:
    assert [
        *(f"apptainer{part}.j2" for part in ("", "_end", "_environment", "_offline", "_on_base")),
        *(f"dockerfile{part}.j2" for part in ("", "_install", "_on_base")),
        "job.sbatch.j2",
    ] == TEMPLATES


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_value_goes_through_a_filter_that_quotes_it(name: str) -> None:
    text = (template.FOLDER / name).read_text(encoding="utf-8")
    assert "{{" not in text and "autoescape" not in text
    assert unfiltered(text) == []


@pytest.mark.parametrize(
    "text", ["<< plan.spec >>", "<< plan.spec | upper >>", "<< plan.spec | name | upper >>", "<< a ~ b | name >>"]
)
def test_a_forgotten_filter_is_seen(text: str) -> None:
    assert unfiltered(f"FROM a\n{text}\n") == [2]


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'heading' is undefined"):
        template.render("dockerfile.j2")


@pytest.mark.parametrize("text", ["a b", "a\nb", "$(x)", "a;b", "`x`", '"', "a\\"])
def test_a_name_is_one_word(text: str) -> None:
    with pytest.raises(Unquotable):
        names([text])


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=1, max_size=4))
@settings(max_examples=examples(50))
def test_a_shell_reads_the_words_of_a_command(words: list[str]) -> None:
    if any(set(word) & {"\n", "\r"} for word in words):
        with pytest.raises(Unquotable):
            command(words)
    else:
        assert shlex.split(command(words)) == words


def test_a_variable_of_the_shell_is_one_word() -> None:
    assert command(["uv", Variable("INDEX_OWN"), "$HOME"]) == "uv \"$INDEX_OWN\" '$HOME'"


PIECES = st.sampled_from(["word", "#", "'a b  c'", '"d e f"', '"it\'s"', '"\\"g h"', "x" * 130, "\\\\", "&& sh"])


@given(st.lists(PIECES, min_size=1, max_size=60))
@settings(max_examples=examples(100))
def test_a_folded_line_is_the_same_to_a_builder(pieces: list[str]) -> None:
    """Builders join lines before they read words, leave out lines that begin with #, and a shell reads the rest."""
    line = " ".join(["RUN", *pieces])
    folded = fold(line).splitlines()
    kept = [one for one in folded if not one.lstrip().startswith("#")]
    joined = "".join(one.removesuffix("\\") for one in kept[:-1]) + kept[-1]
    assert shlex.split(joined) == shlex.split(line)
    assert all(len(one) <= 120 or max(map(len, re.split(r"(?<! ) (?=[^ #\\])", one))) > 100 for one in folded)


def test_an_option_stays_with_its_value() -> None:
    line = "RUN sh /layers/build.sh install rest rest " + " ".join(f"--find-links value{n}" for n in range(20))
    folded = fold(line).splitlines()
    assert len(folded) > 3 and not [one for one in folded if one.rstrip(" \\").endswith("--find-links")]


def test_every_step_of_builds_is_used_and_is_there() -> None:
    cases = carried_files()["build.sh"].partition("\ncase $step in\n")[2]
    there = set(re.findall(r"^    (\w+)\)", cases, re.MULTILINE))
    code = (path.read_text(encoding="utf-8") for path in Path(template.__file__).parent.glob("*.py"))
    used = {step for text in code for step in re.findall(r'run_step\(\s*"(\w+)"', text)}
    used |= {
        step
        for name in TEMPLATES
        for step in re.findall(r"sh /layers/build\.sh (\w+)", (template.FOLDER / name).read_text())
    }
    assert used | {"install", "compile"} == there
