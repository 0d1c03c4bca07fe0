"""Numbers of thousands of digits, and bytes that are no text, where a repository or a variable gives a version or an
address: refused or left out, and no fault of envspec's."""

import pytest
from support.machine import Machine, cpu

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
