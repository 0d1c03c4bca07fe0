"""`envspec gpus`; and a name of no GPU in a spec is a wrong input, wherever the spec is read."""

import json
from pathlib import Path

import pytest
from cli_project import Envspec, told_whole
from support.documents import valid

from envspec.facts import gpus

pytest_plugins = ["cli_fixtures"]


def names(out: str) -> list[str]:
    return [line.split("  ")[0] for line in out.splitlines()[1:]]


def test_all(envspec: Envspec) -> None:
    told = envspec("gpus")
    assert (told.code, told.err) == (0, "")
    assert names(told.out) == [gpu.name for gpu in gpus.products()]


@pytest.mark.parametrize(("name", "more"), [("gpus.txt", ()), ("gpus.json", ("--json",))])
def test_some(envspec: Envspec, name: str, more: tuple[str, ...]) -> None:
    assert told_whole(name, envspec("gpus", "H100", "v100", *more))


@pytest.mark.parametrize("arch", ["hopper", "Hopper", "HOPPER"])
def test_an_architecture(envspec: Envspec, arch: str) -> None:
    found = names(envspec("gpus", "--arch", arch).out)
    assert "H200" in found
    assert found == [gpu.name for gpu in gpus.products() if gpu.architecture == "Hopper"]


def test_blackwell_has_its_ultra(envspec: Envspec) -> None:
    found = {gpu["architecture"] for gpu in json.loads(envspec("gpus", "--arch", "blackwell", "--json").out)["gpus"]}
    assert found == {"Blackwell", "Blackwell Ultra"}
    assert names(envspec("gpus", "--arch", "blackwell-ultra").out)
    assert names(envspec("gpus", "--arch", "ada lovelace").out) == names(envspec("gpus", "--arch", "ada").out)


def test_json(envspec: Envspec) -> None:
    for arguments in ((), ("H100",), ("sm_37",), ("sm_35",)):
        valid(envspec("gpus", *arguments, "--json").out, "gpus")


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["H1000"], 'error: unknown GPU "H1000"\nhint: did you mean "H100", "H800" or "H200"? Of a newer GPU, name'),
        (["\x1b[2J"], 'error: unknown GPU "\\x1b[2J"\n'),
        (["--arch", "hoper"], 'error: --arch: unknown architecture "hoper"\nhint: did you mean "hopper"?\n'),
        (["--arch", ""], 'error: --arch: unknown architecture ""\nhint: known architectures: kepler, maxwell'),
        (["--arch", "qqqq"], 'error: --arch: unknown architecture "qqqq"\nhint: known architectures: kepler, maxwell'),
        (["H100", "--arch", "volta"], "error: none of these GPUs has the architecture volta\n"),
    ],
)
def test_wrong_input(envspec: Envspec, arguments: list[str], error: str) -> None:
    told = envspec("gpus", *arguments)
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(error)


TEXT = """\
[env]
name = "demo"
python = "3.12"
[pip]
dependencies = ["numpy"]
[targets.t]
platform = "linux-64"
cuda = "12.8"
gpus = ["H100", "{name}"]
"""


@pytest.mark.parametrize("command", ["lock", "check", "doctor"])
def test_it_is_told_at_its_place(tmp_path: Path, envspec: Envspec, command: str) -> None:
    spec = tmp_path / "demo.toml"
    spec.write_text(TEXT.format(name="H1000"))
    ran = envspec(command, str(spec))
    assert ran.code == 2
    assert f'{spec}:9:17: targets.t.gpus[1]: unknown GPU "H1000"' in ran.err
    assert 'hint: did you mean "H100", "H800" or "H200"?' in ran.err


_OTHERS = "envspec locks for NVIDIA GPUs (CUDA) and CPUs only"


@pytest.mark.parametrize(
    ("old", "new", "said", "unsaid"),
    [
        ("{name}", "MI300X", f'"MI300X" is AMD\'s, and {_OTHERS}', "did you mean"),
        ("{name}", "Gaudi 3", f'"Gaudi 3" is Intel\'s, and {_OTHERS}', "did you mean"),
        ("{name}", "mps", f'"mps" is Apple\'s, and {_OTHERS}', "did you mean"),
        # a target of Apple's GPUs alone isn't sent to CUDA
        ('cuda = "12.8"\ngpus = ["H100", "{name}"]', 'gpus = ["mps"]', "MPS as well", 'cuda = "12.8"'),
        ('"3.12"', '"3.14t"', "free-threaded builds aren't supported", "did you mean"),
    ],
)
def test_what_envspec_locks_for_is_told(
    tmp_path: Path, envspec: Envspec, old: str, new: str, said: str, unsaid: str
) -> None:
    spec = tmp_path / "demo.toml"
    spec.write_text(TEXT.replace(old, new).replace("{name}", "A100"))
    ran = envspec("doctor", str(spec))
    assert ran.code == 2 and said in ran.err and unsaid not in ran.err
