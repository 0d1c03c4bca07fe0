"""Numbers of thousands of digits, and bytes that are no text, where a repository or a variable gives a version or an
address: refused or left out, and no fault of envspec's."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import JSON, Answer, Index
from support.machine import Machine, cpu
from support.victim import ALPHA

from envspec.facts.gpus import find
from envspec.net.fetch import Fetcher
from envspec.net.registry import Registries, image_address
from envspec.net.repository import Repository
from envspec.packages.tags import installs_somewhere
from envspec.resolve.conda.solve import _order as order_of_conda

LONG = "3." + "1" * 5000

FILES = {
    "environment.yml": f"dependencies:\n  - python={LONG}\n  - numpy\n",
    "environment.yaml": f"dependencies:\n  - python>={LONG}\n  - numpy\n",
    "pyproject.toml": f"[project]\nname = 'a'\nversion = '1'\nrequires-python = '>={LONG}'\ndependencies = ['numpy']\n",
    "poetry/pyproject.toml": f"[tool.poetry.dependencies]\npython = '^{LONG}'\nnumpy = '^{LONG}'\n",
    "requirements.txt": f"numpy=={LONG}\n",
    ".python-version": f"{LONG}\n",
}


@pytest.mark.parametrize("name", FILES)
def test_init_of_a_repository(machine: Machine, name: str) -> None:
    path = machine.folder / "theirs" / name
    path.parent.mkdir(parents=True)
    path.write_text(FILES[name])
    for given in (path, path.parent):
        ran = machine.envspec("init", "demo", "--from", str(given.relative_to(machine.folder)))
        assert ran.status in (0, 2) and "fault" not in ran.err, ran.err[:500]


def test_requires_python_of_the_spec_s_own_project(machine: Machine) -> None:
    machine.spec(cpu("numpy").replace("[env]", "[env]\nproject = '..'", 1))
    (machine.folder / "pyproject.toml").write_text(FILES["pyproject.toml"])
    ran = machine.envspec("check", "specs/demo.toml")
    assert ran.status == 2 and "isn't a specifier" in ran.err, ran.err[:500]


@pytest.mark.parametrize("variable", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL", "UV_INDEX"])
def test_a_variable_that_is_no_utf8(machine: Machine, variable: str) -> None:
    machine.spec(cpu("numpy"))
    environment = {"UV_DEFAULT_INDEX": "", variable: "http://127.0.0.1:9/\udcff"}
    ran = machine.envspec("lock", "specs/demo.toml", "--offline", env=environment)
    assert ran.status in (2, 3) and "fault" not in ran.err, ran.err[:500]


TAGS = (
    *("cp3{}-abi3-manylinux_2_17_x86_64", "cp3{}-none-any", "py3{}-none-any", "cp312-cp3{}-manylinux_2_17_x86_64"),
    *("py3-none-manylinux_2_{}_x86_64", "cp3{}-cp3{}-win_amd64"),
)


@pytest.mark.parametrize("tag", TAGS)
def test_a_file_of_an_index(machine: Machine, index: Index, tag: str) -> None:
    """`lock` ended with a fault of envspec's."""
    index.form = "json"
    index.add(ALPHA)
    good = {"filename": ALPHA.file, "url": index.file_url(ALPHA), "hashes": {"sha256": ALPHA.sha256}}
    odd = {**good, "filename": f"alpha-1.1-{tag.replace('{}', '9' * 5000)}.whl"}
    page = json.dumps({"meta": {"api-version": "1.0"}, "name": "alpha", "files": [good, odd]}).encode()
    index.fail("/simple/alpha/", lambda handler, answer: replace(answer, kind=JSON, body=page))
    machine.default = index.url
    ran = machine.envspec("lock", machine.spec(cpu("alpha")))
    assert ran.status in (0, 3) and "a fault" not in ran.err, ran.err[:500]
    assert installs_somewhere(tag.replace("{}", "9" * 5000)) in (True, False)


def test_how_far_a_registry_is(index: Index, tmp_path: Path) -> None:
    index.fail("/upload", lambda handler, answer: Answer(204, b"", headers=(("Range", f"0-{'9' * 5000}"),)))
    fetcher = Fetcher(credentials={}, env={"HOME": str(tmp_path)})
    registries = Registries(fetcher.pool, {}, {"HOME": str(tmp_path)})
    address = image_address(f"{index.origin.partition('://')[2]}/a/b:c")
    assert Repository(registries, fetcher, address)._ask_for_offset(f"{index.origin}/upload") is None


def test_what_a_conda_channel_calls_a_version() -> None:
    assert order_of_conda("1." + "9" * 5000) > order_of_conda("1.9")


def test_the_memory_that_a_gpus_name_says() -> None:
    assert [gpu.name for gpu in find(f"H100 {'9' * 5000}GB")] == [gpu.name for gpu in find("H100 7GB")]
