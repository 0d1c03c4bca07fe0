"""The tables' error rate: rows drawn by a seed, each compared with a source by someone who wrote none of them."""

import os
from pathlib import Path
from typing import Any

import pytest
import tomli
from support.fact_rows import NAMED_BY, SIZE, drawn, place, rows, section

from envspec.facts import tables
from envspec.facts.edition import shipped_edition

SAMPLE: dict[str, Any] = tomli.loads(Path(__file__).with_name("sample.toml").read_text(encoding="utf-8"))
BEGIN, END = "<!-- tests/facts/sample.toml -->\n", "<!-- end of the sample -->\n"


def test_each_row_has_a_key_of_its_own() -> None:
    keys = [key for _, key, _ in rows()]
    assert len(keys) == len(set(keys))
    lists = {f"{path.stem}.{name}" for path in shipped_edition().folder.glob("*.toml") for name in lists_of(path.stem)}
    # these came after the draw
    later = {"frameworks.drivers", "gpus.machines", "gpus.systems"}
    assert lists - NAMED_BY.keys() == {*later, "wheel_code.wheels"}


def lists_of(table: str) -> list[str]:
    return [name for name, value in tables.read(table).items() if isinstance(value, list)]


def test_the_sample_is_drawn_by_its_seed() -> None:
    """In order, each stratum up to its last; rows that came to the tables since may lie between."""
    strata = {key: stratum for stratum, key, _ in rows()}
    for stratum, size in SIZE.items():
        keys = [row["key"] for row in SAMPLE["rows"] if strata[row["key"]] == stratum]
        places = [place(SAMPLE["seed"], key) for key in keys]
        assert len(keys) == size and places == sorted(places)
    anew = dict(drawn(SAMPLE["seed"]))
    assert sum(row["key"] in anew for row in SAMPLE["rows"]) > 75


def test_its_rows_say_what_they_said() -> None:
    """A row that was changed since has to be compared anew."""
    now = {key: text for _, key, text in rows()}
    assert [row["key"] for row in SAMPLE["rows"] if now.get(row["key"]) != row["value"]] == []


def test_none_is_wrong_and_each_that_was_compared_quotes_its_source() -> None:
    for row in SAMPLE["rows"]:
        known = {"key", "value"}
        assert row.keys() in (known, known | {"source", "quoted", "compared", "right"}), row["key"]
        assert row.get("right", True) and all(row.values()), row["key"]


def test_the_page_counts_it(root: Path) -> None:
    """ENVSPEC_UPDATE_GOLDEN=1 writes the section."""
    page = root / "docs" / "gpu.md"
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    said, _, after = rest.partition(END)
    if os.environ.get("ENVSPEC_UPDATE_GOLDEN"):
        page.write_text(f"{before}{BEGIN}{section(SAMPLE)}{END}{after}", encoding="utf-8")
        return
    assert said == section(SAMPLE)


@pytest.mark.parametrize("right", [True, False])
def test_the_section_of_a_sample(right: bool) -> None:
    one = {"key": "gpus.gpus: A", "value": "8.0", "source": "s", "quoted": "q", "compared": "all", "right": right}
    text = section({"rows": [one, {"key": "torch.builds: b", "value": "c"}]})
    assert ("0 were wrong" in text, "1 was wrong" in text) == (right, not right)
    assert f"| `gpus` | 1 | {int(right)} | {int(not right)} | 0 |" in text and "| `torch` | 1 | 0 | 0 | 1 |" in text
    assert ("at most 95.0%" in text) is right
