"""What the shipped stacks bring to those who work in them: services, libraries, and the commands in a recipe's head."""

import pytest
from recipe_plans import installed, shipped_spec, text_in

from envspec.export import dockerfile
from envspec.export.plan import Plan

NOTEBOOKS = ("jupyter", "ssh", "tensorboard")


@pytest.mark.parametrize(
    ("name", "services", "packages", "apt"),
    [
        ("llm-v2.9", NOTEBOOKS, {"jupyterlab", "tensorboard", "peft", "accelerate", "datasets"}, ()),
        ("team-v2.9", ("jupyter", "ssh", "code-server", "tensorboard"), {"jupyterlab", "tensorboard"}, ("git",)),
        ("deit-v2.6", NOTEBOOKS, {"jupyterlab", "tensorboard", "timm"}, ()),
        ("mm-v2.1", (), {"ftfy", "regex", "tqdm", "packaging", "deepspeed"}, ("libgl1",)),
    ],
)
def test_what_a_stack_is_asked_for(
    name: str, services: tuple[str, ...], packages: set[str], apt: tuple[str, ...]
) -> None:
    for plan in shipped_spec(name).targets:
        assert tuple(one.name for one in plan.image.services) == services
        assert packages <= locked(plan) and {*apt} <= {*plan.image.spec_apt}


def test_what_only_some_targets_can_have() -> None:
    """torchvision and torchaudio 2.9 have no CUDA wheel for aarch64; onnxruntime-gpu for CUDA 12 needs cuDNN 9, and
    torch 2.1 brings cuDNN 8."""
    of_llm = {plan.target: {"torchvision", "torchaudio"} <= locked(plan) for plan in shipped_spec("llm-v2.9").targets}
    assert of_llm == {"cu128-ampere": True, "cu128-hopper": True, "cu128-gh200": False}
    of_mm = {plan.target: "onnxruntime-gpu" in locked(plan) for plan in shipped_spec("mm-v2.1").targets}
    assert of_mm == {"cu118": True, "cu121": False}


@pytest.mark.parametrize("name", ["llm-v2.9", "team-v2.9", "deit-v2.6", "mm-v2.1", "mm-v2.9"])
def test_the_head_has_the_commands_whole(name: str) -> None:
    """Shared memory, ports for this machine alone, the folder, all GPUs of a machine, and one MIG instance."""
    for plan in shipped_spec(name).targets:
        text = text_in(dockerfile.render(plan), dockerfile.FILE)
        head = text[: text.index("\nARG ")].replace(" \\\n#    ", "").splitlines()
        (run,) = (line for line in head if "docker run --rm -it" in line)
        ports = [f"-p 127.0.0.1:{one.published or one.port}:{one.port}" for one in plan.image.services]
        assert all(part in run for part in ("--shm-size 8g", '-v "$PWD:/workspace"', plan.image_name, *ports))
        train = [line for line in head if "torchrun --standalone --nproc-per-node gpu train.py" in line]
        assert len(train) == plan.runtime.is_cuda and ("--gpus all" in run) == plan.runtime.is_cuda
        assert len([line for line in head if "device=MIG-" in line]) == plan.runtime.is_cuda


def locked(plan: Plan) -> set[str]:
    """The packages of a plan's requirements, by name."""
    texts = (installed(plan, step) for step in plan.sources.pip)
    return {line.partition("==")[0].strip() for text in texts for line in text.splitlines() if "==" in line}
