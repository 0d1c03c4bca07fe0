"""Dockerfile and cog.yaml as the beginning of a spec: what they install is taken, what they do besides is told."""

import importlib
import re
import subprocess
from pathlib import Path

import pytest
from support.drafts import draft, notes, settled
from uv import find_uv_bin

FILES = Path(__file__).parent / "files"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "requirements.txt").write_text("tqdm\n")
    return tmp_path


DOCKERFILE = (FILES / "Dockerfile").read_text(encoding="utf-8")


def test_a_dockerfile() -> None:
    found = draft("Dockerfile", DOCKERFILE)
    assert found.pip == ("torch==2.3.0", "tqdm", "numpy<2; os_name == 'posix'", "einops", "acme")
    assert (settled(found).cuda, found.apt, found.variables) == (
        ("12.1",),
        ("libgl1", "git"),
        {"A": "b c", "OLD": "style value"},
    )
    assert (found.conda, found.channels) == (("ffmpeg 6.*", "openmpi >=4"), ("conda-forge",))
    told = notes(found)
    for left in ("ENV PATH", "git=1:2.3", "RUN pip install ${EXTRA}", "curl", "make install", "COPY, CMD"):
        assert left in told
    assert "Dockerfile:14: RUN curl" in told, "each by its line"
    assert "update" not in told and "rm -rf" not in told


def valued_by_pip() -> set[str]:
    command = importlib.import_module("pip._internal.commands").create_command("install").parser
    rows = [row for group in (command, *command.option_groups) for row in group.option_list if row.takes_value()]
    return {name for row in rows for name in (*row._short_opts, *row._long_opts)}


def valued_by_uv() -> set[str]:
    words = [find_uv_bin(), "pip", "install", "--help"]
    told = subprocess.run(words, capture_output=True, text=True, check=True, env={"NO_COLOR": "1"}).stdout
    rows = re.findall(r"^ +(?:(-\w), +)?(--[\w-]+) <", told, re.MULTILINE)
    return {name for row in rows for name in row if name}


@pytest.mark.slow
def test_no_value_of_an_option_of_pip_or_uv_is_a_package() -> None:
    """`--index-strategy unsafe-best-match`, `--timeout 100`: names that anybody can register."""
    valued = {"pip install": valued_by_pip(), "uv pip install": valued_by_uv()}
    assert min(map(len, valued.values())) > 30
    for command, options in valued.items():
        for option in sorted(options - {"-r", "--requirement", "--requirements", "-e", "--editable"}):
            constrains = option in ("-c", "--constraint", "--constraints")
            for value in ("requirements.txt",) if constrains else ("odd", "odd=https://i.example.org/simple"):
                for text in (f"{option} {value}", f"{option}={value}"):
                    found = draft("Dockerfile", f"FROM python:3.11\nRUN {command} {text} six {option} {value}\n")
                    assert found.pip == ("six",), text
    assert draft("Dockerfile", "FROM python:3.11\nRUN uv pip install --requirements requirements.txt\n").pip == (
        "tqdm",
    )


def test_uvs_options_of_indexes_are_read() -> None:
    told = "uv pip install --default-index https://a.example.org/simple --index mine=https://b.example.org/simple six"
    found = draft("Dockerfile", f"FROM python:3.11\nRUN {told}\nRUN pip3 --no-cache-dir --timeout=9 install attrs\n")
    assert found.pip == ("six", "attrs")
    assert "a.example.org" in str(found.indexes) and "b.example.org" in str(found.indexes)


@pytest.mark.parametrize(
    "command",
    [
        *("apt-get install -y -o Dpkg::Use-Pty=0 -t bookworm-backports git", "apt install -y --option A::B=1 git"),
        *("conda install -y --solver libmamba git", "mamba create -n x --repodata-fn odd.json -r /opt git"),
    ],
)
def test_no_value_of_an_option_of_apt_or_conda_is_a_package(command: str) -> None:
    found = draft("Dockerfile", f"FROM python:3.11\nRUN {command}\n")
    assert (*found.apt, *found.conda) == ("git",)


def test_a_python_that_no_spec_can_have_is_told() -> None:
    found = draft("environment.yml", "dependencies:\n  - python=3.7\n  - numpy\n")
    assert settled(found).python is None and "Python 3.7 is left out: envspec takes 3.8 to " in notes(found)


def test_what_a_tool_runs_in_its_environment_is_read() -> None:
    found = draft("Dockerfile", "FROM debian:12\nRUN poetry run python -m pip install torch==2.2.1 && A=1; B=2\n")
    assert found.pip == ("torch==2.2.1",) and "RUN" not in notes(found)


@pytest.mark.parametrize(
    ("base", "python", "cuda", "pip"),
    [
        ("python:3.11-slim", "3.11", (), ()),
        ("pytorch/pytorch:2.3.0-cuda12.1-cudnn8-runtime", None, ("12.1",), ("torch==2.3.0",)),
        ("debian:12", None, (), ()),
        ("python:3.7", None, (), ()),
    ],
)
def test_a_base(base: str, python: str | None, cuda: tuple[str, ...], pip: tuple[str, ...]) -> None:
    found = draft("train.Dockerfile", f"FROM {base}\nRUN pip install acme\n")
    assert (settled(found).python, settled(found).cuda, found.pip) == (python, cuda, (*pip, "acme"))
    assert f"FROM {base} is left out" in notes(found)


COG = (FILES / "cog.yaml").read_text(encoding="utf-8")


def test_a_cog_yaml() -> None:
    found = draft("cog.yaml", COG)
    assert (settled(found).python, settled(found).cuda, found.apt) == ("3.11", ("12.1",), ("libgl1",))
    assert found.pip == ("tqdm", "torch==2.3.0", "acme>=1") and found.variables == {"A": "b=c"}
    for left in ("build.run", "build.cudnn", "predict"):
        assert f"{left} is left out" in notes(found)
    assert settled(draft("cog.yaml", "build: {python_packages: [acme]}\n")).cuda == ("cpu",)
    assert "--cuda or --gpu" in notes(draft("cog.yaml", "build: {gpu: true, python_packages: [acme]}\n"))


@pytest.mark.parametrize("name", ["Pipfile", "Makefile"])
def test_what_is_no_list_of_requirements(name: str) -> None:
    with pytest.raises(Exception, match=re.escape(f"{name}: this is no file that envspec knows")):
        draft(name, "[packages]\ntorch\n")
