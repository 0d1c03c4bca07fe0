"""uv's proofs as values: those that uv 0.13.8 printed (`errors/*.txt`, `proofs/*.txt`), each with its `.conflict`
beside it, and those that uv prints as it is asked here."""

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st
from packaging.specifiers import SpecifierSet
from support.examples import examples
from support.golden import golden
from support.index import Index
from support.packages import wheel

from envspec.packages.conflict import Clause, Conflict, Unsatisfiable
from envspec.resolve.uv.conflict import range_of, read_conflict
from envspec.resolve.uv.errors import failure
from envspec.resolve.uv.program import find_uv

HERE = Path(__file__).parent
PROOFS = sorted(path for path in HERE.glob("*/*.txt") if "No solution found" in path.read_text("utf-8"))


def conflict_of(stderr: str) -> Conflict:
    refused = failure(1, stderr, label="cpu", offline=False)
    return refused.conflict if isinstance(refused, Unsatisfiable) else Conflict()


def lines(conflict: Conflict) -> list[str]:
    return [
        " ".join(filter(None, (one.kind, (one.package or "the spec") + one.versions, one.other + one.bound)))
        if one.kind != "unread"
        else "unread"
        for one in conflict.chain
    ]


@pytest.mark.parametrize("path", PROOFS, ids=lambda path: path.stem)
def test_what_is_read_of_a_recorded_proof(path: Path) -> None:
    text = "".join(f"{line}\n" for line in lines(conflict_of(path.read_text("utf-8"))))
    assert text == golden(path.with_suffix(".conflict"), text)


def test_nothing_of_recorded_conflicts_is_unread() -> None:
    unread = [path.stem for path in PROOFS if conflict_of(path.read_text("utf-8")).of("unread")]
    assert unread == [] and len(PROOFS) > 20


def test_a_name_without_a_verb_goes_with_the_one_before() -> None:
    proof = "Because a==1 depends on b and c>=2 and you require a, we can conclude that x and y are incompatible."
    read = read_conflict(proof)
    assert read.chain == (
        Clause("requires", "a", "==1", "b"),
        Clause("requires", "a", "==1", "c", ">=2"),
        Clause("requires", other="a"),
    )
    assert read.requested == ("a",) and read.packages == {"a", "b", "c"}


def test_of_what_is_unread_all_words_may_be_packages() -> None:
    read = read_conflict("Because torch sleeps and you require numpy<2, we can conclude that")
    assert read.of("unread") and {"torch", "numpy"} <= read.packages and read.bounds_on("numpy") == ("<2",)


@pytest.mark.parametrize("bound", [">=2.7.1+cu118", ">2.7.1+cu118,<3", "~=2.7.1+cu118", "==2.7.1+cu118", ""])
def test_ranges_may_name_local_parts(bound: str) -> None:
    assert ("==" in bound) == ("+" in str(range_of(bound)))


@settings(max_examples=examples(300))
@given(
    st.lists(
        st.sampled_from(
            [
                "Because ",
                "and because ",
                " and ",
                "a==1",
                "all of: b, c;",
                " depends on ",
                "<2",
                ", ",
                "we can conclude that ",
                "x",
                "(1)",
                " has no wheels with a matching y tag",
                "{os == 'a and b'}",
                "é",
                "\n",
            ]
        )
    )
)
def test_any_text_is_read(parts: list[str]) -> None:  # fmt: skip
    read_conflict("".join(parts))


VERSIONS = ("1.0", "2.0", "3.0")
BOUNDS = st.sampled_from(["", "<2", ">=2", "==1.0", "!=2.0", ">=3", "<1"])


@pytest.mark.nightly
@settings(max_examples=examples(40), deadline=None)
@given(st.dictionaries(st.sampled_from("abc"), st.tuples(st.sampled_from("bcde"), BOUNDS), max_size=3), st.data())
def test_what_uv_prints_is_read_and_holds(needs: dict[str, tuple[str, str]], data: st.DataObject) -> None:
    """A premise is a fact of the index or of what is asked: each is looked up."""
    asked = data.draw(st.lists(st.tuples(st.sampled_from("abcd"), BOUNDS), min_size=2, max_size=4))
    with Index() as index:
        for name in "abcd":
            needed = needs.get(name)
            requires = ["".join(needed)] if needed and needed[0] != name else []
            index.add(*(wheel(name, version, *requires) for version in VERSIONS))
        command = [
            find_uv(os.environ).executable,
            "pip",
            "compile",
            "-",
            "--index-url",
            index.url,
            "--no-config",
            "--quiet",
        ]
        ran = subprocess.run(
            command, input="".join(f"{a}{b}\n" for a, b in asked), capture_output=True, text=True, check=False
        )
    conflict = conflict_of(ran.stderr)
    assert not conflict.of("unread"), ran.stderr
    assert bool(conflict.chain) == (ran.returncode != 0), ran.stderr
    for one in conflict.of("requires"):
        stated = [b for a, b in asked if a == one.other] if not one.package else [needs[one.package][1]]
        within = [v for v in VERSIONS if v in SpecifierSet(one.bound)]
        assert any([v for v in VERSIONS if v in SpecifierSet(bound)] == within for bound in stated), (one, ran.stderr)
