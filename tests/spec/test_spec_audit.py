"""`[audit]`: read, and no part of what is locked."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from envspec.base.codes import meanings
from envspec.base.errors import SpecError
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.spec.forms import ACCEPTABLE
from envspec.spec.model import Audit, Waiver
from envspec.spec.parse import load_spec, parse_spec

SPEC = Path(__file__).parent / "valid" / "audit.toml"


def test_it_is_read() -> None:
    assert load_spec(SPEC).audit == Audit(
        allow_licences=("MIT", "BSD-*", "NVIDIA Proprietary Software"),
        deny_licences=("AGPL-*",),
        licences={"old-package": "MIT"},
        ignore={
            "CVE-2024-34064": Waiver("no template here comes from outside"),
            "PYSEC-2024-48": Waiver("a tool of development, never in an image"),
            "CVE-2025-1": Waiver("its parser is never reached", "2027-01-31", ("cpu",)),
        },
        accept={
            ("old-package", "yanked"): Waiver("yanked for its documentation alone"),
            ("old-package", "licence"): Waiver("asked its authors", "2026-12-31"),
        },
    )
    assert load_spec(SPEC.with_name("minimal.toml")).audit == Audit()


def test_it_makes_no_lock_stale() -> None:
    spec = load_spec(SPEC)
    bare = replace(spec, audit=Audit())
    assert spec_inputs(spec) == spec_inputs(bare)
    assert [target_inputs(spec, t) for t in spec.targets] == [target_inputs(bare, t) for t in bare.targets]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('CVE-1 = { reason = "x", targets = ["cpuu"] }', "the spec has no target "),
        ('CVE-1 = { reason = "x", until = "2026-02-31" }', "isn't a date or time"),
        ('CVE-1 = { until = "2026-02-01" }', "reason"),
        ('CVE-1 = { reason = "x", until = "soon" }', "is not a date"),
    ],
)
def test_what_ends_or_holds_nowhere_is_refused(line: str, said: str) -> None:
    text = SPEC.read_text(encoding="utf-8").replace("[audit.ignore]", f"[audit.ignore]\n{line}")
    with pytest.raises(SpecError) as raised:
        parse_spec(text, "a.toml")
    assert said in raised.value.message and raised.value.place is not None


@pytest.mark.parametrize("code", ["vulnerability", "malicious", "young"])
def test_no_other_finding_can_be_accepted(code: str) -> None:
    text = SPEC.read_text(encoding="utf-8") + f'old_package.{code} = "so what"\n'
    with pytest.raises(SpecError, match=code):
        parse_spec(text, "a.toml")


def test_a_spec_accepts_each_finding_of_an_audit_whose_row_says_so() -> None:
    assert tuple(code for code, one in meanings().items() if "[audit.accept]" in (one.how or "")) == ACCEPTABLE
