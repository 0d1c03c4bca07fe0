"""Every line of a file that asks for something is taken, or told with its line: generated files add up."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from support.examples import examples

from envspec.draft.model import Draft
from envspec.draft.repository import read_draft

NAMES = st.integers(0, 30).map("p{}".format)
VERSIONS = st.sampled_from(["", "==1.2", ">=1,<3", "~=2.0", "<2"])


def lines_of(draft: Draft) -> set[int]:
    """The lines that are taken or told."""
    places = [line.place for lines in draft.lines.values() for line in lines]
    places += [note.place for note in draft.notes] + [claim.place for claim in draft.claims]
    places += [claim.place for target in draft.targets for claim in target.claims]
    return {place.line for place in places if place}


def add_up(folder: Path, name: str, head: list[str], lines: list[str], tail: list[str]) -> None:
    folder.joinpath(name).write_text("\n".join([*head, *lines, *tail, ""]))
    expected = {
        len(head) + 1 + number for number, line in enumerate(lines) if line.strip(" -") and line.strip()[0] not in "#["
    }
    missing = expected - lines_of(read_draft(folder / name))
    assert not missing, [[*head, *lines][number - 1] for number in sorted(missing)]


SETTINGS = settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])

REQUIREMENTS = st.one_of(
    st.builds("{}{}".format, NAMES, VERSIONS),
    st.builds("{}{}; python_version < '3.{}'".format, NAMES, VERSIONS, st.integers(8, 14)),
    st.builds("{} @ git+https://example.org/{}.git".format, NAMES, NAMES),
    st.sampled_from(
        [
            "# why", "", "--pre", "-f https://h.example.org/x.html", "--extra-index-url https://h.example.org/whl/cu126",
            "-i https://pypi.example/simple", "-e ./none", "./wheels/a-1-py3-none-any.whl", "torch==2.5.1+cu124",
            "not a requirement !", "--no-binary p1", "--extra-index-url https://i.example.org/simple", "-r none.txt",
            "git+https://example.org/a/b.git", "a==", "--hash=sha256:0",
        ]
    ),
)  # fmt: skip


@SETTINGS
@given(st.lists(REQUIREMENTS, max_size=12))
def test_requirements_txt(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "none.txt").write_text("")
    add_up(tmp_path, "requirements.txt", ["six"], lines, [])


CONDA = st.one_of(
    st.builds("  - {}{}".format, NAMES, st.sampled_from(["", "=1.2", ">=1,<3", "==1.2", "=1.2=h0_0"])),
    st.sampled_from(
        [
            "  - python=3.11", "  - cudatoolkit=11.8", "  - cudatoolkit", "  - pytorch-cuda=12.1", "  - cpuonly",
            "  - pytorch::pytorch=2.4", "  - pywin32  # [win]", "  - htop  # [linux]", "  - pip",
            "  - nvidia/label/cuda-12.4.0::cuda",
            "  - numpy[version='>=1']", "  - defaults::blas", "  # why",
        ]
    ),
)  # fmt: skip
CHANNELS = ["conda-forge", "defaults", "pytorch", "nvidia", "nodefaults", "https://c.example.org/x"]


@SETTINGS
@given(
    st.lists(CONDA, max_size=10),
    st.lists(
        REQUIREMENTS.filter(lambda line: line and line[0] != "#" and ":" not in line.replace("://", "")), max_size=4
    ),
    st.lists(st.sampled_from(CHANNELS), max_size=4, unique=True),
)
def test_environment_yml(tmp_path: Path, conda: list[str], pip: list[str], channels: list[str]) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "none.txt").write_text("")
    add_up(
        tmp_path,
        "environment.yml",
        ["dependencies:", "  - zlib"],
        conda,
        ["channels:", *(f"  - {c}" for c in channels or CHANNELS)],
    )
    listed = [f'    - "{line}"' for line in ("idna", *pip)]
    add_up(tmp_path, "environment.yml", ["dependencies:", "  - zlib", "  - pip:"], listed, [])
    head = ["dependencies:", "  - zlib", "  - python", "variables:", "  A: 1", "channels:"]
    add_up(tmp_path, "environment.yml", head, [f"  - {c}" for c in channels or CHANNELS], [])


POETRY = st.one_of(
    st.builds('{} = "{}"'.format, NAMES, st.sampled_from(["*", "^1.2", ">=1", "~2", "^1 || ^2"])),
    st.builds("{} = {}".format, NAMES, st.sampled_from(
        ['{ git = "https://example.org/x.git" }', '{ version = "1", optional = true }', '{ path = "../none" }',
         '{ version = "1", source = "own" }', '{ version = "1", extras = ["a"], markers = "os_name == \'nt\'" }',
         '{ version = "1", allow-prereleases = true }']
    )),
)  # fmt: skip


@SETTINGS
@given(st.lists(POETRY, max_size=10, unique_by=lambda line: line.split()[0]))
def test_poetry(tmp_path: Path, lines: list[str]) -> None:
    add_up(tmp_path, "pyproject.toml", ["[tool.poetry.dependencies]", 'six = "*"'], lines, [])


PEP_508 = REQUIREMENTS.filter(lambda line: line and line[0] not in "#-./" and not line.startswith("git+"))


@SETTINGS
@given(st.lists(PEP_508, max_size=10))
def test_pyproject(tmp_path: Path, lines: list[str]) -> None:
    head = ["[project]", 'name = "own"', 'version = "1"', "dependencies = ["]
    add_up(tmp_path, "pyproject.toml", head, [f'  "{line}",' for line in lines], ["]"])


PIXI = st.one_of(
    st.builds('{} = "{}"'.format, NAMES, st.sampled_from(["*", "1.2", ">=1,<2", "1.2.*"])),
    st.builds("{} = {}".format, NAMES, st.sampled_from(
        ['{ git = "https://example.org/x.git" }', '{ version = "*", build = "x*" }', '{ path = "../none" }',
         '{ version = "1", channel = "bioconda" }']
    )),
    st.just('cuda-version = "12.6.*"'), st.just('python = "3.11.*"'),
)  # fmt: skip


@SETTINGS
@given(st.lists(PIXI, max_size=8, unique_by=lambda line: line.split()[0]), st.booleans())
def test_pixi_toml(tmp_path: Path, lines: list[str], by_platform: bool) -> None:
    head = ["[workspace]", 'channels = ["conda-forge"]', 'platforms = ["linux-64"]', "[dependencies]", 'zlib = "*"']
    head += ["[target.linux-64.dependencies]"] if by_platform else []
    add_up(tmp_path, "pixi.toml", head, lines, [])


STEPS = st.sampled_from(
    [
        "RUN pip install six", "RUN pip install -r r.txt", "RUN apt-get install -y git", "RUN make", "ENV A=1",
        "ARG X", "ARG Y=1", "COPY . /app", "WORKDIR /app", "USER me", "USER root", "CMD x", "STOPSIGNAL 9", "# why", "",
        "RUN conda install -c conda-forge zlib", "FROM python:3.11", "FROM a/b:cu121 AS b", "RUN uv sync",
        "RUN pip install $A", "RUN echo $(x)", "ENV P=$PATH", "ONBUILD RUN x", "EXPOSE 80",
    ]
)  # fmt: skip


@SETTINGS
@given(st.lists(STEPS, max_size=10))
def test_dockerfile(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "r.txt").write_text("idna\n")
    add_up(tmp_path, "Dockerfile", ["FROM x"], lines, [])
