"""The EDF of CSCS's container engine, by the engine's documented schema: no machine here has the engine itself."""

import re
from pathlib import Path

import pytest
from recipe_plans import shipped, text_in, with_values
from recipe_readers import read_edf
from support.golden import golden

from envspec.export.edf import FILE, render
from envspec.export.plan import OnBase

ALPS = ("llm-v2.9", "cu128-gh200")


def test_golden() -> None:
    """Digests are cut: a new lock is no new file."""
    text = re.sub("sha256:[0-9a-f]{64}", "sha256:", text_in(render(shipped(*ALPS)), FILE))
    assert golden(Path(__file__).parent / "golden" / "edf" / "llm-v2.9-cu128-gh200.toml", text) == text


@pytest.mark.parametrize(
    ("cuda", "base", "variant"),
    [("12.8", None, "cuda12"), ("13.0", None, "cuda13"), ("11.8", None, "cuda-dl"), ("13.0", "image", "cuda-dl")],
)
def test_nccls_plugin_is_the_one_for_the_images_cuda(cuda: str, base: str | None, variant: str) -> None:
    on_base = OnBase(base, "/usr/bin/python3", "/usr/local", "usr/local/lib/python3.12/dist-packages") if base else None
    plan = with_values(shipped(*ALPS), cuda=cuda, on_base=on_base)
    found = read_edf(text_in(render(plan), FILE), plan)
    assert found["annotations"]["com"]["hooks"] == {"aws_ofi_nccl": {"enabled": "true", "variant": variant}}


def test_an_image_with_a_place_in_a_registry_comes_from_there() -> None:
    plan = with_values(shipped(*ALPS), repository="registry.example:5000/team/llm")
    text = text_in(render(plan), FILE)
    assert read_edf(text, plan)["image"] == "registry.example:5000#team/llm:cu128-gh200" and "enroot" not in text


def test_a_cpu_target_has_no_hook() -> None:
    plan = shipped("cpu-py311", "cpu")
    assert "annotations" not in read_edf(text_in(render(plan), FILE), plan)


@pytest.mark.parametrize(
    ("old", "new"),
    [("workdir", "workdirs"), ('"true"', "true"), ('["${PWD}:', '["'), ("${PWD}:/workspace", "${HOME}:/workspace")],
)
def test_the_judge_refuses_what_the_engine_does_not_know(old: str, new: str) -> None:
    plan = shipped(*ALPS)
    with pytest.raises(AssertionError):
        read_edf(text_in(render(plan), FILE).replace(old, new), plan)
