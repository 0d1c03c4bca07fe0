"""The HTCondor submit description; tests/e2e/test_cluster_judges.py asks HTCondor itself."""

import re

import pytest
from recipe_plans import shipped, text_in, with_values

from envspec.export.htcondor import FILE, render
from envspec.export.plan import Plan
from envspec.facts import toolkits


def commands(plan: Plan) -> dict[str, str]:
    text = text_in(render(plan), FILE)
    pairs = (line.partition(" = ") for line in text.splitlines() if not line.startswith("#"))
    return {name.strip(): value for name, _, value in pairs if value}


@pytest.mark.parametrize(
    ("architectures", "lowest", "highest", "spans"),
    [
        (("sm_90",), "9.0", "9.9", None),
        (("sm_86", "sm_80"), "8.0", "8.9", None),
        (("sm_86",), "8.6", "8.9", None),
        (("sm_80", "sm_90"), "8.0", "9.9", None),
        # no GPU on a card lies between these two
        (("sm_100", "sm_120"), "10.0", "12.9", None),
        (
            ("sm_70", "sm_90"),
            None,
            None,
            "(Capability >= 7.0 && Capability <= 7.9) || (Capability >= 9.0 && Capability <= 9.9)",
        ),
    ],
)
def test_the_gpus_of_the_lock_are_asked_for(
    architectures: tuple[str, ...], lowest: str | None, highest: str | None, spans: str | None
) -> None:
    found = commands(with_values(shipped("mm-v2.9", "cu128-hopper"), architectures=architectures))
    assert (found.get("gpus_minimum_capability"), found.get("gpus_maximum_capability")) == (lowest, highest)
    assert found.get("require_gpus") == spans and found["request_gpus"] == "$(gpus:1)"


def test_the_driver_says_the_cuda_of_the_floor_at_least() -> None:
    assert commands(shipped("mm-v2.9", "cu128-hopper"))["gpus_minimum_runtime"] == "12.0"
    assert commands(shipped("mm-v2.9", "cu130-hopper"))["gpus_minimum_runtime"] == "13.0"
    assert toolkits.of_driver("525.60.13", "linux-64") == "12.0" and toolkits.of_driver("1", "linux-64") is None


def test_a_cpu_target_asks_for_no_gpu_and_arm_for_arm() -> None:
    assert not [name for name in commands(shipped("cpu-py311", "cpu")) if "gpus" in name]
    assert commands(shipped("llm-v2.9", "cu128-gh200"))["requirements"] == 'TARGET.Arch == "aarch64"'


def test_no_default_has_a_dash() -> None:
    """HTCondor leaves `$(name:a-b)` as it is."""
    text = text_in(render(shipped("mm-v2.9", "cu128-hopper")), FILE)
    assert not re.search(r"\$\(\w+:[^)]*-", text.partition("\nif ")[2])
