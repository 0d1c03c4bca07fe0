"""Files in other charsets than UTF-8: each reader names file, line and byte, or reads what pip and uv read."""

import pytest
from msgspec.structs import replace
from support.index import Index
from support.machine import Machine, cpu
from support.packages import metadata_text, wheel

pytestmark = pytest.mark.e2e

SPEC = cpu("alpha").replace("[env]", "# caf\u00e9\n[env]\ndescription = 'caf\u00e9'", 1)
FILES = {
    "requirements.txt": "alpha\n# caf\u00e9\n",
    "environment.yml": "name: x\ndependencies:\n  - python=3.12  # caf\u00e9\n  - numpy\n",
    "pyproject.toml": "[project]\nname = 'x'\nversion = '1'\ndescription = 'caf\u00e9'\ndependencies = ['alpha']\n",
    "setup.cfg": "[metadata]\ndescription = caf\u00e9\n[options]\ninstall_requires = alpha\n",
    "setup.py": "# caf\u00e9\nfrom setuptools import setup\nsetup(name='x', install_requires=['alpha'])\n",
    "pixi.toml": "[workspace]\nname = 'caf\u00e9'\nchannels = []\nplatforms = []\n[dependencies]\nnumpy = '*'\n",
    "cog.yaml": "# caf\u00e9\nbuild:\n  python_version: '3.12'\n  python_packages: ['alpha']\n",
    "Dockerfile": "# caf\u00e9\nFROM python:3.12\nRUN pip install alpha\n",
}
LINES = {name: text[: text.index("\u00e9")].count("\n") + 1 for name, text in FILES.items()}
MARKED = ("utf-16", "utf-32")
OTHERS = ("latin-1", "cp1252", "utf-16", "utf-32", "utf-16-le")


def named(error: str, path: str, charset: str, line: int) -> bool:
    """Whether an error has the file, what it is, and where."""
    if charset in MARKED:
        return f"{path}:1:1: the file is {charset.upper()}, not UTF-8" in error
    return f"{path}:{line}:" in error and "not UTF-8: byte 0xe9 at offset" in error


@pytest.mark.parametrize("charset", OTHERS)
def test_a_spec(machine: Machine, charset: str) -> None:
    path = machine.folder / "specs" / "demo.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(SPEC.encode(charset))
    for command in ("lock", "check", "upgrade"):
        ran = machine.envspec(command, "specs/demo.toml")
        assert ran.status == 2 and named(ran.error, "specs/demo.toml", charset, 1), (command, ran.err)
        assert "save" in ran.err and "UTF-8" in ran.err


@pytest.mark.parametrize("charset", [one for one in OTHERS if one != "utf-16-le"])
@pytest.mark.parametrize("name", FILES)
def test_a_file_from_which_a_spec_begins(machine: Machine, name: str, charset: str) -> None:
    (machine.folder / name).write_bytes(FILES[name].encode(charset))
    ran = machine.envspec("init", "made", "--from", name)
    if name == "requirements.txt" and charset in MARKED:
        # as pip does: PowerShell writes it so
        assert ran.status == 0 and '"alpha"' in (machine.folder / "specs" / "made.toml").read_text(encoding="utf-8")
        return
    assert ran.status == 2 and named(ran.error, name, charset, LINES[name]), ran.err
    assert not (machine.folder / "specs" / "made.toml").exists()


@pytest.mark.parametrize("name", ["requirements.txt", "setup.cfg", "cog.yaml"])
def test_a_mark_before_utf_8_is_no_part_of_the_text(machine: Machine, name: str) -> None:
    (machine.folder / name).write_bytes(FILES[name].encode("utf-8-sig"))
    machine.envspec("init", "made", "--from", name, status=0)
    assert '"alpha"' in (machine.folder / "specs" / "made.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("charset", ["latin-1", "utf-16"])
@pytest.mark.parametrize("name", ["uv.lock", "poetry.lock", "pylock.toml", "pixi.lock", "conda-lock.yml"])
def test_another_tools_lock(machine: Machine, name: str, charset: str) -> None:
    (machine.folder / name).write_bytes("version = 1\n# caf\u00e9\n".encode(charset))
    ran = machine.envspec("diff", name, name)
    assert ran.status == 2 and named(ran.error, name, charset, 2), ran.err


def test_an_audit(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0"))
    machine.locked(spec=cpu("alpha"))
    (machine.folder / "audit.json").write_bytes(b'{\n"caf\xe9": 1}')
    ran = machine.envspec("report", "specs/demo.toml", "-o", "r.html", "--audit", "audit.json")
    assert ran.status == 2 and named(ran.error, "audit.json", "latin-1", 2), ran.err


@pytest.mark.parametrize("beside", [True, False])
def test_metadata_in_latin_1_is_read_as_uv_reads_it(machine: Machine, index: Index, beside: bool) -> None:
    """An author's name of before 2015: what it requires stands in ASCII."""
    text = (
        metadata_text("beta", "1.0", ["alpha"])
        .replace("Name: beta\n", "Name: beta\nAuthor: caf\u00e9\n")
        .encode("latin-1")
    )
    beta = wheel("beta", "1.0", files={"beta-1.0.dist-info/METADATA": text})
    index.add(wheel("alpha", "1.0"), replace(beta, metadata=text) if beside else replace(beta, metadata=None))
    lock = machine.locked(spec=cpu("beta"))
    assert {(pin.name, pin.dependencies) for pin in next(iter(lock)).pins} == {("alpha", ()), ("beta", ("alpha",))}
    assert machine.envspec("install", "specs/demo.toml", "--prefix", "env").status in (0, 3)
