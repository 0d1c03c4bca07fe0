"""`envspec init`: a spec from nothing, from another tool's file or a repository; what contradicts is told."""

from __future__ import annotations

import io
import subprocess
from datetime import datetime, timezone
from pathlib import Path

import pytest
from cli_project import Envspec
from hypothesis import given, strategies as st
from support.documents import valid
from support.drafts import draft, notes

from envspec.app.init import options_of
from envspec.draft.claims import settle
from envspec.draft.repository import read_draft, read_repository
from envspec.packages.requirement import is_satisfiable
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


@pytest.mark.slow
@pytest.mark.parametrize("gpu", ["GB200", "DGX Spark", "Jetson T5000"])
def test_a_gpu_beside_an_arm_cpu_decides_the_platform(envspec: Envspec, gpu: str) -> None:
    assert envspec("init", "demo", "--gpu", gpu).code == 0
    assert load_spec("specs/demo.toml").targets[0].platform == "linux-aarch64"
    ran = envspec("init", "other", "--gpu", gpu, "--platform", "linux-64")
    assert ran.code == 1 and "an Arm CPU" in ran.err and not Path("specs/other.toml").exists()


@pytest.mark.parametrize(
    ("line", "words", "cuda"),
    [
        # cu126 has rows up to torch 2.14.1, and files up to 2.12.1; cu129 files of 2.13.0
        ("torch", ("--gpu", "A100", "--driver", "550.54.15"), "12.9"),
        # of files that don't name torch, the day has one for 11.8
        ("peft==0.4.0", ("--gpu", "H100", "--as-of", "2023-07-25"), "11.8"),
        ("accelerate==0.20.2", ("--gpu", "A100", "--as-of", "2023-11-15"), "12.1"),
    ],
)
def test_init_takes_the_cuda_of_the_newest_that_can_be_locked(
    envspec: Envspec, line: str, words: tuple[str, ...], cuda: str
) -> None:
    Path("requirements.txt").write_text(f"{line}\n", encoding="utf-8")
    ran = envspec("init", "demo", "--from", "requirements.txt", *words)
    assert ran.code == 0, ran.err
    assert load_spec("specs/demo.toml").targets[0].cuda == cuda


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


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


def asked(path: str = "specs/demo.toml") -> list[str]:
    return [one.text for one in load_spec(path).pip.dependencies]


def test_several_files_are_joined_and_each_says_what_it_gave(envspec: Envspec) -> None:
    write({"requirements/torch.txt": "torch==2.1.0\n", "requirements/runtime.txt": "einops\ntorch>=2\n"})
    ran = envspec("init", "demo", "--from", "requirements/torch.txt", "--from", "requirements/runtime.txt")
    assert ran.code == 0 and asked() == ["torch==2.1.0,>=2", "einops"]
    assert "from requirements/torch.txt: 1 requirement (torch)\n" in ran.err


def test_a_repository_is_gathered_whole(envspec: Envspec) -> None:
    write(
        {
            "setup.py": "from setuptools import setup\nREQ = ['einops>=0.6']\nsetup(install_requires=REQ)\n",
            "setup.cfg": "[options]\npython_requires = >=3.9\ninstall_requires =\n    tqdm\n",
            "requirements.txt": "torch==2.1.2\n",
            "constraints.txt": "scipy<2\n",
            "requirements-dev.txt": "pytest\n",
            "docs/requirements.txt": "sphinx\n",
            ".python-version": "3.10.4\n",
            "README.md": "Install:\n\n    $ pip install flash-attn --no-build-isolation  # fast\n"
            "    $ conda create -n env --file conda.txt\n"
            "  - `pip install ninja`\n",
            ".venv/requirements.txt": "hidden\n",
        }
    )
    ran = envspec("init", "demo", "--from", ".", "--json")
    files = {one["file"]: one["aside"] for one in valid(ran.out, "init")["sources"]}
    assert [one for one, aside in files.items() if aside is None] == [
        "setup.py", "setup.cfg", "requirements.txt", ".python-version",
    ]  # fmt: skip
    assert files["README.md"] and files["requirements-dev.txt"] and files["docs/requirements.txt"]
    assert asked() == ["einops>=0.6", "tqdm", "torch==2.1.2"] and load_spec("specs/demo.toml").python == "3.10"
    for offered in ("(flash-attn, ninja) (--from README.md)", "(pytest) (--from requirements-dev.txt)", "(sphinx)"):
        assert offered in ran.err and offered in Path("specs/demo.toml").read_text()
    assert envspec("init", "all", "--from", ".", "--from", "README.md").code == 0
    assert "flash-attn" in asked("specs/all.toml") and not load_spec("specs/all.toml").conda.dependencies


def test_members_of_a_workspace_are_taken_once(envspec: Envspec) -> None:
    write({"pyproject.toml": "[tool.uv.workspace]\nmembers = ['packages/*']\n"})
    for name, requires in (("core", "['torch==2.1.2']"), ("train", "['core', 'einops']")):
        project = f"[project]\nname = '{name}'\nversion = '1'\ndependencies = {requires}\n"
        write({f"packages/{name}/pyproject.toml": project})
    ran = envspec("init", "demo", "--from", ".")
    assert ran.code == 0 and sorted(asked()) == ["einops", "torch==2.1.2"] and "taken" not in ran.err, ran.err


def test_many_files_that_are_only_offered_are_one_line(envspec: Envspec) -> None:
    parts = {f"docs/{name}/requirements.txt": f"{name}\n" for name in ("sphinx", "furo", "myst-parser", "numpydoc")}
    write({"requirements.txt": "torch==2.1.2\n", **parts})
    ran = envspec("init", "demo", "--from", ".")
    (line,) = (line for line in ran.err.splitlines() if "taken" in line)
    assert line == "warning: 4 more files aren't taken: the head of specs/demo.toml lists them, each with its --from"
    text = Path("specs/demo.toml").read_text()
    assert all(f"(--from {name})" in text for name in parts)


def test_a_repository_that_asks_for_nothing_is_begun_by_a_part(envspec: Envspec) -> None:
    write({"one/requirements.txt": "einops\n", "b c/sub/setup.py": "setup()\n", "docs/requirements.txt": "sphinx\n"})
    write({"b c/requirements.txt": "tqdm\n"})
    ran = envspec("init", "demo", "--from", ".")
    assert ran.code == 2 and "hint: begin with a part of it: --from 'b c', or --from one\n" in ran.err
    for words in (["--from", "one"], ["--from", ".", "--from", "one"]):
        assert envspec("init", "demo", *words, "--force").code == 0 and asked() == ["einops"]
    write({"One/b/requirements.txt": "tqdm\n", "One/one/requirements.txt": "tqdm\n"})
    assert "begin with a part of it: --from One/one, or --from One/b\n" in envspec("init", "x", "--from", "One").err


def test_a_repository_of_prose_is_told_what_its_sources_import(envspec: Envspec) -> None:
    write({"README.md": "It needs PyTorch.\n", "run.py": "import einops\n"})
    ran = envspec("init", "demo", "--from", ".")
    assert ran.code == 2 and "einops (1 file)" in ran.err
    assert "hint: a blank spec: `envspec init demo`, then `envspec add`" in ran.err


TORCHES = {"a.txt": "torch==2.1.0\n", "b.txt": "torch==2.0.1\n"}
ADDRESSES = {"a.txt": "acme @ git+https://h/a\n", "b.txt": "acme @ git+https://h/b\n"}
NEWER = '[project]\nname = "a"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["einops"]\n'


@pytest.mark.parametrize(
    ("files", "said", "option"),
    [
        (TORCHES, "torch (torch==2.1.0 in a.txt:1, torch==2.0.1 in b.txt:1)", "--prefer b.txt"),
        (ADDRESSES, "acme (acme @ git+https://h/a in a.txt:1, ", "--prefer a.txt"),
        (
            {".python-version": "3.10", "pyproject.toml": NEWER},
            "Python (3.10 in .python-version:1, >=3.11 in pyproject.toml:4)",
            "--python 3.10",
        ),
        ({"Dockerfile": "FROM nvidia/cuda:12.4.1-base\n", "b.txt": "torch==2.1.0+cu118\n"}, "CUDA", "--cuda 11.8"),
    ],
)
def test_a_contradiction_is_told_with_what_decides_it(
    envspec: Envspec, files: dict[str, str], said: str, option: str
) -> None:
    write(files)
    words = [word for name in files for word in ("--from", name)]
    ran = envspec("init", "demo", *words)
    assert ran.code == 2 and said in ran.err and option in ran.err and not Path("specs").exists()
    assert envspec("init", "demo", *words, *option.split()).code == 0


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("requirements.txt", "numpy==1.26.3\nsix\nnumpy==1.26.4\n", "numpy==1.26.3 in {}:1, numpy==1.26.4 in {}:3"),
        (
            "environment.yml",
            "dependencies:\n  - imagecodecs=2022.9.26\n  - pip:\n    - imagecodecs==2023.1.23\n",
            "imagecodecs==2023.1.23 in {}:4, imagecodecs 2022.9.26.* in {}:2",
        ),
    ],
)
def test_a_file_that_contradicts_itself_is_told_with_its_lines(
    envspec: Envspec, name: str, text: str, said: str
) -> None:
    write({name: text})
    ran = envspec("init", "demo", "--from", name)
    assert ran.code == 2 and f"{name} contradicts itself: " in ran.err and said.format(name, name) in ran.err
    assert f"hint: correct one of these lines in {name}" in ran.err and "--prefer" not in ran.err


def test_the_preferred_file_counts_and_the_other_is_told(envspec: Envspec) -> None:
    write({"a.txt": "torch==2.1.0\neinops\n", "b.txt": "torch==2.0.1\ntqdm\n"})
    assert envspec("init", "demo", "--from", "a.txt", "--from", "b.txt", "--prefer", "b.txt").code == 0
    assert asked() == ["einops", "torch==2.0.1", "tqdm"]
    assert "torch==2.1.0 of a.txt is left out: b.txt has torch==2.0.1" in Path("specs/demo.toml").read_text()
    assert envspec("init", "two", "--from", "a.txt", "--prefer", "b.txt").code == 2


def test_a_file_that_contradicts_the_preferred_in_much_is_another_environment(envspec: Envspec) -> None:
    """Two exports of two environments: the pins that only the other has need its versions of the rest."""
    write({"requirements.txt": "".join(f"acme-{one}==1\n" for one in range(9)) + "einops\n"})
    pins = "".join(f"      - acme-{one}==2\n" for one in range(9))
    yml = f"dependencies:\n  - python=3.10\n  - pip:\n      - needs-acme==2\n{pins}"
    write({"environment.yml": yml})
    ran = envspec("init", "demo", "--from", ".", "--prefer", "requirements.txt")
    assert ran.code == 0 and "needs-acme==2" not in asked() and load_spec("specs/demo.toml").python == "3.10"
    assert "the packages of environment.yml are left out: it contradicts requirements.txt in 9 packages" in ran.err


def test_a_file_with_another_torch_and_what_stands_beside_it_is_another_environment(envspec: Envspec) -> None:
    """haotian-liu/LLaVA's cog.yaml is of another year: its deepspeed, which only it has, fits no package of today's."""
    new, old = (
        "".join(f"{name}=={number}\n" for name in ("torch", "torchvision", "transformers", "gradio"))
        for number in ("2.1.2", "2.0.1")
    )
    write({"requirements.txt": new, "requirements-cog.txt": f"{old}deepspeed==0.9.5\n"})
    words = ("--from", "requirements.txt", "--from", "requirements-cog.txt", "--prefer", "requirements.txt")
    ran = envspec("init", "demo", *words)
    assert ran.code == 0 and "deepspeed==0.9.5" not in asked() and "in 4 packages" in ran.err


def test_what_a_readme_installs_of_the_repository_itself_is_no_requirement(envspec: Envspec) -> None:
    """As facebookresearch/segment-anything's, whose README installs it from its own address."""
    setup = "from setuptools import setup\nsetup(name='segment_anything', install_requires=[])\n"
    write(
        {
            "setup.py": setup,
            "README.md": "```\npip install git+https://h/o/segment-anything.git\npip install einops\n```\n",
        }
    )
    assert envspec("init", "demo", "--from", ".", "--from", "README.md").code == 0
    assert asked() == ["einops"]


def test_a_project_that_the_preferred_file_contradicts_is_listed(envspec: Envspec) -> None:
    project = '[project]\nname = "mine"\nversion = "1"\ndependencies = ["torch==2.1.0", "tqdm"]\n'
    write({"pyproject.toml": project, "requirements.txt": "torch==2.0.1\n"})
    assert envspec("init", "demo", "--from", ".", "--prefer", "requirements.txt").code == 0
    assert asked() == ["tqdm", "torch==2.0.1"] and load_spec("specs/demo.toml").project is None


def test_setup_py_that_reads_its_lists_by_code() -> None:
    write({"requirements/runtime.txt": "einops\n"})
    found = draft(
        "setup.py",
        "import os\nfrom setuptools import setup\n"
        "def lists():\n    os._exit(7)\n    return open('requirements/runtime.txt')\n"
        "setup(install_requires=lists(), extras_require={'eval': ['nltk']}, python_requires='>=3.9')\n",
    )
    assert (found.pip, settle(found.claims).requires, found.available) == (
        ("einops",),
        ">=3.9",
        {"extra eval": ("nltk",)},
    )
    assert "setup.py:6: install_requires is put together by code" in notes(found)


def test_setup_py_whose_list_names_its_file() -> None:
    write({"requirements.txt": "einops\n", "requirements-test.txt": "pytest\n", "requirements-jax.txt": "jax\n"})
    found = draft(
        "setup.py",
        "setup(install_requires=lines('requirements.txt'), tests_require=lines('requirements-test.txt'),\n"
        "      extras_require={'jax': lines('requirements-jax.txt')})\n",
    )
    assert found.pip == ("einops",) and "setup.py:2: extras_require is put together by code" in notes(found)


def test_a_project_with_dynamic_lists() -> None:
    write({"requirements.txt": "einops\n"})
    text = '[project]\nname = "a"\ndynamic = ["dependencies"]\n[tool.setuptools.dynamic]\n'
    found = draft("pyproject.toml", text + 'dependencies = { file = ["requirements.txt"] }\n')
    assert (found.pip, found.project) == (("einops",), None)


def test_a_project_that_uv_builds_for_no_one_is_listed() -> None:
    """PEP 685 makes one name of two extras; uv takes no such pyproject.toml, whatever the backend says."""
    text = '[project]\nname = "a"\nversion = "1"\ndependencies = ["einops"]\n[project.optional-dependencies]\n'
    found = draft("pyproject.toml", f'{text}toy-text = ["pygame"]\n')
    assert (found.own, found.project) == (("einops",), (".", ()))
    found = draft("pyproject.toml", f'{text}toy-text = ["pygame"]\ntoy_text = ["pygame"]\n')
    assert (found.own, found.project) == (("einops",), None)
    assert "more than one extra is called toy-text" in notes(found)


def test_a_conda_export_named_requirements_txt() -> None:
    text = "# This file may be used to create an environment using:\n# platform: linux-64\n"
    found = draft("requirements.txt", text + "python=3.9.16=h7a1cb2a_0\nnumpy=1.24.3=py39\neinops=0.6.1=pypi_0\n")
    assert (settle(found.claims).python, found.conda, found.pip) == ("3.9.16", ("numpy ==1.24.3",), ("einops==0.6.1",))


def test_a_source_of_an_extra_is_told() -> None:
    text = '[project]\nname = "a"\ndependencies = ["torch"]\n'
    text += '[tool.uv.sources]\ntorch = [{ git = "https://example.org/torch", extra = "own" }]\n'
    found = draft("pyproject.toml", text)
    assert "torch: its source is left out, since it holds for the extra own alone" in notes(found)


def test_no_infeasible_target_is_written(envspec: Envspec) -> None:
    write({"requirements.txt": "torch==2.1.2\n"})
    words = ["init", "demo", "--from", "requirements.txt", "--gpu", "H100", "--driver", "550.54.15"]
    ran = envspec(*words, "--python", "3.12")
    assert ran.code == 1 and "Python 3.12: it has 3.8 to 3.11" in ran.err and not Path("specs").exists()
    assert envspec(*words).code == 0
    spec = load_spec("specs/demo.toml")
    assert (spec.python, spec.targets[0].cuda) == ("3.11", "12.1")
    assert 'python = "3.11"  # torch 2.1.2+cu121 has no wheel for Python 3.12' in Path(spec.path).read_text()
    assert "# torch 2.1.2 has its build on PyPI for it and driver 550.54.15 runs" in Path(spec.path).read_text()
    assert envspec("doctor", spec.path, "--gpu", "H100", "--driver", "550.54.15").code == 0


@pytest.mark.slow
def test_a_gpu_that_no_asked_torch_is_built_for_is_told_by_the_gpu(envspec: Envspec) -> None:
    """And not by a CUDA that nobody asked for."""
    write({"requirements.txt": "torch==2.1.2\n"})
    ran = envspec("init", "demo", "--from", "requirements.txt", "--gpu", "B200")
    assert ran.code == 1 and "doesn't support B200 (sm_100); CUDA 12.8 is the first that does" in ran.err
    assert "Nearest: torch 2.7.0 with CUDA 12.8" in ran.err


def test_a_base_images_glibc_is_told_and_written_where_it_is_asked_for(envspec: Envspec) -> None:
    """And not by itself: a target with a newer glibc than its machines' isn't installed there."""
    write({"Dockerfile": "FROM nvidia/cuda:12.6.0-devel-ubuntu22.04\nRUN pip install einops\n"})
    ran = envspec("init", "demo", "--from", ".")
    assert "it has glibc 2.35, and the target says 2.28 without --glibc 2.35" in ran.err
    assert load_spec("specs/demo.toml").targets[0].glibc == "2.28"
    assert envspec("init", "two", "--from", ".", "--glibc", "2.35").code == 0
    assert load_spec("specs/two.toml").targets[0].glibc == "2.35"
    ran = envspec("init", "three", "--glibc", "2")
    assert ran.code == 2 and "--glibc" in ran.err


def test_a_pinned_triton_chooses_as_the_torch_that_it_is_made_for(envspec: Envspec) -> None:
    """As hustvl/Vim pins triton, and leaves torch to timm: 3.12 has no wheel of it, nor a newer CUDA a torch for it."""
    write({"requirements.txt": "timm==0.4.12\ntriton==2.1.0\n"})
    assert envspec("init", "demo", "--from", ".", "--gpu", "RTX 4090", "--driver", "550.163.01").code == 0
    spec = load_spec("specs/demo.toml")
    assert (spec.python, spec.targets[0].cuda) == ("3.11", "12.1") and asked() == ["timm==0.4.12", "triton==2.1.0"]
    assert "# triton 2.1.0 is made for torch 2.1.0 to 2.1.2: torch 2.1" in Path("specs/demo.toml").read_text()
    write({"requirements.txt": "triton>=2.1\n"})
    assert envspec("init", "free", "--from", ".").code == 0 and load_spec("specs/free.toml").python == "3.12"


def test_imports_without_a_requirement_are_told_and_not_added(envspec: Envspec) -> None:
    write(
        {
            "requirements.txt": "einops\n",
            "requirements-eval.txt": "nltk\ntorch\n",
            "pyproject.toml": '[project]\nname = "a"\n[project.optional-dependencies]\neval = ["nltk"]\n',
            "train.py": "import torch, einops, nltk, unheard\n",
            "more.py": "import torch\n",
        }
    )
    assert envspec("init", "demo", "--from", ".", "--gpu", "H100").code == 0
    text = Path("specs/demo.toml").read_text()
    assert "torch is imported by 2 files (more.py) and the spec doesn't ask for it" in text
    assert "; torch is declared in requirements-eval.txt" in text
    assert "nltk is declared in the extra eval of pyproject.toml, requirements-eval.txt" in text
    assert "imported, and declared nowhere: unheard (1 file)" in text and asked() == ["einops"]


@pytest.mark.parametrize(
    ("day", "python"), [("2024-02-15", "3.11"), ("2021-06-01", "3.8"), ("2022-01-01", "3.9"), ("2025-01-01", "3.12")]
)
def test_a_day_brings_the_python_that_had_been_out_for_a_year(envspec: Envspec, day: str, python: str) -> None:
    write({"requirements.txt": "einops\n"})
    assert envspec("init", "demo", "--from", "requirements.txt", "--as-of", day).code == 0
    spec = load_spec("specs/demo.toml")
    assert (spec.exclude_newer, spec.python) == (f"{day}T00:00:00Z", python)


@pytest.mark.parametrize(("day", "cuda"), [("2024-02-15", "12.1"), ("2025-05-01", "12.6"), ("2023-06-01", "11.7")])
def test_a_day_brings_the_cuda_that_the_newest_torch_of_then_has(envspec: Envspec, day: str, cuda: str) -> None:
    write({"requirements.txt": "torch\n"})
    assert envspec("init", "demo", "--from", "requirements.txt", "--as-of", day, "--gpu", "A100").code == 0
    assert [one.cuda for one in load_spec("specs/demo.toml").targets] == [cuda]


def test_a_day_by_a_revision(envspec: Envspec, monkeypatch: pytest.MonkeyPatch) -> None:
    write({"requirements.txt": "einops\n"})
    for word in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{word}_NAME", "a")
        monkeypatch.setenv(f"GIT_{word}_EMAIL", "a@example.org")
        monkeypatch.setenv(f"GIT_{word}_DATE", "2023-05-12T00:08:41+08:00")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run(["git", *words], check=True)
    assert envspec("init", "demo", "--from", ".", "--as-of", "HEAD").code == 0
    spec = load_spec("specs/demo.toml")
    assert (spec.exclude_newer, spec.python) == ("2023-05-11T16:08:41Z", "3.10")
    assert envspec("init", "two", "--from", ".", "--as-of", "no-such").code in (2, 3)
    # who doesn't ask for the day is told of it, while the repository isn't alive
    old = "the last commit is of 2023-05-11: --as-of HEAD leaves out what was released after it"
    ran = envspec("init", "three", "--from", ".")
    assert ran.code == 0 and f"warning: {old}" in ran.err and f"# - {old}" in Path("specs/three.toml").read_text()
    write({"more.txt": "tqdm\n"})
    monkeypatch.setenv("GIT_COMMITTER_DATE", datetime.now(timezone.utc).isoformat())
    for words in (["add", "."], ["commit", "-qm", "y"]):
        subprocess.run(["git", *words], check=True)
    assert "the last commit" not in envspec("init", "four", "--from", ".").err


def test_files_outside_the_folder_are_not_read(tmp_path: Path) -> None:
    write({"secret.txt": "secret\n", "repo/requirements.txt": "-r ../secret.txt\neinops\n"})
    (source,) = read_repository(Path("repo"))
    assert source.draft.pip == ("einops",) and "lies outside" in notes(source.draft)
    assert read_draft(Path("secret.txt")).pip == ("secret",)


_CLAUSE = st.tuples(
    st.sampled_from(["==", ">=", "<", "<=", ">", "!="]), st.sampled_from(["1.0", "1.5", "2.0", "2.1.3"])
)


@pytest.mark.slow
@given(st.lists(_CLAUSE, max_size=4), st.sampled_from(["0.9", "1.0", "1.2", "1.5", "2.0", "2.0.1", "2.1.3", "3"]))
def test_what_a_version_satisfies_is_no_contradiction(clauses: list[tuple[str, str]], version: str) -> None:
    from packaging.specifiers import SpecifierSet

    text = ",".join(map("".join, clauses))
    assert is_satisfiable(text) or not SpecifierSet(text).contains(version)
