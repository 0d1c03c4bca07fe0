"""A6: CLIP of its git repository, as mm-v2.1 pins it, computes and trains in the workload multimodal, by ranks that
share its weights too; one that is broken is told.

Beside a torch for CPUs, with torchvision 0.15: PyPI's later files, for CUDA, aren't imported beside one. CLIP takes the
transforms of images from it alone.
"""

import os
import subprocess
from pathlib import Path

import pytest
import tomlkit
from support.smoke_env import SECONDS, copied, run_one, site_packages
from support.smoke_runs import ENVSPEC
from uv import find_uv_bin

pytestmark = [pytest.mark.nightly, pytest.mark.network, pytest.mark.e2e]

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = tomlkit.parse((ROOT / "specs" / "mm-v2.1.toml").read_text(encoding="utf-8")).unwrap()
PINNED = next(one for one in SHIPPED["pip"]["dependencies"] if one.startswith("clip @ "))

SPEC = f"""
[env]
name = "clip"
python = "3.11"

[pip]
dependencies = ["torch==2.13.0", "numpy", "pillow", "requests", "{PINNED}"]
allow-source = ["clip"]
overrides = [{{ requirement = "torchvision; sys_platform == 'win32'", reason = "it is installed apart" }}]

[targets.cpu]
platform = "linux-64"

[smoke]
workload = "multimodal"
"""


@pytest.fixture(scope="module")
def clip_env(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The prefix of an environment, and its target.json. Skipped where git doesn't reach CLIP's repository."""
    folder = tmp_path_factory.mktemp("clip")
    url = PINNED.partition("git+")[2].rpartition("@")[0]
    asked = subprocess.run(["git", "ls-remote", url], capture_output=True, text=True, check=False, timeout=60)
    if asked.returncode:
        pytest.skip(f"git doesn't reach {url}: {asked.stderr.strip().splitlines()[-1]}")
    spec, prefix = folder / "specs" / "clip.toml", folder / "env"
    spec.parent.mkdir()
    spec.write_text(SPEC, encoding="utf-8")
    vision = [find_uv_bin(), "pip", "install", "-q", "--python", prefix, "--no-deps", "torchvision==0.15.2"]
    for words in (
        [*ENVSPEC, "lock", spec],
        [*ENVSPEC, "install", spec, "--prefix", prefix],
        vision,
        [*ENVSPEC, "export", spec, "--format", "dockerfile", "-o", folder / "recipes"],
    ):
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        command = list(map(str, words))
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder, env=env, timeout=SECONDS
        )
        if done.returncode == 3 or (done.returncode and words is vision):
            pytest.skip(f"{words[-1]} can't be had here: {done.stderr.strip().splitlines()[-1]}")
        assert done.returncode == 0, done.stderr
    return prefix, folder / "recipes" / "cpu" / "target.json"


@pytest.mark.parametrize(
    "check", ["stack.imports", "stack.clip", "training.reference", "training.fp32", "training.ddp", "training.fsdp"]
)
def test_a6_clip_from_git_trains_in_the_workload(clip_env: tuple[Path, Path], tmp_path: Path, check: str) -> None:
    """The ranks, two by Gloo, are torchrun's, and end where one process with the whole batch does."""
    found = run_one(*clip_env, check, tmp_path, {}, "multimodal", "full")
    assert found["status"] == "pass", found
    if check in ("training.ddp", "training.fsdp"):
        assert found["details"]["ranks"] == 2 and "multimodal" in found["details"]["apart"]


@pytest.mark.parametrize(
    ("old", "new", "check", "words"),
    [
        ("mask.triu_(1)", "mask.triu_(2)", "stack.clip", "the loss of a tiny model of clip differs from float64's"),
        ("x * torch.sigmoid(1.702 * x)", "nn.functional.gelu(x)", "stack.clip", "of a tiny model of clip differs"),
        ("self.ln_post(x[:, 0, :])", "self.ln_post(x[:, 1, :])", "stack.clip", "the loss of a tiny model of clip"),
        (
            "image_features / image_features.norm(dim=1, keepdim=True)",
            "image_features / image_features.norm()",
            "stack.clip",
            "the loss of a tiny model of clip differs from float64's",
        ),
        (
            "x + self.positional_embedding.type(self.dtype)",
            "x + self.positional_embedding.type(self.dtype).detach()",
            "stack.clip",
            "the gradient of a tiny model of clip differs from float64's",
        ),
        (
            "ret = super().forward(x.type(torch.float32))",
            "ret = super().forward(x.type(torch.bfloat16).type(torch.float32))",
            "stack.clip",
            "of a tiny model of clip differs from float64's",
        ),
        (
            "return x * torch.sigmoid(1.702 * x)",
            "return x * torch.sigmoid(1.702 * x) * (1 + 1e-3 * (x.dtype == torch.float32))",
            "training.reference",
            "wrong in multimodal",
        ),
        (
            "logit_scale = self.logit_scale.exp()",
            'logit_scale = self.logit_scale.exp() * (1 + int(__import__("os").environ.get("RANK", 0)) / 100)',
            "training.fsdp",
            "of multimodal by FSDP differ by",
        ),
    ],
)  # fmt: skip
def test_a6_a_broken_clip_is_told(
    clip_env: tuple[Path, Path], tmp_path: Path, old: str, new: str, check: str, words: str
) -> None:
    prefix, config = clip_env
    broken = copied(prefix, tmp_path / "env")
    path = site_packages(broken) / "clip" / "model.py"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1
    path.unlink()  # it is a link to the file of the environment that was copied
    path.write_text(text.replace(old, new), encoding="utf-8")
    found = run_one(broken, config, check, tmp_path, {}, "multimodal", "full" if check == "training.fsdp" else "quick")
    assert found["status"] == "fail" and words in found["reason"], found
