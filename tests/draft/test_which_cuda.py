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


INDEXES = "".join(
    f'[[tool.uv.index]]\nname = "{name}"\nurl = "https://example.org/whl/{name}"\nexplicit = true\n'
    for name in ("cu126", "cu128", "cu130", "cpu")
)
PROJECT = '[project]\nname = "own"\nversion = "1"\nrequires-python = ">=3.10"\ndependencies = [{}]\n'


def test_a_marker_says_for_which_platform_an_index_is() -> None:
    sources = (
        "[tool.uv.sources]\ntorch = [\n  { index = 'cu130', marker = \"platform_machine == 'aarch64'\" },\n"
        "  { index = 'cu128', marker = \"platform_machine != 'aarch64'\" },\n]\n"
    )
    files = {"pyproject.toml": PROJECT.format('"torch<2.9"') + sources + INDEXES}
    assert cuda_of(files) == "12.8"
    assert (
        cuda_of({"pyproject.toml": files["pyproject.toml"].replace("<2.9", ">=2.9")}, "--platform", "linux-aarch64")
        == "13.0"
    )


PARTS = (
    PROJECT.format('"einops"')
    + "[project.optional-dependencies]\ncu130 = ['torch>=2.9']\ncu126 = ['torch>=2.9']\ncpu = ['torch']\n"
    + "[tool.uv.sources]\ntorch = ["
    + ", ".join(f"{{ index = '{name}', extra = '{name}' }}" for name in ("cu130", "cu126", "cpu"))
    + "]\n"
    + INDEXES
)


@pytest.mark.parametrize(("gpu", "extra"), [("V100", "cu126"), ("H100", "cu130")])
def test_of_the_cudas_of_extras_a_target_gets_the_newest_that_its_gpu_runs(gpu: str, extra: str) -> None:
    """And the extra, which may be all that asks for torch."""
    text = begin({"pyproject.toml": PARTS}, "--gpu", gpu)
    assert f'cuda = "{extra[2:4]}.{extra[4]}"' in text and f'.project]\nextras = ["{extra}"]' in text
    (target,) = load_spec("specs/demo.toml").targets
    assert any(one.text.startswith("torch") for one in load_spec("specs/demo.toml").pip_dependencies(target))
    assert "add targets for the others" in text


def test_a_torch_backend_is_a_cuda() -> None:
    assert cuda_of({"pyproject.toml": PROJECT.format('"torch"') + "[tool.uv.pip]\ntorch-backend = 'cu126'\n"}) == "12.6"


@pytest.mark.parametrize(
    ("specs", "cuda"),
    [
        ("pytorch=2.1.0=py3.10_cuda11.8_cudnn8.7.0_0", "11.8"),
        ("pytorch=2.5.1=cuda126_py311h1234567_300", "12.6"),
        ("pytorch-gpu=2.5", "12.6"),
        ("numpy, cudatoolkit, pytorch-cuda=12.1", "12.1"),
        ("pytorch=2.5.1=cpu_generic_py311_0", None),
    ],
)
def test_builds_and_packages_of_conda_that_mean_a_cuda(
    specs: str, cuda: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cuda_of({"environment.yml": CONDA.format(specs)}) == cuda
    assert "without a version" not in capsys.readouterr().err


def test_a_pixi_toml_with_dependencies_by_platform_alone() -> None:
    text = '[workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\nexclude-newer = "7d"\n'
    text += '[target.linux-64.dependencies]\nnumpy = ">=2"\ncuda-version = "12.6.*"\n'
    assert cuda_of({"pixi.toml": text}) == "12.6"
    spec = load_spec("specs/demo.toml")
    assert [one.text for one in spec.conda_dependencies(spec.targets[0])] == ["numpy >=2"]
    assert spec.exclude_newer == "7 days"


def test_cogs_python_is_the_text_that_stands_there() -> None:
    text = begin({"cog.yaml": "build:\n  python_version: 3.10\n  python_packages: [six]\n  run:\n    - make it\n"})
    assert 'python = "3.10"' in text and "cog.yaml:4: build.run is left out: make it; a spec runs no commands" in text


@pytest.mark.parametrize(
    ("machine", "words", "sources"),
    [
        ("x86_64", (), {"acme": "own"}),
        ("aarch64", (), {}),
        ("aarch64", ("--platform", "linux-aarch64"), {"acme": "own"}),
        ("aarch64", ("--platform", "linux-64", "--platform", "linux-aarch64"), {"acme": "own"}),
    ],
)
def test_an_index_by_marker_is_the_source_where_it_holds(
    machine: str, words: tuple[str, ...], sources: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    text = PROJECT.format('"acme"') + "[tool.uv.sources]\nacme = { index = 'own', marker = "
    text += f"\"platform_machine == '{machine}' and python_version > '3.9'\" }}\n"
    text += '[[tool.uv.index]]\nname = "own"\nurl = "https://pkgs.example.org/simple"\nexplicit = true\n'
    begin({"pyproject.toml": text}, *words)
    assert load_spec("specs/demo.toml").pip.sources == sources
    assert ("comes from own on all targets" in capsys.readouterr().err) == (len(words) == 4)
