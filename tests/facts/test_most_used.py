"""Which names could be mistaken for a most used one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envspec.facts.most_used import mistaken_for, names


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("acelerate", "accelerate"),
        ("transfomers", "transformers"),
        ("transformres", "transformers"),
        ("transformerss", "transformers"),
        ("reqeusts", "requests"),
        ("request5", "requests"),
        ("num-py", "numpy"),
        ("huggingfacehub", "huggingface-hub"),
        ("hugging-face-hub", "huggingface-hub"),
        ("deep-speed", "deepspeed"),
        ("torchvison", "torchvision"),
    ],
)
def test_a_typosquat_is_near(name: str, known: str) -> None:
    assert mistaken_for(name) == known


@pytest.mark.parametrize("name", ["requests", "torch", "tgi", "company-models", "requests-of-mine", "transformers-ext"])
def test_what_is_known_short_or_far_is_not(name: str) -> None:
    assert mistaken_for(name) is None


def test_the_table_is_of_normalised_names_with_the_stack_among_them() -> None:
    assert len(names()) == 5_000
    assert {"torch", "numpy", "deepspeed", "flash-attn", "vllm", "nvidia-cudnn-cu13"} <= names()


@given(st.sampled_from(sorted(name for name in names() if len(name) > 6)), st.data())
def test_any_single_edit_is_near_to_something(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("abcdefghijklmnopqrstuvwxyz0123456789"))
    edited = data.draw(
        st.sampled_from(
            (name[:at] + name[at + 1 :], name[:at] + letter + name[at + 1 :], name[:at] + letter + name[at:])
        )
    )
    assert edited in names() or mistaken_for(edited)
