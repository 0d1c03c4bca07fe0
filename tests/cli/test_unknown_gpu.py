"""A name of no GPU in a spec is a wrong input, wherever the spec is read."""

from pathlib import Path

import pytest
from cli_project import Envspec

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


@pytest.mark.parametrize(("name", "maker"), [("MI300X", "AMD"), ("Gaudi 3", "Intel"), ("mps", "Apple")])
def test_another_makers_is_told_as_what_it_is(tmp_path: Path, envspec: Envspec, name: str, maker: str) -> None:
    spec = tmp_path / "demo.toml"
    spec.write_text(TEXT.format(name=name))
    ran = envspec("doctor", str(spec))
    assert (
        ran.code == 2 and f'"{name}" is {maker}\'s, and envspec locks for NVIDIA GPUs (CUDA) and CPUs only' in ran.err
    )


def test_a_target_of_apples_gpus_is_not_sent_to_cuda(tmp_path: Path, envspec: Envspec) -> None:
    spec = tmp_path / "demo.toml"
    spec.write_text(TEXT.format(name="mps").replace('cuda = "12.8"\n', "").replace('"H100", ', ""))
    ran = envspec("doctor", str(spec))
    assert ran.code == 2 and "MPS as well" in ran.err and 'cuda = "12.8"' not in ran.err


def test_a_free_threaded_python_is_told_as_one(tmp_path: Path, envspec: Envspec) -> None:
    spec = tmp_path / "demo.toml"
    spec.write_text(TEXT.format(name="A100").replace('"3.12"', '"3.14t"'))
    ran = envspec("doctor", str(spec))
    assert ran.code == 2 and "free-threaded builds aren't supported" in ran.err
