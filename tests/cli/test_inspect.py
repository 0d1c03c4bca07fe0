"""`envspec inspect`: what it prints, and when it says no."""

import json
import struct
import zipfile
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result
from support.documents import valid
from support.golden import golden

from envspec.app.observer import observe
from envspec.base.errors import AnswerNo, InputError
from envspec.cli.console import begin_output
from envspec.cli.inspect import command
from envspec.cli.progress import Terminal


def fatbin(*codes: tuple[int, int, int]) -> bytes:
    """A fat binary of (kind, architecture, flags)."""
    body = b"".join(
        struct.pack("<HHIQ12xI8xQ16x", kind, 0x101, 64, 8, number, 0x11 | flags) + bytes(8)
        for kind, number, flags in codes
    )
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


GOLDEN = Path(__file__).parent / "golden"
PTX, SASS, SPECIFIC = 1, 2, 0x100000
COMMON = fatbin((SASS, 80, 0), (SASS, 90, 0), (PTX, 90, 0))
SPECIAL = fatbin((SASS, 80, 0), (SASS, 90, SPECIFIC))
ELF = b"\x7fELF\x02\x01" + bytes(58)


def wheel(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**members, "demo-1.0.dist-info/WHEEL": b""}.items():
            archive.writestr(name, data)
    return path


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    members = {
        "demo/_C.so": ELF + COMMON * 19 + SPECIAL,
        "demo/old.so": ELF + fatbin((SASS, 70, 0)) + bytes(2 << 20),
        "demo/host.so": ELF,
    }
    return wheel(tmp_path / "demo-1.0-cp312-cp312-linux_x86_64.whl", members)


def run(*arguments: str | Path) -> Result:
    begin_output()
    observe(Terminal())
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_text(demo: Path) -> None:
    result = run(demo, "--gpu", "sm_90", "--gpu", "7.0")
    assert golden(GOLDEN / "inspect.txt", result.stdout) == result.stdout
    assert result.stderr == ""
    assert isinstance(result.exception, AnswerNo)
    assert result.exception.message == (
        "no code for sm_90 (9.0) in demo/old.so; no code for compute capability 7.0 in demo/_C.so"
    )


def test_yes(demo: Path) -> None:
    assert run(demo).exit_code == 0
    result = run(wheel(demo.with_name("new.whl"), {"demo/_C.so": ELF + COMMON * 2 + SPECIAL}), "--gpu", "12.0")
    assert result.exit_code == 0
    assert "compute capability 12.0: runs after the driver compiled its PTX (2 of 3 modules)" in result.stdout


def test_products_and_architectures(demo: Path) -> None:
    result = run(demo, "--gpu", "H100", "--gpu", "ampere")
    verdicts = [line.strip() for line in result.stdout.split("\n\n")[1].splitlines()[4:]]
    assert verdicts == ["H100 (9.0): runs", "ampere (8.0): runs", "ampere (8.6): runs"]


def test_json_keeps_to_its_schema(demo: Path) -> None:
    result = run(demo, "--json", "--gpu", "H100")
    report = valid(result.stdout, "inspect")
    assert isinstance(result.exception, AnswerNo)
    assert (report["schema"], report["kind"], report["binaries"]) == ("envspec/inspect/1", "wheel", 3)
    told = result.stdout.replace(str(demo), "WHEEL")
    assert golden(GOLDEN / "inspect.json", told) == told
    del report["libraries"][0]["sass"]
    with pytest.raises(jsonschema.ValidationError):
        valid(json.dumps(report), "inspect")


def test_no_cuda(tmp_path: Path) -> None:
    (tmp_path / "host.so").write_bytes(ELF)
    result = run(tmp_path, "--gpu", "H100")
    assert (result.exit_code, result.stdout) == (0, f"{tmp_path.name}: no CUDA code (1 binary read)\n")


def test_a_folder_that_is_no_environment(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    result = run(tmp_path)
    assert isinstance(result.exception, InputError) and result.stdout == ""
    assert str(result.exception) == f"{tmp_path} isn't an environment and contains no library"


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta", "a-1.0.dist-info", "lib/python3.12/site-packages"])
def test_an_environment_without_a_library(tmp_path: Path, mark: str) -> None:
    (tmp_path / mark).mkdir(parents=True)
    assert run(tmp_path).stdout == f"{tmp_path.name}: no CUDA code (0 binaries read)\n"


def test_many_lacking_libraries_are_counted(tmp_path: Path) -> None:
    path = wheel(tmp_path / "demo.whl", {f"demo/{n}.so": ELF + fatbin((SASS, 70, 0)) for n in range(9)})
    result = run(path, "--gpu", "sm_90")
    assert isinstance(result.exception, AnswerNo)
    assert result.exception.message == "no code for sm_90 (9.0) in demo/0.so, demo/1.so, demo/2.so and 6 more"


def test_names_do_not_steer_the_terminal(tmp_path: Path) -> None:
    path = wheel(tmp_path / "demo.whl", {"demo/\x1b[2J\u202e.so": ELF + COMMON, "demo/é.so": ELF + COMMON})
    result = run(path)
    assert "demo/\\x1b[2J\\u202e.so" in result.stdout
    assert "demo/é.so" in result.stdout
    assert "\x1b" not in result.stdout


def test_damage_inside_a_library_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.so").write_bytes(ELF + COMMON[:-4])
    result = run(tmp_path)
    assert result.exit_code == 0
    assert result.stderr == "warning: a.so: a fat binary is cut off or damaged\n"
    assert not json.loads(run(tmp_path, "--json").stdout)["libraries"][0]["complete"]


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (["missing.whl"], "missing.whl: no such file or folder", "give a wheel"),
        ([".", "--gpu", "H1000"], '--gpu: unknown GPU "H1000"', 'did you mean "H100", "H800" or "H200"?'),
        ([".", "--gpu", "abacus"], '--gpu: unknown GPU "abacus"', "`envspec gpus`"),
    ],
)
def test_wrong_input(
    arguments: list[str], message: str, hint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert isinstance(result.exception, InputError)
    assert str(result.exception) == message
    assert result.exception.hint is not None and hint in result.exception.hint
    assert result.stdout == ""


SPEC = """[env]
python = "3.12"
[pip]
dependencies = ["torch"]
[targets.hopper]
platform = "linux-64"
cuda = "12.8"
gpus = ["H100"]
[targets.volta]
platform = "linux-64"
cuda = "12.6"
gpus = ["V100", "H100"]
[targets.cpu]
platform = "linux-64"
"""


def test_against_the_targets_of_a_spec(demo: Path, tmp_path: Path) -> None:
    spec = tmp_path / "demo.toml"
    spec.write_text(SPEC)
    every = run(demo, "--spec", spec)
    assert "  V100 (7.0): runs" in every.stdout and every.stdout.count("H100 (9.0)") == 2
    assert isinstance(every.exception, AnswerNo)
    one = run(demo, "--spec", spec, "--target", "hopper")
    assert "H100 (9.0)" in one.stdout and "V100" not in one.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "hopper"], "--target needs --spec"),
        (["--spec", "SPEC", "--target", "hoper"], "has no target hoper"),
        (["--spec", "SPEC", "--target", "cpu"], "names no GPU for these targets"),
    ],
)
def test_targets_that_cannot_be(demo: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    spec = tmp_path / "demo.toml"
    spec.write_text(SPEC)
    ran = run(demo, *(spec if word == "SPEC" else word for word in arguments))
    assert isinstance(ran.exception, InputError) and said in ran.exception.message
    assert "hoper" not in arguments or ran.exception.hint == "did you mean hopper?"
