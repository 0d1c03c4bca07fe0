"""Which names could be mistaken for a most used one."""

import pytest
from hypothesis import given, strategies as st

from envspec.facts.cuda_stack import of_any_cuda
from envspec.facts.most_used import lookalike, names


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
        # of no CUDA that there is, and of a name that none of the project's builds has
        ("cupy-cuda21x", "cupy-cuda12x"),
        ("cuppy-cuda12x", "cupy-cuda12x"),
        ("cuppy-cuda13x", "cupy-cuda12x"),
        ("nvidia-cudn-cu13", "nvidia-cudnn-cu11"),
        ("nvidia-cublas-cu21", "nvidia-cublas-cu11"),
    ],
)
def test_a_typosquat_is_near(name: str, known: str) -> None:
    assert lookalike(name) == known


@pytest.mark.parametrize("name", ["requests", "torch", "tgi", "company-models", "requests-of-mine", "transformers-ext"])
def test_what_is_known_short_or_far_is_not(name: str) -> None:
    assert lookalike(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "cupy-cuda11x",
        "cupy-cuda13x",
        "jax-cuda13-plugin",
        "jax-cuda13-pjrt",
        "nvidia-cublas-cu13",
        "nvidia-cufile-cu13",
        "nvshmem4py-cu12",
        "nvidia-nvtx-cu13",
    ],
)
def test_a_build_for_another_cuda_is_its_project_s_own(name: str) -> None:
    assert name not in names()
    assert lookalike(name) is None


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
    another_cuda = of_any_cuda(edited) is not None and of_any_cuda(edited) == of_any_cuda(name)
    assert edited in names() or another_cuda or lookalike(edited)


def test_a_name_without_end_takes_no_time_and_no_memory() -> None:
    assert lookalike("a" * 1_000_000) is None
    assert lookalike(f"{'-'.join('transformers')}") == "transformers", "hyphens don't count, however many"
