"""Verdicts that vendors' support matrices give, written before envspec was asked."""

from pathlib import Path
from typing import Any

import pytest
import tomli
from msgspec.structs import replace
from test_pin_verdicts import spec_of

from envspec.base.finding import Finding
from envspec.facts import gpus
from envspec.rules.judge import judge
from envspec.rules.pins import PinnedVersions, judge_pins

TABLE: dict[str, Any] = tomli.loads(Path(__file__).with_name("held_out.toml").read_text(encoding="utf-8"))


def found(case: dict[str, Any]) -> list[Finding]:
    spec, target = spec_of(case["cuda"], (case["gpus"],), pip=("numpy",), platform=case.get("platform", "linux-64"))
    target = replace(target, driver=case.get("driver"), cuda_compat=case.get("compat", False))
    if "pin" not in case:
        return list(judge(spec, target).findings)
    name, _, version = case["pin"].partition("==")
    return [one for one in judge_pins(spec, target, PinnedVersions({name: version})) if one.severity != "info"]


def said(case: dict[str, Any]) -> set[str]:
    """What envspec says, as the table has it."""
    if "cuda" not in case:
        return {one.capability for one in gpus.find(case["gpus"])}
    findings = found(case)
    against = {one.code for one in findings if one.severity == "error" or "pin" in case}
    return {*against, "refused"} if against else {"works"}


def label(case: dict[str, Any]) -> str:
    return " ".join(str(value) for key, value in case.items() if key != "source")


@pytest.mark.parametrize("case", TABLE["cases"], ids=label)
def test_a_verdict_of_a_support_matrix(case: dict[str, Any]) -> None:
    assert case["source"] in TABLE["sources"]
    assert case["verdict"] in said(case), case["source"]
