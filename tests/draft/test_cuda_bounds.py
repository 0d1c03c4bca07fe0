"""The CUDA of a new spec is within what the files' match specs ask for, as rattler reads them."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from support.drafts import draft, notes, settled
from support.examples import examples

from envspec.base.errors import Place
from envspec.cli.main import run
from envspec.draft.claims import candidates
from envspec.draft.gather import Gathered
from envspec.facts.toolkits import cuda_releases
from envspec.packages.names import conda_name
from envspec.spec.parse import load_spec


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def matches(spec: str, cuda: str) -> bool:
    """Whether rattler takes this version for the match spec, or where it takes no minor version, a patch release."""
    rattler = pytest.importorskip("rattler")
    read = rattler.MatchSpec(spec)
    name = rattler.PackageName(conda_name(spec))

    def takes(version: str) -> bool:
        build = rattler.package.BuildString("0")
        record = rattler.PackageRecord(name, rattler.VersionWithSource(version), build, 0, "noarch", None)
        return bool(read.matches(record))

    if any(takes(one.version) for one in cuda_releases()):
        return takes(cuda)
    return any(takes(f"{cuda}.{patch}") for patch in range(20))


def chosen(name: str, text: str, *words: str) -> list[str | None]:
    Path(name).write_text(text)
    assert run(["init", "demo", "--from", name, *words]) == 0
    return [target.cuda for target in load_spec("specs/demo.toml").targets]


CONDA = 'channels: [conda-forge]\ndependencies: [python=3.11, "{}", numpy]\n'
PIXI = '[workspace]\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n'
PIXI += '[dependencies]\npython = "3.11.*"\nnumpy = "*"\n'


@pytest.mark.parametrize(
    "spec",
    [
        "cuda-version>=12.4,<12.9", "cuda-version<13.0", "cuda-version!=12.0", "cuda-version >=12,!=12.9,<13",
        "cudatoolkit<12.0,>=11.2", "cudatoolkit >=11.7", "pytorch-cuda>=11.8,<12.2", "cuda-version~=12.4",
        "cuda-version 12.4.*|12.6.*", "cuda-version >12.4,<=12.8", "cuda-version=12", "cuda-version 12.*",
        "cuda-toolkit>=12.4,<12.9", "cuda<12.9", "cuda-version=12.4", "cudatoolkit=11.8.0", "cuda-version 12.6",
    ],
)  # fmt: skip
def test_an_environment_yml(spec: str) -> None:
    (cuda,) = chosen("environment.yml", CONDA.format(spec))
    assert cuda and matches(spec, cuda)


def test_the_files_bound_is_told_beside_the_choice() -> None:
    text = CONDA.format("cuda-version>=12.4,<12.9").replace("numpy", "pytorch-gpu=2.7")
    (cuda,) = chosen("environment.yml", text)
    assert cuda in ("12.4", "12.5", "12.6", "12.8")
    assert "# the files: >=12.4,<12.9; torch" in Path("specs/demo.toml").read_text()
    assert chosen("environment.yml", text, "--force", "--gpu", "A100", "--driver", "550.54.15") == ["12.6"]


@pytest.mark.parametrize(
    ("tables", "spec"),
    [
        ('cuda-version = ">=12.4,<12.9"\n', "cuda-version>=12.4,<12.9"),
        ('cuda-version = "<13.0"\n[system-requirements]\ncuda = "12"\n', "cuda-version<13.0"),
        ('[system-requirements]\ncuda = "12"\n', "cuda-version 12.*"),
        ('[system-requirements]\ncuda = "12.6"\n', "cuda-version 12.6"),
        ('cuda-version = "12.6.*"\n[system-requirements]\ncuda = "13.0"\n', "cuda-version 12.6.*"),
        ('cuda-version = { version = "!=12.9,<13,>=12" }\n', "cuda-version !=12.9,<13,>=12"),
        (
            '[feature.cuda.dependencies]\ncuda-version = ">=12.4,<12.9"\n[environments]\ncuda = ["cuda"]\n'
            '[feature.cuda.system-requirements]\ncuda = "12"\n',
            "cuda-version>=12.4,<12.9",
        ),
        (
            '[feature.cuda.target.linux-64.dependencies]\ncuda-version = "<12.9"\n[feature.cuda.system-requirements]\n'
            'cuda = "13"\n[environments]\ncuda = ["cuda"]\n',
            "cuda-version<12.9",
        ),
    ],
)  # fmt: skip
def test_a_pixi_toml(tables: str, spec: str) -> None:
    cudas = [one for one in chosen("pixi.toml", f"{PIXI}{tables}") if one]
    assert cudas and all(matches(spec, one) for one in cudas)


def test_what_contradicts_itself_is_told() -> None:
    found = draft("environment.yml", CONDA.format("cuda-version<12.9").replace("numpy", "cuda-toolkit=13.0"))
    assert settled(found).cuda == () or settled(found).cuda == ("13.0",)
    assert "no CUDA is <12.9 and =13.0: choose one with --cuda" in notes(found)
    text = "  - pip: ['--extra-index-url https://download.example.org/whl/cu130', torch]\n"
    found = draft("environment.yml", f"dependencies:\n  - cuda-version<12.9\n{text}")
    assert (settled(found).cuda, settled(found).cuda_bounds) == ((), ("<12.9",))
    assert "CUDA 13.0 is left out: <12.9 is asked for, too" in notes(found)


def test_files_that_contradict_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    Path("Dockerfile").write_text("FROM nvidia/cuda:13.0.1-base\nRUN pip install six\n")
    Path("environment.yml").write_text(CONDA.format("cuda-version>=12.4,<12.9"))
    assert run(["init", "demo", "--from", "Dockerfile", "--from", "environment.yml"]) == 2
    told = capsys.readouterr().err
    assert (
        "contradict each other: CUDA (13.0 in Dockerfile:1, >=12.4,<12.9 in environment.yml:2)" in told
        and "hint: --cuda 13.0\n" in told
    )
    Path("Dockerfile").write_text("FROM nvidia/cuda:12.6.1-base\nRUN pip install six\n")
    assert run(["init", "demo", "--from", "Dockerfile", "--from", "environment.yml"]) == 0
    assert load_spec("specs/demo.toml").targets[0].cuda == "12.6"


VERSIONS = st.sampled_from([one.version for one in cuda_releases() if one.version >= "11"] + ["12", "13"])
CLAUSES = st.one_of(
    st.builds("{}{}".format, st.sampled_from(["=", "==", "!=", "<", "<=", ">", ">=", "~="]), VERSIONS),
    VERSIONS.map("{}.*".format),
    VERSIONS.map("!={}.*".format),
)
AND = st.lists(CLAUSES, min_size=1, max_size=3).map(",".join)
BOUNDS = st.one_of(AND, st.builds("{}|{}".format, AND, AND), st.builds("({}|{}),{}".format, AND, AND, CLAUSES))


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BOUNDS)
@example(">=12.4,<12.9")
@example("(12.4.*|12.6.*),!=12.4")
@example("==11.3.1")
def test_what_is_chosen_is_rattlers(bound: str) -> None:
    rattler = pytest.importorskip("rattler")
    gathered = Gathered()
    gathered.cuda_of_match_spec(bound, Place("environment.yml"))
    found = gathered.draft()
    read = rattler.VersionSpec(bound)
    known = [one.version for one in cuda_releases()]
    strict = {one for one in known if read.matches(rattler.Version(one))}
    loose = {one for one in known if any(read.matches(rattler.Version(f"{one}.{patch}")) for patch in range(20))}
    chosen = (
        set(settled(found).cuda) or set(candidates(settled(found).cuda_bounds, "linux-64"))
        if settled(found).cuda_bounds
        else set(settled(found).cuda)
    )
    if strict or loose:
        assert chosen and chosen <= (strict or loose)
    else:
        assert settled(found).cuda_bounds == ()
