"""Edits of a spec's text: the lines that they are about, and no other."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import pytest
import tomli
from hypothesis import given, strategies as st

from envspec.base.errors import InputError
from envspec.spec.edit import Edit, add, remove

SPECS = sorted((Path(__file__).resolve().parents[2] / "specs").glob("*.toml"))

DEMO = """\
# a comment
[env]
name = "demo"   # odd   spacing

[pip]
dependencies = [
  "torch==2.9.*",  # pinned
  "numpy",
  # about pandas
  "pandas",
]

[targets.cpu]
platform = 'linux-64'

[targets.gpu]
platform = "linux-64"
pip.dependencies = ["Flash_Attn>=2"]
"""


def moved(before: str, after: str) -> list[str]:
    """The lines that differ, as in a diff."""
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [f"{line[0]} {line[2:].strip()}" for line in lines if line[0] in "+-"]


@pytest.mark.parametrize(
    ("wanted", "lines"),
    [
        (["einops"], ['+ "einops",']),
        (["torch==2.9.1"], ['- "torch==2.9.*",  # pinned', '+ "torch==2.9.1",  # pinned']),
        (["NumPy>=2"], ['- "numpy",', '+ "NumPy>=2",']),
        (["pandas"], []),
        (["numpy; python_version < '3.12'"], ["+ \"numpy; python_version < '3.12'\","]),
        (["a", "b"], ['+ "a",', '+ "b",']),
    ],
)
def test_add(wanted: Sequence[str], lines: Sequence[str]) -> None:
    after, edits = add(DEMO, wanted)
    assert moved(DEMO, after) == list(lines)
    assert len(edits) == len([line for line in lines if line[0] == "+"])


def test_a_sorted_list_stays_sorted() -> None:
    text = '[pip]\ndependencies = [\n  "accelerate",\n  "numpy",\n  "torch",\n]\n'
    after, _ = add(text, ["einops", "zarr", "Aim"])
    assert tomli.loads(after)["pip"]["dependencies"] == ["accelerate", "Aim", "einops", "numpy", "torch", "zarr"]


def test_for_one_target() -> None:
    after, edits = add(DEMO, ["xformers"], target="gpu")
    assert edits == [Edit("targets.gpu.pip", None, "xformers")]
    assert tomli.loads(after)["targets"]["gpu"]["pip"]["dependencies"] == ["Flash_Attn>=2", "xformers"]
    after, edits = add(DEMO, ["openmpi>=5"], kind="conda", target="cpu")
    assert edits == [Edit("targets.cpu.conda", None, "openmpi>=5")]
    assert tomli.loads(after)["targets"]["cpu"] == {"platform": "linux-64", "conda": {"dependencies": ["openmpi>=5"]}}


def test_a_table_that_is_missing_is_made() -> None:
    after, _ = add('[env]\nname = "x"\n', ["torch"])
    assert tomli.loads(after) == {"env": {"name": "x"}, "pip": {"dependencies": ["torch"]}}


def test_remove() -> None:
    after, edits = remove(DEMO, ["numpy", "flash-attn"])
    assert moved(DEMO, after) == ['- "numpy",', '- pip.dependencies = ["Flash_Attn>=2"]', "+ pip.dependencies = []"]
    assert edits == [Edit("pip", "numpy", None), Edit("targets.gpu.pip", "Flash_Attn>=2", None)]


def test_remove_from_one_table() -> None:
    for choice in ({"target": "cpu"}, {"kind": "conda"}):
        with pytest.raises(InputError, match="no list of dependencies has numpy"):
            remove(DEMO, ["numpy"], **choice)


@pytest.mark.parametrize(
    ("run", "message", "hint"),
    [
        (lambda: add(DEMO, ["x"], target="gpus"), "[targets] has no gpus", "did you mean gpu?"),
        (lambda: add("[matrix]\nx = 1\n", ["x"], target="a"), "[targets] has no a", "[matrix] makes its targets"),
        (lambda: remove(DEMO, ["nunpy"]), "no list of dependencies has nunpy", "did you mean numpy?"),
        (
            lambda: add('[pip]\ndependencies = ["a>1", "a<3"]\n', ["a==2"]),
            "[pip] has a==2 2 times",
            "edit the spec yourself",
        ),
    ],
    ids=["target", "matrix", "name", "twice"],
)
def test_what_cant_be_done_is_said(run: object, message: str, hint: str) -> None:
    with pytest.raises(InputError) as told:
        run()  # type: ignore[operator]
    assert message in told.value.message and hint in (told.value.hint or "")


NAMES = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,4})?", fullmatch=True)


@given(st.sampled_from(SPECS), st.lists(NAMES, min_size=1, max_size=4, unique=True))
def test_what_is_added_and_removed_leaves_a_spec_as_it_was(path: Path, names: list[str]) -> None:
    before = path.read_text(encoding="utf-8")
    after, edits = add(before, names)
    for line in before.splitlines():
        assert line in after.splitlines() or line.startswith("dependencies = [")  # a list on one line
    listed = tomli.loads(after)["pip"]["dependencies"]
    assert all(edit.new in listed for edit in edits)
    added = [edit.new for edit in edits if edit.old is None and edit.new]
    if added:
        assert tomli.loads(remove(after, added, kind="pip")[0]) == tomli.loads(before)


def test_line_ends_stay() -> None:
    before = DEMO.replace("\n", "\r\n")
    edited = add(before, ["einops"]), add(before, ["openmpi"], kind="conda", target="cpu"), remove(before, ["numpy"])
    for after, _ in edited:
        assert after.count("\n") == after.count("\r\n"), "each line ends as the file's lines do"


@pytest.mark.parametrize(
    "text",
    [
        'env = { name = "x" }\npip = { dependencies = ["a"] }\ntargets = { cpu = { platform = "linux-64" } }\n',
        'env.name = "x"\npip.dependencies = ["a"]\ntargets.cpu = { platform = "linux-64" }  # inline\n',
        '[env]\nname = "x"\n[targets]\ncpu = { platform = "linux-64" }\n[pip]\ndependencies = ["a"]\n',
        '[env]\nname = "x"\n[targets]\ncpu = { platform = "linux-64", pip = { constraints = [] } }\n',
    ],
)
@pytest.mark.parametrize("kind", ["pip", "conda"])
def test_tables_in_one_line(text: str, kind: str) -> None:
    after, edits = add(text, ["b"], kind=kind, target="cpu")
    assert [edit.table for edit in edits] == [f"targets.cpu.{kind}"]
    target = tomli.loads(text)["targets"]["cpu"]
    wanted = {**target, kind: {**target.get(kind, {}), "dependencies": ["b"]}}
    assert tomli.loads(after) == {**tomli.loads(text), "targets": {"cpu": wanted}}
    assert tomli.loads(add(text, ["b"], kind=kind)[0])[kind]["dependencies"][-1] == "b"
    for line in text.splitlines():
        assert line in after.splitlines() or "targets" in line or line.startswith("cpu =")
