"""Dependency confusion: a package of a private index asks for another that is private, too, and whoever puts that name
on PyPI with a high version is locked. Both indexes are real servers on loopback."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.channel import LocalChannel, Record, pythons
from support.index import Index, status
from support.machine import Machine, cpu
from support.packages import sdist, wheel

pytestmark = pytest.mark.e2e


@pytest.fixture
def internal() -> Iterator[Index]:
    with Index() as running:
        yield running


def spec(*asked: str, url: str, sources: str = 'acme-models = "internal"', more: str = "") -> str:
    return cpu(*asked, extra=f"indexes = {{ internal = '{url}' }}\nsources = {{ {sources} }}\n{more}")


def refused(machine: Machine, *arguments: str) -> tuple[str, str]:
    """Run `envspec lock`, which must say no. Gives the error and the hint."""
    ran = machine.envspec("lock", "specs/demo.toml", *arguments, status=1)
    return ran.error, ran.hint


@pytest.mark.slow
def test_a_name_that_a_package_of_the_named_index_leads_to(machine: Machine, index: Index, internal: Index) -> None:
    index.add(wheel("acme-utils", "99.0"), wheel("numpy", "2.0"))
    internal.add(wheel("acme-models", "1.0", "acme-utils", "numpy"), wheel("acme-utils", "1.0"))
    machine.spec(spec("acme-models", url=internal.url))
    error, hint = refused(machine)
    assert machine.files() == {}
    assert error == (
        'error: specs/demo.toml:4:17: cpu: the index "internal" has packages that the solution needs, and [pip] '
        "sources doesn't say which "
        "index to use: acme-utils (acme-models → acme-utils; PyPI has 99.0)"
    )
    assert 'sources = { acme-models = "internal", acme-utils = "internal" }' in hint
    assert '"pypi"' in hint and "mirrors all of PyPI" in hint
    # the line as it is printed is all that's needed
    machine.spec(spec("acme-models", url=internal.url, sources='acme-models = "internal", acme-utils = "internal"'))
    machine.locked()
    assert machine.versions("cpu") == {"acme-models": "1.0", "acme-utils": "1.0", "numpy": "2.0"}


@pytest.mark.parametrize("where", ["variable", "pip.conf", "uv.toml"])
def test_an_extra_index_of_other_tools_isnt_asked_and_told(
    machine: Machine, index: Index, internal: Index, where: str
) -> None:
    """pip would take the highest version of any of them. Who is used to that has to learn that envspec asks PyPI."""
    index.add(wheel("acme-models", "99.0"))
    internal.add(wheel("acme-models", "1.0"))
    for name, text in (
        ("pip/pip.conf", f"[global]\nextra-index-url = {internal.url}\n" if where == "pip.conf" else ""),
        ("uv/uv.toml", f'extra-index-url = ["{internal.url}"]\n' if where == "uv.toml" else ""),
    ):
        path = machine.home / ".config" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    machine.spec(cpu("acme-models"))
    env = {"PIP_EXTRA_INDEX_URL": internal.url} if where == "variable" else {}
    ran = machine.envspec("lock", "specs/demo.toml", env=env, status=0)
    named = {"variable": "PIP_EXTRA_INDEX_URL", "pip.conf": "extra-index-url of pip's", "uv.toml": "uv/uv.toml"}[where]
    assert "note: the spec's own indexes are asked, and not those of " in ran.err and named in ran.err, ran.err
    assert "sources" in ran.err and not internal.asked
    assert "not those of" not in machine.envspec("lock", "specs/demo.toml", env=env, status=0).err, "nothing was asked"


@pytest.mark.slow
def test_all_names_at_once(machine: Machine, index: Index, internal: Index) -> None:
    """Also those that only the private package behind the public one leads to, and what lies beyond a public one."""
    index.add(wheel("acme-utils", "99.0"), wheel("acme-core", "99.0"), wheel("acme-data", "99.0"))
    index.add(wheel("bridge", "1.0", "acme-data"))
    internal.add(wheel("acme-models", "1.0", "acme-utils", "bridge"), wheel("acme-utils", "1.0", "acme-core"))
    internal.add(wheel("acme-core", "1.0"), wheel("acme-data", "1.0"))
    machine.spec(spec("acme-models", url=internal.url))
    error, hint = refused(machine)
    assert "acme-models → bridge → acme-data" in error and "acme-utils → acme-core" in error
    named = [f'{name} = "internal"' for name in ("acme-core", "acme-data", "acme-models", "acme-utils")]
    assert f"sources = {{ {', '.join(named)} }}" in hint


def test_one_that_the_spec_asks_for_besides(machine: Machine, index: Index, internal: Index) -> None:
    index.add(wheel("acme-utils", "99.0"))
    internal.add(wheel("acme-models", "1.0", "acme-utils"), wheel("acme-utils", "1.0"))
    machine.spec(spec("acme-models", "acme-utils", url=internal.url))
    assert "acme-utils" in refused(machine)[0]


@pytest.mark.slow
def test_one_that_moves_in_later_when_pins_stay(machine: Machine, index: Index, internal: Index) -> None:
    index.add(wheel("acme-utils", "99.0"), wheel("beta", "1.0"))
    internal.add(wheel("acme-models", "1.0", "acme-utils"))
    machine.locked(spec=spec("acme-models", url=internal.url))
    before = machine.files()
    internal.add(wheel("acme-utils", "1.0"))
    machine.spec(spec("acme-models", "beta", url=internal.url))
    assert "acme-utils" in refused(machine)[0]
    assert machine.files() == before


def test_pypi_is_an_answer_too(machine: Machine, index: Index, internal: Index) -> None:
    index.add(wheel("numpy", "2.0"))
    internal.add(wheel("acme-models", "1.0", "numpy"), wheel("numpy", "1.0+patched"))
    machine.spec(spec("acme-models", url=internal.url, sources='acme-models = "internal", numpy = "pypi"'))
    (target,) = machine.locked()
    assert {pin.name: (pin.version, pin.index) for pin in target.pins} == {
        "acme-models": ("1.0", "internal"),
        "numpy": ("2.0", "pypi"),
    }
    assert machine.envspec("check", "specs/demo.toml").status == 0


def test_what_no_package_of_the_index_leads_to_is_not_asked_for(
    machine: Machine, index: Index, internal: Index
) -> None:
    index.add(wheel("numpy", "2.0"))
    internal.add(wheel("acme-models", "1.0"), wheel("numpy", "99.0"))
    machine.locked(spec=spec("acme-models", "numpy", url=internal.url))
    assert internal.paths("^/simple/numpy") == []


def test_an_index_that_does_not_answer_is_no_no(machine: Machine, index: Index, internal: Index) -> None:
    index.add(wheel("acme-utils", "99.0"))
    internal.add(wheel("acme-models", "1.0", "acme-utils"), wheel("acme-utils", "1.0"))
    internal.fail("^/simple/acme-utils", status(503))
    ran = machine.envspec("lock", machine.spec(spec("acme-models", url=internal.url)))
    assert ran.status == 3 and "acme-utils" in ran.error and machine.files() == {}


def test_offline_the_last_answer_counts(machine: Machine, index: Index, internal: Index) -> None:
    index.add(wheel("numpy", "2.0"), wheel("beta", "1.0"))
    internal.add(wheel("acme-models", "1.0", "numpy"))
    machine.locked(spec=spec("acme-models", "beta", url=internal.url))
    machine.locked("--offline", spec=spec("acme-models", url=internal.url))
    assert machine.versions("cpu") == {"acme-models": "1.0", "numpy": "2.0"}


def test_a_public_source_is_neither_built_nor_offered(
    machine: Machine, index: Index, internal: Index, tmp_path: Path
) -> None:
    """The advice to allow it, or its code, would be the attack's success."""
    witness = tmp_path / "ran"
    index.add(sdist("acme-utils", "99.0", static=False, witness=str(witness)))
    internal.add(wheel("acme-models", "1.0", "acme-utils"), wheel("acme-utils", "1.0"))
    for allowed in ("", "allow-source = ['acme-utils']"):
        machine.spec(spec("acme-models", url=internal.url, more=allowed))
        error, hint = refused(machine, "--allow-needed")
        assert "acme-utils" in error and "allow-source" not in hint
        assert not witness.exists()


@pytest.mark.by_day(1)
@pytest.mark.by_commit(3)
@pytest.mark.parametrize("way", ["", "acme-utils ; sys_platform == 'win32'", "numpy"])
@pytest.mark.parametrize("held", ["a wheel", "a source", "another release", "nothing", "no page for this target"])
def test_a_public_source_of_what_has_an_index_of_its_own_is_never_looked_at(
    machine: Machine, index: Index, internal: Index, tmp_path: Path, held: str, way: str
) -> None:
    """uv takes the index that a package names only where the project requires it. It would ask PyPI for what only
    another package leads to, and the source there, which may be built by its name, would run to say what it needs."""
    witness = tmp_path / "ran"
    index.add(sdist("acme-utils", "99.0", static=False, witness=str(witness)))
    index.add(wheel("setuptools", "80.0"), wheel("wheel", "0.45"), wheel("numpy", "2.0"))
    internal.add(wheel("acme-models", "1.0", "acme-utils>1" if held == "another release" else "acme-utils"))
    if held in ("a wheel", "another release"):
        internal.add(wheel("acme-utils", "1.0"))
    if held == "a source":
        internal.add(sdist("acme-utils", "1.0"))
    source = "elsewhere" if held == "no page for this target" else "internal"
    text = spec(
        *filter(None, ["acme-models", way]),
        url=internal.url,
        sources=f'acme-models = "internal", acme-utils = "{source}"',
        more="allow-source = ['acme-utils']",
    )
    if source == "elsewhere":
        text += f"""
[targets.other]
platform = 'linux-64'
[targets.other.pip]
find-links = {{ elsewhere = '{internal.url}/flat/' }}
"""
    machine.spec(text)
    ran = machine.envspec("lock", "specs/demo.toml", "--target", "cpu")
    assert not witness.exists() and not index.paths("acme.utils"), ran.err
    refused = 2 if source == "elsewhere" and "acme" in way else 1
    assert ran.status == (0 if held in ("a wheel", "a source") else refused), ran.err
    if not ran.status:
        (target,) = machine.lock().targets
        assert {pin.name: pin.index for pin in target.pins if "acme" in pin.name} == {
            "acme-models": "internal",
            "acme-utils": "internal",
        }
        assert machine.envspec("check", "specs/demo.toml").status == 0


def test_a_pytorch_index_is_no_private_one(machine: Machine, index: Index, internal: Index) -> None:
    """It has old copies of what its packages need."""
    index.add(wheel("filelock", "3.0"))
    internal.add(wheel("extension", "1.0", "filelock"), wheel("filelock", "2.0"))
    internal.prefix = "/whl/cu126"
    machine.locked(spec=spec("extension", url=f"{internal.origin}/whl/cu126", sources='extension = "internal"'))
    assert machine.versions("cpu") == {"extension": "1.0", "filelock": "3.0"}


def test_a_channel_further_down_has_a_higher_version(tmp_path: Path) -> None:
    """conda's own answer to the same attack: channels in strict order. What the first has comes from the first."""
    rattler = pytest.importorskip("rattler")
    from envspec.artifacts.conda_channels import ChannelAddress
    from envspec.resolve.conda.request import CondaRequest
    from envspec.resolve.conda.solve import CondaResolver

    private, public = LocalChannel(tmp_path / "private"), LocalChannel(tmp_path / "public")
    private.write([Record("acme-models", "1.0", "0", ("acme-utils",)), Record("acme-utils", "1.0", "0")])
    public.write([*pythons("3.12.11"), Record("acme-utils", "99.0", "0"), Record("acme-models", "99.0", "0")])
    addresses = tuple(ChannelAddress(channel.folder.name, channel.url) for channel in (private, public))
    resolver = CondaResolver(rattler.Gateway(cache_dir=tmp_path / "cache"), addresses)
    request = CondaRequest("linux-64", "3.12", ("acme-models",), ("private", "public"), glibc="2.28")
    found = {pin.name: (pin.version, pin.index) for pin in resolver.resolve({"t": request}, {})["t"]}
    assert found["acme-models"] == ("1.0", "private/linux-64")
    assert found["acme-utils"] == ("1.0", "private/linux-64")


def test_a_lock_says_so_of_the_torch_family_too(machine: Machine, index: Index, internal: Index) -> None:
    """A package that is said to be public is judged as one without a source."""
    for name in ("filelock", "fsspec", "jinja2", "networkx", "setuptools", "sympy", "typing-extensions"):
        index.add(wheel(name, "80.0"))
    internal.add(wheel("acme-models", "1.0", "torch"), wheel("torch", "99.0"))
    machine.locked(spec=spec("acme-models", url=internal.url, sources='acme-models = "internal", torch = "pypi"'))
    assert machine.envspec("check", "specs/demo.toml").status == 0
