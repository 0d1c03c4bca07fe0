"""The CUDA and Python that files of each format come to, beside the machines that the user names."""

from pathlib import Path

import pytest

from envspec.cli.main import run
from envspec.spec.parse import load_spec

A100 = ("--gpu", "A100", "--driver", "550.54.15")
CONDA = "channels: [conda-forge]\ndependencies: [python=3.11, {}]\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begin(files: dict[str, str], *words: str, status: int = 0) -> str:
    """Begin a spec with these files, and give its text."""
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    assert run(["init", "demo", *(f"--from={name}" for name in files), "--force", *words]) == status
    return Path("specs/demo.toml").read_text() if status == 0 else ""


def cuda_of(files: dict[str, str], *words: str) -> str | None:
    begin(files, *words)
    return load_spec("specs/demo.toml").targets[0].cuda


@pytest.mark.parametrize(
    ("torch", "cuda"), [("pytorch=2.5", "12.6"), ("pytorch=2.4", "12.0"), ("pytorch-gpu=2.7", "12.6")]
)
def test_condas_own_builds_decide_for_condas_pytorch(torch: str, cuda: str) -> None:
    text = begin({"environment.yml": CONDA.format(torch)}, *A100)
    assert f'cuda = "{cuda}"  # torch ' in text and "has conda-forge's build for it and driver 550.54.15 runs" in text
