"""environment.yml, pyproject.toml (PEP 621, uv, Poetry) and pixi.toml as the beginning of a spec."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from envspec.draft.model import Draft
from envspec.draft.python_tools import pep440
from envspec.draft.read import read_draft
from envspec.errors import InputError


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def draft(name: str, text: str) -> Draft:
    Path(name).write_text(text, encoding="utf-8")
    return read_draft(Path(name))


def notes(found: Draft) -> str:
    return "\n".join(map(str, found.notes))


ENVIRONMENT = """\
name: old
channels: [pytorch, nvidia, conda-forge, nodefaults]
dependencies:
  - python=3.11
  - pytorch::pytorch=2.4
  - pytorch-cuda=12.4
  - numpy=1.26.4=py311h64a7726_0
  - ffmpeg >=6, <8
  - nodejs = 20
  - tqdm==4.66.1
  - pip
  - pip:
    - --extra-index-url https://download.example.org/whl/cu124
    - einops
variables: {HF_HOME: /cache}
prefix: /home/me/envs/old
"""


def test_an_environment_yml() -> None:
    found = draft("environment.yml", ENVIRONMENT)
    assert (found.python, found.cuda, found.pip) == ("3.11", ("12.4",), ("einops",))
    assert found.channels == ("pytorch", "nvidia", "conda-forge")
    assert found.conda == (
        "pytorch::pytorch 2.4.*", "numpy ==1.26.4", "ffmpeg >=6,<8", "nodejs 20.*", "tqdm ==4.66.1",
    )  # fmt: skip
    assert found.variables == {"HF_HOME": "/cache"}
    for left in ("prefix", "nodefaults", "pip is", "the builds of 1 package"):
        assert left in notes(found)


@pytest.mark.parametrize(
    ("line", "cuda"),
    [
        ("cudatoolkit=11.8.0", ("11.8",)),
        ("cuda-version 12.6.*", ("12.6",)),
        ("nvidia/label/cuda-12.1.0::cuda-toolkit", ("12.1",)),
        ("cuda-toolkit=12.4", ("12.4",)),
        ("cpuonly", ("cpu",)),
    ],
)
def test_what_conda_users_choose_a_cuda_by(line: str, cuda: tuple[str, ...]) -> None:
    assert draft("environment.yaml", f"dependencies:\n  - {line}\n  - numpy\n").cuda == cuda


PYPROJECT = """\
[project]
name = "mine"
version = "1"
description = "Mine"
requires-python = ">=3.10,<3.12"
dependencies = ["torch>=2.6", "einops", "acme"]
[project.optional-dependencies]
train = ["wandb"]
[dependency-groups]
dev = ["pytest"]
[tool.uv]
override-dependencies = ["numpy>=2"]
constraint-dependencies = ["scipy<2"]
no-build-isolation-package = ["flash-attn"]
conflicts = []
[tool.uv.sources]
torch = [{ index = "pytorch-cu128", marker = "sys_platform == 'linux'" }]
acme = { index = "internal" }
einops = { git = "https://example.org/einops", tag = "v1" }
[[tool.uv.index]]
name = "pytorch-cu128"
url = "https://download.example.org/whl/cu128"
explicit = true
[[tool.uv.index]]
name = "internal"
url = "https://pkgs.example.org/simple"
explicit = true
"""


def test_a_pyproject_with_uvs_tables() -> None:
    found = draft("pyproject.toml", PYPROJECT)
    assert found.project == (".", ()) and found.own == ("torch>=2.6", "acme")
    assert found.pip == ("einops @ git+https://example.org/einops@v1",)
    assert (found.requires_python, found.cuda) == (">=3.10,<3.12", ("12.8",))
    assert (found.constraints, [one for one, _ in found.overrides]) == (("scipy<2",), ["numpy>=2"])
    assert (found.indexes, found.sources) == ({"internal": "https://pkgs.example.org/simple"}, {"acme": "internal"})
    assert (found.unisolated, found.available) == (("flash-attn",), ("extra train", "group dev"))
    assert "tool.uv.conflicts is left out" in notes(found)


POETRY = """\
[tool.poetry]
name = "po"
[tool.poetry.dependencies]
python = "^3.10"
torch = { version = "^2.1", source = "pytorch" }
scp = { git = "git@example.org:acme/c.git", branch = "main" }
two = [{ version = "<2", python = "<3.11" }, { version = ">=2", python = ">=3.11" }]
either = "^0.2 || ^0.3"
marked = { version = "1.2", extras = ["x"], markers = "sys_platform == 'linux'" }
local = { path = "../local" }
maybe = { version = "*", optional = true }
acme = { version = "*", source = "internal" }
[tool.poetry.group.dev.dependencies]
pytest = "*"
[[tool.poetry.source]]
name = "pytorch"
url = "https://download.example.org/whl/cu121"
[[tool.poetry.source]]
name = "internal"
url = "https://pkgs.example.org/simple"
"""


def test_a_pyproject_of_poetry() -> None:
    found = draft("pyproject.toml", POETRY)
    assert found.pip == (
        "torch>=2.1,<3",
        "scp @ git+ssh://git@example.org/acme/c.git@main",
        'two<2; python_version < "3.11"',
        'two>=2; python_version >= "3.11"',
        "either",
        "marked[x]==1.2; sys_platform == 'linux'",
        "acme",
    )
    assert (found.requires_python, found.cuda, found.sources) == (">=3.10,<4", ("12.1",), {"acme": "internal"})
    for left in ("either is taken without its version", "local is left out", "maybe is left out", "the group dev"):
        assert left in notes(found)


@pytest.mark.parametrize(
    ("version", "specifier"),
    [
        ("^1.2.3", ">=1.2.3,<2"), ("^0.2.3", ">=0.2.3,<0.3"), ("^0.0.3", ">=0.0.3,<0.0.4"), ("^0", ">=0,<1"),
        ("~1.2.3", ">=1.2.3,<1.3"), ("~1", ">=1,<2"), ("~=1.2", "~=1.2"), ("1.2", "==1.2"), ("1.2.*", "==1.2.*"),
        ("=1.2", "==1.2"), (">=1,<2", ">=1,<2"), ("*", ""), ("^1 || ^2", None),
    ],
)  # fmt: skip
def test_poetrys_versions(version: str, specifier: str | None) -> None:
    assert pep440(version) == specifier


PIXI = """\
[workspace]
channels = ["conda-forge", { channel = "bioconda" }]
platforms = ["linux-64", "osx-arm64", "linux-ppc64le"]
[tasks]
a = "b"
[dependencies]
python = "3.11.*"
ffmpeg = ">=6,<8"
numpy = { version = "1.26.4", build = "py*" }
cmake = "*"
[pypi-dependencies]
torch = { version = ">=2.6", index = "https://download.example.org/whl/cu126" }
einops = "*"
[system-requirements]
cuda = "12.4"
libc = "2.28"
[feature.dev.dependencies]
pytest = "*"
[activation.env]
HF_HOME = "/cache"
"""


def test_a_pixi_toml() -> None:
    found = draft("pixi.toml", PIXI)
    assert (found.python, found.cuda) == ("3.11", ("12.6", "12.4"))
    assert found.conda == ("ffmpeg >=6,<8", "numpy ==1.26.4", "cmake")
    assert found.pip == ("torch>=2.6", "einops") and found.channels == ("conda-forge", "bioconda")
    assert (found.platforms, found.variables) == (("linux-64", "osx-arm64"), {"HF_HOME": "/cache"})
    for left in ("linux-ppc64le", "numpy: build", "feature dev is left out", "the tasks", "glibc"):
        assert left in notes(found)


ENVIRONMENTS = """\
[workspace]
channels = ["conda-forge"]
platforms = [
  "linux-64",
  { name = "gpu", platform = "linux-64", cuda = { driver = "12", arch = "9.0" }, archspec = "x86_64_v3" },
  { platform = "linux-aarch64", cuda = "12.8", glibc = "2.34" },
]
[dependencies]
python = "3.12.*"
[pypi-dependencies]
einops = "*"
[feature.cpu]
platforms = ["linux-64"]
pypi-dependencies = { torch = "==2.9.1" }
[feature.cuda]
platforms = ["gpu", "linux-aarch64-cuda-12-8-glibc-2-34"]
[feature.cuda.pypi-dependencies]
torch = { version = "==2.9.1", index = "https://download.example.org/whl/cu128" }
[feature.cuda.target.linux-aarch64.dependencies]
openmpi = "5.*"
[feature.docs.dependencies]
mkdocs = "*"
[environments]
cpu = ["cpu"]
cuda = { features = ["cuda"], solve-group = "one" }
docs = { features = ["docs"], no-default-feature = true, platforms = ["linux-64"] }
default = { features = ["cpu"] }
"""


def test_pixis_environments_are_targets() -> None:
    found = draft("pixi.toml", ENVIRONMENTS)
    asked = {one.name: (one.platform, one.cuda, one.gpus, one.cpu, one.glibc) for one in found.targets}
    newest = next(one.cuda for one in found.targets if one.name == "cuda-linux-64")
    assert newest and newest.startswith("12.")
    assert asked == {
        "cpu": ("linux-64", None, (), None, None),
        "cuda-linux-64": ("linux-64", newest, ("sm_90",), "x86-64-v3", None),
        "cuda-linux-aarch64": ("linux-aarch64", "12.8", (), None, "2.34"),
        "docs": ("linux-64", None, (), None, None),
        "default": ("linux-64", None, (), None, None),
    }
    more = {one.name: (one.pip, one.conda) for one in found.targets}
    assert (found.pip, found.conda, found.python) == ((), (), "3.12")
    assert more["cuda-linux-aarch64"] == (("einops", "torch==2.9.1"), ("openmpi 5.*",))
    assert more["docs"] == ((), ("mkdocs",)) and more["cpu"] == more["default"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("environment.yml", "dependencies: {a: b}\n", "dependencies must be a list"),
        ("environment.yml", "dependencies: [\n", "not YAML"),
        ("pixi.toml", "dependencies = 1\n", "dependencies must be a table"),
        ("pyproject.toml", "[build-system]\nrequires = []\n", "neither [project] nor"),
        ("pyproject.toml", "[project]\ndynamic = ['dependencies']\n", "only a build tells them"),
        ("pyproject.toml", "[project\n", "not TOML"),
        ("uv.lock", "version = 1\nrequires-python = '>=3'\n", "this is a uv.lock"),
        ("setup.py", "import os\n", "no file that envspec knows"),
    ],
)
def test_what_no_spec_can_begin_with(name: str, text: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        draft(name, text)
    assert str(caught.value).startswith(name)
