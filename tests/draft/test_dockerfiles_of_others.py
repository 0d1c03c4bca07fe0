"""Dockerfile: values of ARG and ENV, files that COPY put there, tags of known images, projects, users."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from support.drafts import draft, notes, settled
from support.examples import examples

from envspec.cli.main import run
from envspec.draft.dockerfile import _instructions
from envspec.draft.dockerfile_stage import expand
from envspec.spec.parse import load_spec


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("requirements.txt").write_text("tqdm\n")
    Path("docker").mkdir()
    Path("docker/requirements.txt").write_text("idna\n")
    return tmp_path


WHL = "https://h.example.org/whl/"


@pytest.mark.parametrize(
    ("text", "python", "cuda", "pip"),
    [
        ("ARG CUDA=12.4.1\nFROM nvidia/cuda:${CUDA}-devel\nRUN pip3 install torch", None, "12.4", ("torch",)),
        ("ARG P=3.11\nFROM python:$P-slim\nRUN pip install six", "3.11", None, ("six",)),
        ("FROM x\nARG V=2.6.0\nRUN pip install torch==${V} peft", None, None, ("torch==2.6.0", "peft")),
        ("ARG V=2.6.0\nFROM x\nARG V\nRUN pip install torch==$V", None, None, ("torch==2.6.0",)),
        ("ARG V=2.6.0\nFROM x\nRUN pip install torch==${V:-2.5.0} six==${W-1}", None, None, ("torch==2.5.0", "six==1")),
        (f"FROM x\nENV A=1 B=cu126\nENV UV_INDEX_URL={WHL}${{B}}\nRUN pip install six==$A", None, "12.6", ("six==1",)),
        ("FROM x AS a\nENV V=2\nFROM a\nRUN pip install six==$V", None, None, ("six==2",)),
        ("FROM x\nENV UV_TORCH_BACKEND=cu128\nRUN uv pip install torch", None, "12.8", ("torch",)),
        ("FROM x\nRUN uv pip install torch --torch-backend=cu124", None, "12.4", ("torch",)),
        ("FROM nvcr.io/nvidia/pytorch:25.03-py3\nRUN pip install six", "3.12.3", "12.8", ("six",)),
        ("FROM nvcr.io/nvidia/pytorch:24.05-py3\nRUN pip install six", None, None, ("six",)),
        ("FROM mosaicml/pytorch:2.3.1_cu121-python3.11\nRUN pip install six", "3.11", "12.1", ("torch==2.3.1", "six")),
        ("FROM rayproject/ray:2.9.0-py310-cu121\nRUN pip install six", "3.10", "12.1", ("six",)),
        ("FROM lmsysorg/sglang:v0.4.1-cu124\nRUN pip install six", None, "12.4", ("six",)),
        ("FROM python:slim\nRUN pip install six", None, None, ("six",)),
        (f"FROM x\nRUN pip config set global.extra-index-url {WHL}cu118 && pip install six", None, "11.8", ("six",)),
    ],
)  # fmt: skip
def test_values_and_tags(text: str, python: str | None, cuda: str | None, pip: tuple[str, ...]) -> None:
    found = draft("Dockerfile", text)
    minor = settled(found).python
    assert (minor and minor[:4], next(iter(settled(found).cuda), None), found.pip) == (python and python[:4], cuda, pip)
    assert "isn't a specifier" not in notes(found)


@pytest.mark.parametrize(
    ("text", "package"),
    [
        ("COPY requirements.txt /tmp/requirements.txt\nRUN pip install -r /tmp/requirements.txt", "tqdm"),
        ("WORKDIR /app\nCOPY . .\nRUN pip install -r /app/requirements.txt", "tqdm"),
        ("WORKDIR /app\nADD requirements.txt ./\nRUN pip install -r requirements.txt", "tqdm"),
        ("COPY ./docker/requirements.txt ./\nRUN pip install -r requirements.txt", "idna"),
        ('COPY ["docker/requirements.txt", "/r.txt"]\nRUN pip install --requirement=/r.txt', "idna"),
        ("COPY docker/req*.txt /etc/\nWORKDIR /etc\nRUN pip install -r requirements.txt", "idna"),
        ("RUN --mount=type=bind,source=docker/requirements.txt,target=/r.txt pip install -r /r.txt", "idna"),
        ("ENV W=/srv\nWORKDIR $W\nCOPY docker in\nRUN cd in && pip install -r requirements.txt", "idna"),
    ],
)
def test_files_are_found_where_copy_put_them(text: str, package: str) -> None:
    assert draft("Dockerfile", f"FROM python:3.11\n{text}\n").pip == (package,)


def test_a_file_below_is_read_from_the_repositorys_folder(here: Path) -> None:
    Path("docker/Dockerfile").write_text("FROM x\nCOPY requirements.txt /r.txt\nRUN pip install -r /r.txt\n")
    Path("docker/requirements.txt").unlink()
    assert run(["init", "demo", "--from", "docker/Dockerfile"]) == 0
    assert [one.text for one in load_spec("specs/demo.toml").pip.dependencies] == ["tqdm"]


@pytest.mark.parametrize("step", ["uv sync --frozen --extra fast", "poetry install -E fast", "pip install .[fast]"])
def test_a_project_that_a_tool_installs(step: str) -> None:
    text = '[project]\nname = "own"\nversion = "1"\ndependencies = ["six"]\n'
    text += '[project.optional-dependencies]\nfast = ["idna"]\n'
    Path("pyproject.toml").write_text(text)
    for more in ("", "WORKDIR /app\nCOPY pyproject.toml uv.lock ./\n", "COPY . /srv\nWORKDIR /srv\n"):
        found = draft("Dockerfile", f"FROM x\n{more}RUN {step}\n")
        assert found.project == (".", ("fast",)) and found.own == ("six", "idna"), more


def test_ubuntus_names_are_debians_and_the_user_stays() -> None:
    text = "FROM ubuntu:22.04\nRUN apt-get install -y libgl1-mesa-glx software-properties-common git\n"
    text += "USER worker\nENV HF_HOME=/home/worker/hf\nRUN pip install six\n"
    found = draft("Dockerfile", text)
    assert (found.apt, found.user) == (("libgl1", "git"), "worker")
    assert "software-properties-common is left out" in notes(found) and "libgl1-mesa-glx is libgl1" in notes(found)
    assert run(["init", "demo", "--from", "Dockerfile"]) == 0
    assert load_spec("specs/demo.toml").image.user == "worker"


@pytest.mark.parametrize("word", ["ARG", "ENV"])
def test_a_secrets_value_stands_in_no_step(word: str) -> None:
    text = f"FROM x\n{word} MY_TOKEN=hunter22x\nRUN make X=$MY_TOKEN && pip install six git+https://$MY_TOKEN@h/a.git\n"
    assert "hunter22x" not in str(draft("Dockerfile", text))


def test_what_a_condition_installs_is_told() -> None:
    found = draft(
        "Dockerfile", "FROM x\nRUN pip install six; if [ -n 1 ]; then pip install --no-build-isolation mamba_ssm; fi\n"
    )
    assert found.pip == ("six",) and "mamba_ssm is left out: a condition decides whether it runs" in notes(found)


LINES = st.sampled_from(
    [
        "FROM x",
        "RUN pip install six",
        "RUN a \\",
        "  b",
        "",
        "# why",
        "RUN <<EOF",
        "EOF",
        "ENV A=1",
        "COPY a b",
        "RUN a \\ ",
        "  # c \\",
        "ARG X",
    ]
)


@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(LINES, max_size=9).map(lambda lines: "\n".join(["FROM x", *lines, ""])))
@example("FROM x\nRUN <<EOF\nRUN a \\\nEOF\nFROM x\n")
@example("FROM x\nRUN pip install \\\n\n six\n")
def test_instructions_are_buildkits(text: str) -> None:
    """BuildKit's own parser, wherever it reads the text, gives the same instructions on the same lines."""
    dockerfile = pytest.importorskip("dockerfile")
    try:
        theirs = dockerfile.parse_string(text)
    except dockerfile.GoParseError:
        return
    ours = [(number, word) for number, word, _ in _instructions(text)]
    assert ours == [(one.start_line, one.cmd.upper()) for one in theirs]


NAMES = st.sampled_from(["A", "B", "C"])


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(NAMES, st.sampled_from(["1", "$A", "${B}x", "$C$C", "${D:-2}"])), max_size=40))
def test_values_never_grow_without_end(pairs: list[tuple[str, str]]) -> None:
    values: dict[str, str] = {}
    for name, value in pairs:
        values[name] = expand(value, values)
    assert all(len(value) <= 40_000 for value in values.values())
