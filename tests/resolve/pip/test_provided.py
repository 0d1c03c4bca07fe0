"""What conda installs counts for pip: in runs of `envspec lock`, against a channel and an index made by the test."""

import json
from pathlib import Path

import pytest
from support.channel import LocalChannel, Record, cuda_versions, pythons
from support.index import Index
from support.machine import Machine
from support.packages import wheel
from support.proxied import body_of

from envspec.lock.graph import Graph
from envspec.lock.judge import judge
from envspec.lock.model import Pin
from envspec.net.index_proxy.server import open_proxy
from envspec.resolve.pip.request import provided_packages

BASE = [*pythons("3.12.11"), *cuda_versions("12.6", "12.8", "12.9")]
SPEC = """
[env]
python = "3.12"
[conda]
channels = ["mine"]
dependencies = {conda}
[pip]
dependencies = {pip}
[targets.t]
platform = "linux-64"
{more}
"""


@pytest.fixture
def channel(machine: Machine) -> LocalChannel:
    """A channel that the machine's configuration has as `mine`."""
    pytest.importorskip("rattler")
    made = LocalChannel(machine.base / "channel" / "mine")
    config = machine.base / "envspec.toml"
    config.write_text(f'[mirrors]\nmine = "{made.folder}"\n"docker.io" = ""\n', encoding="utf-8")
    machine.variables["ENVSPEC_CONFIG"] = str(config)
    return made


def spec(machine: Machine, conda: list[str], pip: list[str], more: str = "") -> str:
    return machine.spec(SPEC.format(conda=json.dumps(conda), pip=json.dumps(pip), more=more))


def python_package(name: str, version: str, *depends: str) -> Record:
    return Record(name, version, "pyh_0", ("python >=3.10", *depends), "noarch")


def pin(name: str, version: str, *provides: str) -> Pin:
    return Pin("conda", name, version, "mine/noarch", None, provides=provides)


def test_what_is_provided() -> None:
    pins = [pin("pytorch", "2.7.1", "torch"), pin("tzdata", "2025b"), pin("odd", "1_2", "odd"), pin("x", "9e", "x")]
    pip = Pin("pip", "numpy", "2.0", "pypi", None)
    assert provided_packages([*pins, pip]) == (("odd", "1.2"), ("torch", "2.7.1"))


def test_the_proxy_shows_one_version_and_nothing_else() -> None:
    first, second = (("torch", "2.7.1", ()),), (("ruamel-yaml", "0.18", ()),)
    with open_proxy(provided=(first, second)) as proxy:
        url = proxy.provided_url(second)
        assert proxy.is_provided(f"{url}/files/ruamel-yaml.whl") and not proxy.is_provided(proxy.url("cu126"))
        page = json.loads(body_of(proxy, f"{url}/ruamel-yaml/"))
        assert [row["filename"] for row in page["files"]] == ["ruamel_yaml-0.18-py3-none-any.whl"]
        metadata = body_of(proxy, f"{url}/files/ruamel-yaml.whl.metadata").decode()
        assert metadata == "Metadata-Version: 2.1\nName: ruamel-yaml\nVersion: 0.18\n"
        for path in ("torch/", "numpy/", "files/torch.whl.metadata"):
            with pytest.raises(OSError, match="404"):
                body_of(proxy, f"{url}/{path}")
        with pytest.raises(OSError, match="404"):
            body_of(proxy, f"{proxy.base}/provided-7/torch/")


@pytest.mark.e2e
def test_pip_adds_only_what_is_missing(machine: Machine, index: Index, channel: LocalChannel) -> None:
    channel.write([*BASE, python_package("numpy", "2.1.0"), python_package("typing_extensions", "4.15.0")])
    index.add(wheel("numpy", "2.3.0"), wheel("typing-extensions", "4.16.0"), wheel("helper", "1.0"))
    index.add(wheel("top", "1.0", "numpy>=2", "typing_extensions", "helper"))
    spec(machine, ["numpy", "typing_extensions"], ["top", "numpy"])
    locked = machine.locked()
    target = locked.target("t")
    assert target is not None
    assert {p.name for p in target.pins if p.kind == "pip"} == {"top", "helper"}
    assert {p.name for p in target.pins if p.kind == "conda"} >= {"numpy", "typing_extensions", "python", "pip"}
    assert judge(locked) == ()
    paths = Graph.of(target).paths_to("numpy")
    assert {tuple(edge.requirement for edge in path) for path in paths} == {
        ("numpy",), ("top", "numpy>=2"),
    }  # fmt: skip
    assert not index.paths("/numpy/")


@pytest.mark.e2e
def test_exclude_newer_leaves_what_conda_installs(machine: Machine, index: Index, channel: LocalChannel) -> None:
    channel.write([*BASE, python_package("numpy", "2.1.0")])
    index.add(wheel("top", "1.0", "numpy"), uploaded="2024-01-01T00:00:00Z")
    path = machine.folder / spec(machine, ["numpy"], ["top"])
    text = path.read_text(encoding="utf-8").replace("[conda]", 'exclude-newer = "2025-01-01"\n[conda]')
    path.write_text(text, encoding="utf-8")
    target = machine.locked().target("t")
    assert target is not None and {p.name for p in target.pins if p.kind == "pip"} == {"top"}


@pytest.mark.e2e
def test_a_direct_conflict_names_both_sides(machine: Machine, index: Index, channel: LocalChannel) -> None:
    channel.write([*BASE, python_package("numpy", "2.1.0"), python_package("numpy", "1.26.0")])
    spec(machine, ["numpy"], ["numpy<2"])
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert ran.error == "error: specs/demo.toml:8:17: t: [pip] asks for numpy<2, but conda installs numpy 2.1.0"
    assert 'hint: add "numpy <2" to [conda] dependencies' in ran.hint
    channel.write([*BASE, python_package("numpy", "2.1.0")])
    assert '"numpy <2"' not in machine.envspec("lock", "specs/demo.toml", status=1).err, "no channel has it"


@pytest.mark.slow
@pytest.mark.e2e
def test_a_conflict_further_down_names_both_sides(machine: Machine, index: Index, channel: LocalChannel) -> None:
    channel.write([*BASE, python_package("numpy", "2.1.0")])
    index.add(wheel("numpy", "1.26.0"), wheel("top", "1.0", "numpy<2"))
    spec(machine, ["numpy"], ["top"])
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert "top" in ran.error and "numpy<2" in ran.error
    assert ran.error.endswith("(conda installs numpy 2.1.0).")
    assert "[conda]" not in ran.err, "no channel has it"
    assert not machine.lock_path().exists()
    channel.write([*BASE, python_package("numpy", "2.1.0"), python_package("numpy", "1.26.0")])
    assert 'add "numpy <2" to [conda] dependencies' in machine.envspec("lock", "specs/demo.toml", status=1).hint
    spec(machine, ["numpy <2"], ["top"])
    machine.locked()


@pytest.mark.e2e
def test_conda_s_own_conflict_names_the_match_spec_that_was_tried_without_its_bounds(
    machine: Machine, index: Index, channel: LocalChannel
) -> None:
    index.add(wheel("top", "1.0"))
    channel.write([*BASE, python_package("numpy", "2.1.0"), python_package("tool", "1.0", "numpy <3")])
    way = 'add "numpy" to [conda] dependencies: without its bounds'
    spec(machine, ["tool", "numpy >=3"], ["top"])
    assert way in machine.envspec("lock", "specs/demo.toml", status=1).hint
    spec(machine, ["tool", "numpy"], ["top"])
    machine.locked()
    spec(machine, ["tool 2.*", "numpy >=3"], ["top"])
    assert "loosen" not in (told := machine.envspec("lock", "specs/demo.toml", status=1).err) and way not in told


@pytest.mark.slow
@pytest.mark.e2e
def test_what_a_wheel_says_counts_beside_conda_too(machine: Machine, index: Index, channel: LocalChannel) -> None:
    """pip can't replace conda's package: both sides are named, and the bound in [conda] mends it."""
    versions = [python_package("setuptools", "81.0.0"), python_package("setuptools", "84.0.0")]
    channel.write([*BASE, *versions])
    index.add(wheel("board", "1.0", files={"board/__init__.py": b"import pkg_resources\n"}))
    spec(machine, ["setuptools"], ["board"])
    ran = machine.envspec("lock", "specs/demo.toml")
    told = ran.err.replace("\n", " ")
    assert ran.status == 1
    assert "conda installs setuptools 84.0.0" in told and "board 1.0 imports pkg_resources (board)" in told
    spec(machine, ["setuptools <82"], ["board"])
    lock = machine.locked()
    assert machine.versions("t")["setuptools"] == "81.0.0" and lock.corrections == ()


@pytest.mark.e2e
def test_a_url_for_what_conda_installs_is_a_conflict(machine: Machine, index: Index, channel: LocalChannel) -> None:
    channel.write([*BASE, python_package("numpy", "2.1.0")])
    dist = wheel("numpy", "2.1.0")
    index.add(dist)
    spec(machine, ["numpy"], [f"numpy @ {index.file_url(dist)}"])
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 1 and "conda installs numpy 2.1.0" in ran.error


@pytest.mark.e2e
def test_torch_from_conda_needs_no_torch_index(machine: Machine, index: Index, channel: LocalChannel) -> None:
    cuda = ("__cuda", "cuda-version >=12.6,<13", "python")
    torch = Record("pytorch", "2.7.1", "cuda126_mkl_py312_h1_300", cuda, number=300)
    channel.write([*BASE, torch, Record("pytorch", "2.7.1", "cpu_mkl_py312_h1_100", ("python",))])
    index.add(wheel("torch", "2.13.0"), wheel("lightning", "2.5", "torch>=2.1"))
    spec(machine, ["pytorch 2.7.*"], ["lightning"], 'cuda = "12.8"\ngpus = ["H100"]')
    target = machine.locked().target("t")
    assert target is not None
    torch_pins = [(p.kind, p.name, p.build) for p in target.pins if "torch" in (p.name, *p.provides)]
    assert torch_pins == [("conda", "pytorch", "cuda126_mkl_py312_h1_300")]
    assert not index.paths("/torch/")


@pytest.mark.e2e
def test_an_extra_of_what_conda_installs_is_told(machine: Machine, index: Index, channel: LocalChannel) -> None:
    channel.write([*BASE, python_package("fsspec", "2025.3.0")])
    index.add(wheel("top", "1.0", "fsspec[http]"))
    spec(machine, ["fsspec"], ["top"])
    ran = machine.envspec("lock", "specs/demo.toml", status=0)
    assert "warning: t: top asks for fsspec[http]" in ran.err


@pytest.mark.e2e
def test_conda_alone_needs_no_pip_half(machine: Machine, index: Index, channel: LocalChannel) -> None:
    channel.write([*BASE, Record("tool", "1")])
    spec(machine, ["tool"], [])
    target = machine.locked().target("t")
    assert target is not None
    assert {p.name for p in target.pins} == {"tool", "python"}
    assert not index.paths()


@pytest.mark.slow
@pytest.mark.e2e
def test_conda_pins_stay_and_move_when_asked(machine: Machine, channel: LocalChannel) -> None:
    channel.write([*BASE, Record("tool", "1"), Record("typing_extensions", "1")])
    spec(machine, ["tool", "typing_extensions"], [])
    first = machine.locked()
    channel.write([*BASE, *(Record(name, v) for name in ("tool", "typing_extensions") for v in ("1", "2"))])
    assert machine.locked("--target", "t") == first

    def moved(*arguments: str) -> set[str]:
        target = machine.locked(*arguments).target("t")
        assert target is not None
        return {p.name for p in target.pins if p.version == "2"}

    assert moved("--upgrade-package", "typing-extensions") == {"typing_extensions"}
    assert moved("--upgrade") == {"typing_extensions", "tool"}


@pytest.mark.e2e
def test_a_lock_names_channels_and_no_places(machine: Machine, channel: LocalChannel) -> None:
    channel.write([*BASE, Record("tool", "1")])
    spec(machine, ["tool"], [])
    machine.locked()
    text = machine.lock_path().read_text(encoding="utf-8")
    assert 'index = "mine/linux-64"' in text
    assert str(channel.folder.parent) not in text and "file:" not in text


@pytest.mark.e2e
def test_the_users_condarc_says_where_channels_are(machine: Machine, channel: LocalChannel, tmp_path: Path) -> None:
    channel.write([*BASE, Record("tool", "1")])
    del machine.variables["ENVSPEC_CONFIG"]
    (machine.home / ".condarc").write_text(f"channel_alias: {channel.folder.parent.as_uri()}\n", encoding="utf-8")
    spec(machine, ["tool"], [])
    assert machine.locked().target("t") is not None


@pytest.mark.e2e
def test_a_cpu_build_in_a_cuda_target_is_refused(machine: Machine, channel: LocalChannel) -> None:
    newer = ("__cuda", "cuda-version >=13.0,<14")
    channel.write([*BASE, Record("gpulib", "1", "cpu_h_0"), Record("gpulib", "1", "cuda130_h_1", newer, number=1)])
    spec(machine, ["gpulib"], [], 'cuda = "12.6"')
    ran = machine.envspec("lock", "specs/demo.toml", status=1)
    assert "gpulib 1 cpu_h_0 is the CPU build, the target is for CUDA 12.6" in ran.error
    assert "1 for CUDA 13.0" in ran.hint
    assert not machine.lock_path().exists()
