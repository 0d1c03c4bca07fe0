"""The table of conda's and PyPI's names, made of parselmouth's."""

from tools.refresh.__main__ import CONDA_NAMES
from tools.refresh.conda_names_table import table_from, table_text


def test_the_shipped_table_is_made_so() -> None:
    """Its lines give back what it was made of: names, and which of them are the same."""
    head, *lines = CONDA_NAMES.read_text("utf-8").splitlines()
    rows = (line.partition(" ")[::2] for line in lines[1:])
    mapping = {name: name.replace("_", "-").replace(".", "-") if said == "=" else said or None for name, said in rows}
    revision, date = head.split(" at ")[1].split(")")[0].split(" (")
    assert table_from(mapping, revision, date).splitlines()[:2] == [head, lines[0]]
    assert len(table_from(mapping, revision, date).splitlines()) == len(lines) + 1


def test_a_copy_of_another_packages_distribution_does_not_count() -> None:
    mapping = {"tomli": "tomli", "flit-core": "tomli", "matplotlib": "matplotlib", "matplotlib-base": "matplotlib"}
    lines = table_text({**mapping, "libx": None, "ab_c": "ab-c", "py-q": "q"}, "somewhere").splitlines()
    assert lines[0] == "# somewhere"
    same = ["ab_c =", "flit-core =", "libx", "matplotlib ="]
    assert lines[2:] == [*same, "matplotlib-base matplotlib", "py-q q", "tomli ="]
