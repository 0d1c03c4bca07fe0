"""environment.yml, pyproject.toml (PEP 621, uv, Poetry) and pixi.toml as the beginning of a spec."""

import re
from pathlib import Path

import pytest
from support.drafts import draft, notes, settled

from envspec.base.errors import InputError
from envspec.draft.gather import pep440
from envspec.draft.model import Draft, NewTarget
from envspec.draft.targets import with_cuda, with_sources

FILES = Path(__file__).parent / "files"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


ENVIRONMENT = (FILES / "environment.yml").read_text(encoding="utf-8")


def test_an_environment_yml() -> None:
    found = draft("environment.yml", ENVIRONMENT)
    assert (settled(found).python, settled(found).cuda, found.pip) == ("3.11", ("12.4",), ("einops", "torch==2.4.*"))
    assert found.channels == ("conda-forge",)
    assert found.conda == (
        "numpy ==1.26.4", "ffmpeg >=6,<8", "nodejs 20.*", "tqdm ==4.66.1",
    )  # fmt: skip
    assert found.variables == {"HF_HOME": "/cache"}
    for left in ("prefix", "nodefaults", "the builds of 1 package"):
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
    assert settled(draft("environment.yaml", f"dependencies:\n  - {line}\n  - numpy\n")).cuda == cuda


def test_ended_channels_are_left_with_the_same_versions() -> None:
    text = "channels:\n  - pytorch\n  - nvidia\n  - defaults\ndependencies:\n"
    text += "  - pytorch=2.0.1\n  - torchvision==0.15.2\n  - numpy\n"
    found = draft("environment.yml", text)
    assert (found.pip, found.conda, found.channels) == (
        ("torch==2.0.1.*", "torchvision==0.15.2"), ("numpy",), ("conda-forge",),
    )  # fmt: skip
    moved = "pytorch 2.0.1.* is torch==2.0.1.*, torchvision ==0.15.2 is torchvision==0.15.2 of pip"
    assert f"environment.yml:6: {moved}" in notes(found)
    assert "environment.yml:2: the channels pytorch, nvidia, defaults are left out for conda-forge" in notes(found)
    kept = draft(
        "environment.yml", "channels: [conda-forge, pytorch, nvidia]\ndependencies: [pytorch=2.4, cuda-nvcc]\n"
    )
    assert (kept.pip, kept.conda, kept.channels) == ((), ("pytorch 2.4.*", "cuda-nvcc"), ("conda-forge", "nvidia"))


PYPROJECT = (FILES / "uv.toml").read_text(encoding="utf-8")


def test_a_pyproject_with_uvs_tables() -> None:
    found = draft("pyproject.toml", PYPROJECT)
    assert found.project == (".", ()) and found.own == ("torch>=2.6", "acme")
    assert found.pip == ("einops @ git+https://example.org/einops@v1",)
    assert (settled(found).requires, settled(found).cuda) == (">=3.10,<3.12", ("12.8",))
    assert (found.constraints, [one for one, _ in found.overrides]) == (("scipy<2",), ["numpy>=2"])
    assert (found.indexes, found.sources) == ({"internal": "https://pkgs.example.org/simple"}, {"acme": "internal"})
    assert (found.unisolated, tuple(found.available)) == (("flash-attn",), ("extra train", "group dev"))
    assert "tool.uv.conflicts is left out" in notes(found)


POETRY = (FILES / "poetry.toml").read_text(encoding="utf-8")


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
    assert (settled(found).requires, settled(found).cuda, found.sources) == (
        ">=3.10,<4",
        ("12.1",),
        {"acme": "internal"},
    )
    for left in ("either is taken without its version", "local is left out", "maybe is left out", "the group dev"):
        assert left in notes(found)


@pytest.mark.parametrize(
    ("version", "specifier"),
    [
        ("^1.2.3", ">=1.2.3,<2"), ("^0.2.3", ">=0.2.3,<0.3"), ("^0.0.3", ">=0.0.3,<0.0.4"), ("^0", ">=0,<1"),
        ("~1.2.3", ">=1.2.3,<1.3"), ("~1", ">=1,<2"), ("~=1.2", "~=1.2"), ("1.2", "==1.2"), ("1.2.*", "==1.2.*"),
        ("=1.2", "==1.2"), (">=1,<2", ">=1,<2"), ("*", ""), ("^1 || ^2", None),
        # as poetry-core 2.5 reads them
        ("~=1", ">=1,<2"), ("v1.2", "==1.2"), (">=1 <2", ">=1,<2"), (">= 1.0, < 2", ">= 1.0,< 2"),
        (">=1.2+local", ">=1.2"), ("^v1.2", ">=1.2,<2"), ("==1.2+local", "==1.2+local"), ("!=1.2+local", "!=1.2+local"),
    ],
)  # fmt: skip
def test_poetrys_versions(version: str, specifier: str | None) -> None:
    assert pep440(version) == specifier


PIXI = (FILES / "pixi.toml").read_text(encoding="utf-8")


def test_a_pixi_toml() -> None:
    found = draft("pixi.toml", PIXI)
    assert (settled(found).python, settled(found).cuda) == ("3.11", ("12.6",))
    assert "machines with CUDA 12.4 are left out" in notes(found)
    assert found.conda == ("ffmpeg >=6,<8", "numpy ==1.26.4", "cmake")
    assert found.pip == ("torch>=2.6", "einops") and found.channels == ("conda-forge", "bioconda")
    assert (found.platforms, found.variables) == (("linux-64", "osx-arm64"), {"HF_HOME": "/cache"})
    for left in ("linux-ppc64le", "numpy: build", "feature dev is left out", "the tasks", "glibc"):
        assert left in notes(found)


ENVIRONMENTS = (FILES / "pixi-environments.toml").read_text(encoding="utf-8")


def test_pixis_environments_are_targets() -> None:
    found = draft("pixi.toml", ENVIRONMENTS)
    targets = [with_cuda(one) for one in found.targets]
    asked = {one.name: (one.platform, one.cuda, one.gpus, one.cpu, one.glibc) for one in targets}
    newest = next(one.cuda for one in targets if one.name == "cuda-linux-64")
    assert newest and newest.startswith("12.")
    assert asked == {
        "cpu": ("linux-64", None, (), None, None),
        "cuda-linux-64": ("linux-64", newest, ("sm_90",), "x86-64-v3", None),
        "cuda-linux-aarch64": ("linux-aarch64", "12.8", (), None, "2.34"),
        "docs": ("linux-64", None, (), None, None),
        "default": ("linux-64", None, (), None, None),
    }
    more = {one.name: (one.pip, one.conda) for one in found.targets}
    assert (found.pip, found.conda, settled(found).python) == ((), (), "3.12")
    assert more["cuda-linux-aarch64"] == (("einops", "torch==2.9.1"), ("openmpi 5.*",))
    assert more["docs"] == ((), ("mkdocs",)) and more["cpu"] == more["default"]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("environment.yml", "dependencies: {a: b}\n", "dependencies must be a list"),
        ("environment.yml", "dependencies: [\n", "not YAML"),
        ("pixi.toml", "dependencies = 1\n", "dependencies must be a table"),
        ("pyproject.toml", "[build-system]\nrequires = []\n", "neither [project] nor"),
        ("pyproject.toml", "[project\n", "not TOML"),
        ("uv.lock", "version = 1\nrequires-python = '>=3'\n", "this is a uv.lock"),
        ("setup.py", "import (\n", "this isn't Python"),
    ],
)
def test_what_no_spec_can_begin_with(name: str, text: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)) as caught:
        draft(name, text)
    assert str(caught.value).startswith(name)


def uv_project(sources: str, *, more: str = "", asked: str = '"acme[fast]>=1", "torch"') -> Draft:
    indexes = "".join(
        f'[[tool.uv.index]]\nname = "{name}"\nurl = "{url}"\nexplicit = true\n'
        for name, url in (
            ("own", "https://gitlab.example.org/api/v4/projects/1/packages/pypi/simple"),
            ("builds", "https://pkgs.example.org/torch/simple"),
        )
    )
    text = f'[project]\nname = "mine"\nversion = "1"\ndependencies = [{asked}]\n'
    return draft("pyproject.toml", f"{text}{more}{indexes}[tool.uv.sources]\n{sources}\n")


def test_an_explicit_index_stays_one() -> None:
    found = uv_project('acme = { index = "own" }\ntorch = { index = "builds" }')
    assert found.sources == {"acme": "own", "torch": "builds"} and set(found.indexes) == {"own", "builds"}


def test_a_source_keeps_marker_and_extras() -> None:
    at = "git+https://example.org/acme"
    found = uv_project('acme = { git = "https://example.org/acme" }')
    assert found.pip == (f"acme[fast] @ {at}",) and "acme: the bound >=1 holds only where" in notes(found)
    found = uv_project("""acme = { git = "https://example.org/acme", marker = "sys_platform == 'linux'" }""")
    assert found.pip == (f"acme[fast] @ {at} ; sys_platform == 'linux'",) and "acme[fast]>=1" in found.own
    found = uv_project("""acme = { git = "https://example.org/acme" }""", asked='''"acme; os_name == 'posix'"''')
    assert found.pip == (f"""acme @ {at} ; os_name == "posix\"""",) and found.own == ()
    found = uv_project("""acme = { index = "own", marker = "sys_platform == 'linux'" }""")
    assert found.sources_by_marker == (("acme", "own", "sys_platform == 'linux'"),)
    assert with_sources(found, [NewTarget("cpu", "linux-64")]).sources == {"acme": "own"}
    assert with_sources(found, [NewTarget("cpu", "win-64")]).sources == {}


def test_a_source_alone_asks_for_nothing() -> None:
    more = '[project.optional-dependencies]\nfast = ["beta"]\n'
    found = uv_project('beta = { url = "https://example.org/beta-1.zip" }', more=more)
    assert found.pip == () and "beta-1.zip" in notes(found)


def test_uvs_other_indexes() -> None:
    found = draft(
        "pyproject.toml",
        '[project]\nname = "mine"\nversion = "1"\ndependencies = ["acme"]\n'
        '[tool.uv.sources]\nacme = { index = "flat" }\n'
        '[[tool.uv.index]]\nname = "flat"\nurl = "https://example.org/wheels/"\nformat = "flat"\n'
        '[[tool.uv.index]]\nname = "main"\nurl = "https://pypi.acme.example.org/simple"\ndefault = true\n'
        '[[tool.uv.index]]\nurl = "https://acme.example.org/api/pypi/internal/simple"\n',
    )
    assert found.find_links == {"flat": "https://example.org/wheels/"} and found.sources == {"acme": "flat"}
    assert list(found.indexes.values()) == ["https://acme.example.org/api/pypi/internal/simple"]
    assert "https://pypi.acme.example.org/simple is taken for a mirror of PyPI" in notes(found)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ("[tool.pdm.dev-dependencies]\ntest = ['pytest']", "tool.pdm"),
        ("[tool.pdm.resolution]\nexcludes = ['x']", "tool.pdm"),
        ("[tool.hatch.envs.default]\ndependencies = ['black']", "tool.hatch"),
        ("[tool.rye]\ndev-dependencies = ['black']", "tool.rye"),
        ("[tool.uv]\nexclude-newer-package = { torch = '2026-01-01' }", "exclude-newer-package"),
    ],
)
def test_other_tools_tables_are_told(table: str, told: str) -> None:
    found = draft("pyproject.toml", f"[project]\nname = 'mine'\nversion = '1'\ndependencies = ['acme']\n{table}\n")
    assert told in notes(found)


@pytest.mark.parametrize(
    ("value", "requirement"),
    [
        ('{ version = "1", platform = "linux" }', 'acme==1; sys_platform == "linux"'),
        (
            """{ version = "1", markers = "os_name == 'nt' or os_name == 'posix'", python = ">=3.9" }""",
            """acme==1; (os_name == 'nt' or os_name == 'posix') and python_version >= "3.9\"""",
        ),
        ('{ version = "1", python = ">=3.9.2" }', 'acme==1; python_full_version >= "3.9.2"'),
    ],
)
def test_poetrys_markers(value: str, requirement: str) -> None:
    assert draft("pyproject.toml", f"[tool.poetry.dependencies]\nacme = {value}\n").pip == (requirement,)


def test_what_poetry_says_more_of_a_dependency_is_told() -> None:
    found = draft(
        "pyproject.toml",
        '[tool.poetry.dependencies]\na = { version = "1", allow-prereleases = true }\n'
        'b = { git = "https://example.org/b", develop = true }\nc = { version = "1", source = "own" }\n'
        '[[tool.poetry.source]]\nname = "own"\npriority = "explicit"\n'
        'url = "https://pkgs.example.org/acme/_packaging/feed/pypi/simple/"\n',
    )
    assert "a: allow-prereleases is left out" in notes(found) and "b: develop is left out" in notes(found)
    assert found.sources == {"c": "own"}


def test_an_environment_yml_with_what_conda_ignores() -> None:
    found = draft(
        "environment.yml",
        "channels: [conda-forge]\ndependencies:\n  - numpy\n  - cpuonly\n  - cudatoolkit=11.8\n  - pytorch-cuda=12.1\n"
        "  - npm:\n    - left-pad\n  - sel(linux): htop\nvariables: {A: true, B: 1, C: 0.5}\n",
    )
    assert "npm is left out: left-pad" in notes(found) and "sel(linux) is left out: htop" in notes(found)
    assert settled(found).cuda == ("12.1", "11.8") and "cpu" in {one.text for one in found.claims}
    assert found.variables == {"A": "True", "B": "1", "C": "0.5"}


ODD_PIXI = """\
[workspace]
name = "odd"
authors = ["me"]
channels = ["conda-forge", { channel = "bioconda", priority = 2 }]
platforms = ["linux-64"]
channel-priority = "disabled"
preview = ["pixi-build"]
[dependencies]
numpy = "*"
built = { git = "https://example.org/built" }
own = { path = "../own" }
[pypi-dependencies]
acme = { version = ">=1", env-markers = "sys_platform == 'linux'" }
corp = { version = "*", index = "https://gitlab.example.org/api/v4/projects/1/packages/pypi/simple" }
[activation]
scripts = ["env.sh"]
[target.linux-64.activation.env]
A = "b"
[feature.cuda]
channels = ["nvidia"]
[feature.cuda.dependencies]
cuda-nvcc = "*"
[feature.cuda.activation]
env = { B = "c" }
scripts = ["cuda.sh"]
"""


@pytest.mark.parametrize("environments", ["[environments]\ndefault = ['cuda']\n", "[environments]\ncuda = ['cuda']\n"])
def test_nothing_of_a_pixi_toml_is_left_out_in_silence(environments: str) -> None:
    found = draft("pixi.toml", ODD_PIXI + environments)
    assert found.channels == ("conda-forge", "bioconda", "nvidia")
    told = notes(found)
    for left in ("channel-priority", "preview", "priority of bioconda", "built is left out", "own is left out"):
        assert left in told
    for left in ("env.sh", "cuda.sh", "A", "B"):
        assert f"activation: {left} is left out" in told
    assert "name" not in [word for line in told.split("\n") for word in line.split()[1:2]]
    every = (*found.pip, *(text for target in found.targets for text in target.pip))
    assert "acme>=1; sys_platform == 'linux'" in every
    conda = {*found.conda, *(text for target in found.targets for text in target.conda)}
    assert conda == {"numpy", "cuda-nvcc"}
    assert list(found.indexes) == [found.sources["corp"]] and found.sources["corp"] != "pypi"


def test_a_project_that_names_itself_asks_no_index_for_itself(here: Path) -> None:
    text = (
        '[project]\nname = "Mine_Pkg"\nversion = "1"\ndependencies = ["acme", "mine.pkg[base]"]\n'
        '[project.optional-dependencies]\nall = ["mine-pkg[train,Big_Viz]; os_name == \'posix\'"]\ntrain = ["beta"]\n'
        'big-viz = ["gamma", "mine_pkg[train]", "mine-pkg[none]"]\nbase = ["delta"]\n'
    )
    (here / "pyproject.toml").write_text(text)
    found = draft("requirements.txt", "-e .[all]\n")
    assert found.project == (".", ("all",))
    assert found.own == ("acme", "delta", "gamma", "beta")
    assert "no extra none" in notes(found) and "os_name" in notes(found) and "no extra train" not in notes(found)


@pytest.mark.parametrize("source", ['{ path = "../acme" }', "{ workspace = true }"])
def test_a_folder_beside_the_project_is_asked_of_no_index(source: str) -> None:
    """A stranger's package of the same name may be there."""
    found = uv_project(f"Acme = {source}")
    assert found.own == ("torch",) and "Acme is left out" in notes(found)
