"""`envspec init`: a spec that parses, from nothing or from another tool's file; nothing is overwritten unasked."""

import io
from pathlib import Path

import pytest
from cli_project import Envspec
from support.documents import valid

from envspec.app.init import options_of
from envspec.prove.doctor.feasibility import Hardware
from envspec.spec.parse import load_spec

pytest_plugins = ["cli_fixtures"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_editors_find_the_schema(envspec: Envspec, here: Path) -> None:
    schema = here / "specs" / "spec.schema.json"
    ran = envspec("init", "demo")
    assert "note: editors complete and check the spec by specs/spec.schema.json\n" in ran.err
    assert Path("specs/demo.toml").read_text("utf-8").splitlines()[0] == "#:schema ./spec.schema.json"
    assert schema.read_text("utf-8") == envspec("schema").out
    # one that is there is somebody's
    schema.write_text("{}", "utf-8")
    assert "editors" not in envspec("init", "second").err
    assert schema.read_text("utf-8") == "{}"


def test_a_blank_spec_for_cpus(envspec: Envspec, here: Path) -> None:
    ran = envspec("init", "demo")
    assert (ran.code, ran.out) == (0, "wrote specs/demo.toml: cpu\n")
    assert "hint: `envspec lock specs/demo.toml`" in ran.err
    spec = load_spec("specs/demo.toml")
    assert (spec.name, spec.python, [target.cuda for target in spec.targets]) == ("demo", "3.12", [None])
    assert sorted(path.name for path in (here / "specs").iterdir()) == ["demo.toml", "spec.schema.json"]


@pytest.mark.parametrize(
    ("words", "name", "cuda"),
    [
        (["--gpu", "H100", "--cuda", "12.8"], "cu128-hopper", "12.8"),
        (["--gpu", "V100", "--driver", "470.57"], "cu118-volta", "11.8"),
        (["--cuda", "12.6", "--platform", "linux-aarch64"], "cu126", "12.6"),
        (["--cuda", "cpu", "--gpu", "H100"], "cpu", None),
    ],
)
def test_the_machines_make_the_target(envspec: Envspec, words: list[str], name: str, cuda: str | None) -> None:
    assert envspec("init", "demo", *words).code == 0
    (target,) = load_spec("specs/demo.toml").targets
    assert (target.name, target.cuda) == (name, cuda)


def test_a_cuda_is_chosen_that_the_gpu_and_its_driver_run(envspec: Envspec) -> None:
    """Neither a guess nor the newest: what the rules find feasible for the torch that is asked for."""
    Path("requirements.txt").write_text("torch==2.6.0\n", encoding="utf-8")
    assert envspec("init", "demo", "--from", "requirements.txt", "--gpu", "A100", "--driver", "535.104").code == 0
    assert load_spec("specs/demo.toml").targets[0].cuda == "12.4"
    assert envspec("doctor", "specs/demo.toml", "--gpu", "A100", "--driver", "535.104").code == 0


def test_what_cant_work_is_told_and_not_written(envspec: Envspec) -> None:
    ran = envspec("init", "demo", "--gpu", "B200", "--cuda", "11.8")
    assert ran.code == 1 and "B200" in ran.err and "hint: Nearest: CUDA 12.8" in ran.err
    assert not Path("specs").exists()


@pytest.mark.parametrize(
    ("hardware", "words"),
    [
        (Hardware(), ""),
        (Hardware(driver="550.54.15"), ""),
        (Hardware(gpus=("H100", "RTX 5090"), driver="580.65"), "--gpu H100 --gpu 'RTX 5090' --driver 580.65"),
    ],
)
def test_what_a_machine_has_as_options(hardware: Hardware, words: str) -> None:
    assert options_of(hardware) == words


def test_environments_of_a_file_that_cant_work_are_left_out(envspec: Envspec) -> None:
    text = (
        '[workspace]\nname = "a"\nchannels = ["conda-forge"]\nplatforms = ["linux-64"]\n[dependencies]\nnumpy = "*"\n'
    )
    text += '[feature.old.system-requirements]\ncuda = "11.8"\n[feature.old.pypi-dependencies]\ntorch = ">=2.9"\n'
    Path("pixi.toml").write_text(text + '[environments]\nold = ["old"]\ndefault = []\n', encoding="utf-8")
    ran = envspec("init", "demo", "--from", "pixi.toml")
    assert ran.code == 0 and "the environment old is left out: torch>=2.9 has no CUDA 11.8 build" in ran.err
    assert [one.name for one in load_spec("specs/demo.toml").targets] == ["default"]


def test_an_existing_file_stays(envspec: Envspec) -> None:
    assert envspec("init", "demo").code == 0
    before = Path("specs/demo.toml").read_text()
    ran = envspec("init", "demo", "--cuda", "12.8")
    assert ran.code == 2 and "error: specs/demo.toml: it exists already" in ran.err
    assert Path("specs/demo.toml").read_text() == before
    assert envspec("init", "demo", "--cuda", "12.8", "--force").code == 0
    assert load_spec("specs/demo.toml").targets[0].cuda == "12.8"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["Demo"], "hint: for example: demo"),
        (["specs/demo.toml"], "hint: for example: demo"),
        (["demo", "--gpu", "H1000"], "unknown GPU"),
        (["demo", "--cuda", "cu128"], "hint: write '12.8'"),
        (["demo", "--python", "3.12.x"], "error: --python: "),
        (["demo", "--platform", "linux"], "hint: conda's name for it is 'linux-64'"),
        (["demo", "--driver", "new"], "error: --driver: "),
        (["demo", "--from", "none.txt"], "error: none.txt: there is no such file"),
        (["demo", "--from", "empty.txt"], "error: empty.txt: it asks for no package"),
    ],
)
def test_wrong_calls_write_nothing(envspec: Envspec, words: list[str], said: str) -> None:
    Path("empty.txt").write_text("# nothing\n", encoding="utf-8")
    ran = envspec("init", *words)
    assert ran.code == 2 and said in ran.err
    assert not Path("specs").exists()


def test_what_isnt_carried_over_is_a_comment_and_a_line(envspec: Envspec) -> None:
    Path("requirements.txt").write_text("einops\n--pre\n", encoding="utf-8")
    ran = envspec("init", "demo", "--from", "requirements.txt", "--json")
    document = valid(ran.out, "init")
    (note,) = document["notes"]
    assert (note["file"], note["line"]) == ("requirements.txt", 2)
    assert f"# - requirements.txt:2: {note['text']}" in Path("specs/demo.toml").read_text()
    assert f"warning: requirements.txt:2: {note['text']}" in ran.err


def test_a_project_is_named_where_it_can_be(envspec: Envspec) -> None:
    Path("pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\nrequires-python = "<3.12"\ndependencies = ["acme>=1"]\n'
    )
    assert envspec("init", "demo", "--from", "pyproject.toml").code == 0
    spec = load_spec("specs/demo.toml")
    assert spec.project is not None and (spec.project.name, spec.python) == ("mine", "3.11")
    ran = envspec("init", "demo", "--from", "pyproject.toml", "-o", "elsewhere/demo.toml")
    assert ran.code == 0 and "the spec doesn't name the project" in ran.err
    assert [one.text for one in load_spec("elsewhere/demo.toml").pip.dependencies] == ["acme>=1"]


@pytest.mark.parametrize("command", ["lock", "check", "doctor", "report"])
@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("environment.yml", "dependencies:\n  - numpy\n", "this is an environment.yml, not a spec"),
        ("requirements.txt", "numpy\n", "this is a requirements.txt, not a spec"),
        ("pyproject.toml", '[project]\nname = "a"\n', "this is a pyproject.toml, not a spec"),
        ("pixi.toml", '[workspace]\nname = "a"\n', "this is a pixi.toml, not a spec"),
        ("cog.yaml", "build: {}\n", "this is a cog.yaml, not a spec"),
        ("Dockerfile", "FROM debian\n", "this is a Dockerfile, not a spec"),
    ],
)
def test_another_tools_file_in_a_specs_place(envspec: Envspec, command: str, name: str, text: str, said: str) -> None:
    Path(name).write_text(text, encoding="utf-8")
    more = ["-o", "x.html"] if command == "report" else []
    ran = envspec(command, name, *more)
    assert ran.code == 2 and said in ran.err and f"--from {name}`" in ran.err


def test_a_folder_without_a_spec_says_what_it_could_begin_with(envspec: Envspec) -> None:
    Path("requirements.txt").write_text("numpy\n", encoding="utf-8")
    assert "hint: begin one: envspec init NAME --from requirements.txt" in envspec("lock").err


@pytest.mark.parametrize(
    ("hardware", "answers", "target"),
    [
        (Hardware(), ["A100, H1000", "A100, H100", "new", "550.54.15"], (("A100", "H100"), "550.54.15")),
        (Hardware(), ["A100", ""], (("A100",), None)),
        (Hardware(), [""], ((), None)),
        (Hardware(gpus=("H100",), driver="570.26"), [""], (("H100",), "570.26")),
        (Hardware(gpus=("H100",), driver="570.26"), ["n", "V100", ""], (("V100",), None)),
    ],
    ids=["again", "driver not known", "for CPUs", "this machine's", "others than this machine's"],
)
def test_a_terminal_is_asked(
    envspec: Envspec,
    monkeypatch: pytest.MonkeyPatch,
    hardware: Hardware,
    answers: list[str],
    target: tuple[tuple[str, ...], str | None],
) -> None:
    monkeypatch.setattr("envspec.cli.console.has_terminal", lambda: True)
    monkeypatch.setattr("envspec.app.init.hardware_of", lambda machine: hardware)
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))
    ran = envspec("init", "demo")
    assert ran.code == 0, ran.err
    (made,) = load_spec("specs/demo.toml").targets
    assert (tuple(made.gpus), made.driver) == target and bool(made.cuda) == bool(target[0])
    assert (hardware.gpus == ()) == ("this machine has" not in ran.out + ran.err)


def test_who_says_it_isnt_asked(envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envspec.cli.console.has_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert envspec("init", "a", "--gpu", "H100").code == envspec("init", "b", "--cuda", "cpu").code == 0
    Path("requirements.txt").write_text("torch==2.8.0+cu128\n")
    assert envspec("init", "c", "--from", "requirements.txt").code == 0
    assert envspec("init", "d").code == 130 and not Path("specs/d.toml").exists()
