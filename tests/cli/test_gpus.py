"""`envspec gpus`."""

import json

import pytest
from cli_project import Envspec
from support.documents import valid

from envspec.facts import gpus

pytest_plugins = ["cli_fixtures"]


def names(out: str) -> list[str]:
    return [line.split("  ")[0] for line in out.splitlines()[1:]]


def test_all(envspec: Envspec) -> None:
    told = envspec("gpus")
    assert (told.code, told.err) == (0, "")
    assert names(told.out) == [gpu.name for gpu in gpus.products()]


def test_some(envspec: Envspec) -> None:
    assert (
        envspec("gpus", "H100", "v100").out
        == """\
GPU   ARCHITECTURE  CAPABILITY   KIND        MEMORY       BANDWIDTH  CUDA           DRIVER
H100  Hopper        9.0 (sm_90)  datacentre  80 GiB       3350 GB/s  11.8 or newer  R520 or newer
V100  Volta         7.0 (sm_70)  datacentre  16 / 32 GiB  900 GB/s   9.0 to 12.9    R384 to R580
"""
    )


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
    (gpu,) = json.loads(envspec("gpus", "H100", "--json").out)["gpus"]
    assert gpu == {
        "name": "H100",
        "architecture": "Hopper",
        "capability": "9.0",
        "sm": "sm_90",
        "kind": "datacentre",
        "memory_gib": [80],
        "bandwidth_gbs": 3350,
        "aliases": gpu["aliases"],
        "first_cuda": "11.8",
        "last_cuda": None,
        "first_driver": 520,
        "last_driver": None,
        "drivers": [],
        "sources": gpu["sources"],
    }


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
