"""Packages of flat indexes (`find-links`), with the real uv: locked, checked, installed, bundled, exported."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.flat_page import FlatIndex
from support.index import Index, other_bytes, status
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.lock.model import Pin

pytestmark = pytest.mark.e2e

SCATTER = wheel("torch-scatter", "2.1.2+pt28cu128", "lib", tag="cp312-cp312-manylinux_2_28_x86_64")
OTHER = wheel("torch-scatter", "2.1.2+pt28cu128", "lib", tag="cp311-cp311-manylinux_2_28_x86_64")
OLD = wheel("torch-scatter", "2.0.0+pt28cu128", "lib", tag="cp312-cp312-manylinux_2_28_x86_64")


@pytest.fixture
def flat() -> Iterator[FlatIndex]:
    with FlatIndex(sidecars=False) as running:
        running.add(SCATTER, OTHER, OLD, wheel("torch-sparse", "1.0"))
        yield running


@pytest.fixture(autouse=True)
def _libraries(index: Index) -> None:
    index.add(wheel("lib", "1.0"), wheel("torch-scatter", "99.0"))


def spec(page: str, *, more: str = "", sources: str = "sources = { torch-scatter = 'pyg' }", env: str = "") -> str:
    extra = f"find-links = {{ pyg = '{page}' }}\n{sources}\n{more}"
    text = cpu("torch-scatter", extra=extra, targets="[targets.t]\nplatform = 'linux-64'")
    return text.replace("[pip]", f"{env}\n[pip]")


def scatter(machine: Machine) -> Pin:
    pin = machine.lock().targets[0].pin("torch-scatter")
    assert pin is not None and pin.artifact is not None
    return pin


def test_a_page_without_hashes(machine: Machine, flat: FlatIndex, index: Index) -> None:
    machine.locked(spec=spec(flat.page))
    pin = scatter(machine)
    assert (pin.version, pin.index) == (SCATTER.version, "pyg")
    assert pin.artifact and (pin.artifact.sha256, pin.artifact.size) == (SCATTER.sha256, len(SCATTER.content))
    text = machine.lock_path().read_text(encoding="utf-8")
    assert '{ name = "pyg", page = "torch-2.8.0+cu128.html" }' in text
    inputs, _, packages = text.partition("[targets")
    assert f'{{ name = "pyg", address = "{flat.page}" }}' in inputs and flat.origin not in packages
    assert index.paths("torch-scatter") == []
    # what the target doesn't take isn't fetched
    assert flat.paths("cp311") == flat.paths("torch_sparse") == flat.paths("2.0.0") == []
    assert machine.envspec("check", "specs/demo.toml").status == 0
    assert machine.envspec("lock", "specs/demo.toml").status == 0
    assert machine.lock_path().read_text(encoding="utf-8") == text


def test_a_page_with_hashes(machine: Machine, flat: FlatIndex) -> None:
    flat.hashed = True
    machine.locked(spec=spec(flat.page))
    pin = scatter(machine)
    assert pin.artifact and pin.artifact.sha256 == SCATTER.sha256


def test_a_file_that_its_page_lies_about(machine: Machine, flat: FlatIndex) -> None:
    flat.hashed = True
    flat.lie_about(SCATTER, "0" * 64)
    ran = machine.envspec("lock", machine.spec(spec(flat.page)))
    assert ran.status == 3 and "the index says 000000" in ran.err


@pytest.mark.slow
def test_a_file_that_was_replaced_is_refused(machine: Machine, flat: FlatIndex) -> None:
    machine.locked(spec=spec(flat.page))
    flat.fail(r"/files/torch_scatter", other_bytes)
    ran = machine.envspec("bundle", "specs/demo.toml", "--target", "t", "-o", "b.tar")
    assert ran.status == 3 and SCATTER.sha256 in ran.err


@pytest.mark.slow
def test_a_lock_of_a_flat_index_is_bundled_and_exported(machine: Machine, flat: FlatIndex) -> None:
    machine.locked(spec=spec(flat.page))
    machine.envspec("bundle", "specs/demo.toml", "--target", "t", "-o", "b.tar", status=0)
    ran = machine.envspec("export", "specs/demo.toml", "--format", "pylock", "-o", "-", status=0)
    assert flat.origin in ran.out and "torch_scatter-2.1.2" in ran.out
    machine.envspec("export", "specs/demo.toml", "--format", "dockerfile", "-o", "out", status=0)
    dockerfile = (machine.folder / "out" / "t" / "Dockerfile").read_text(encoding="utf-8")
    assert f'ARG INDEX_PYG="{flat.page}"' in dockerfile.replace(f"={flat.page}", f'="{flat.page}"')
    assert '--no-index --find-links "$INDEX_PYG"' in dockerfile


def test_exclude_newer_does_not_bound_it_and_this_is_told(machine: Machine, flat: FlatIndex, index: Index) -> None:
    index.add(wheel("lib", "1.0"), uploaded="2020-01-01T00:00:00Z")
    ran = machine.envspec("lock", machine.spec(spec(flat.page, env="exclude-newer = '2024-01-01'")), status=0)
    assert "the index pyg has no upload times: exclude-newer doesn't bound what comes from it" in ran.err


@pytest.mark.parametrize("code", [404, 403])
def test_a_flat_index_among_the_simple_ones_is_told(machine: Machine, flat: FlatIndex, code: int) -> None:
    flat.fail(r"\.html/.", status(code))
    text = spec(flat.page).replace("find-links", "indexes")
    ran = machine.envspec("lock", machine.spec(text), status=3)
    line = 1 + text.splitlines().index(f"indexes = {{ pyg = '{flat.page}' }}")
    assert f'error: specs/demo.toml:{line}:19: t: the index "pyg" is a flat index' in ran.error
    assert "find-links = { pyg" in ran.hint


def test_a_simple_index_among_the_flat_ones_is_told(machine: Machine, index: Index) -> None:
    with Index() as own:
        own.add(wheel("torch-scatter", "1.0"))
        ran = machine.envspec("lock", machine.spec(spec(f"{own.url}/torch-scatter-no-such/")))
        assert ran.status == 3 and "belongs in indexes" in ran.hint


@pytest.mark.slow
def test_what_the_page_has_and_its_packages_require_needs_a_source(machine: Machine, flat: FlatIndex) -> None:
    """Else whoever owns the name on PyPI supplies it."""
    flat.add(wheel("lib", "1.5"))
    ran = machine.envspec("lock", machine.spec(spec(flat.page)))
    assert ran.status == 1 and 'the index "pyg" has packages that the solution needs' in ran.error
    assert ran.error.startswith("error: specs/demo.toml:5:17: t: ")
    assert 'lib = "pyg"' in ran.hint


def test_a_flat_index_that_no_package_comes_from_is_told(machine: Machine, flat: FlatIndex) -> None:
    ran = machine.envspec("lock", machine.spec(spec(flat.page, sources="")))
    assert "warning: specs/demo.toml" in ran.err or "no package comes from the flat index pyg" in ran.err
    assert 'sources = { PACKAGE = "pyg" }' in ran.err


def test_another_page_makes_the_lock_stale(machine: Machine, flat: FlatIndex) -> None:
    machine.locked(spec=spec(flat.page))
    machine.spec(spec(flat.page.replace("2.8.0", "2.9.0")))
    ran = machine.envspec("check", "specs/demo.toml", status=1)
    assert "the page of pyg changed from torch-2.8.0+cu128.html to torch-2.9.0+cu128.html" in ran.out


def test_a_target_that_lacks_the_page_of_what_it_asks_for(machine: Machine, flat: FlatIndex) -> None:
    text = cpu(
        "torch-scatter",
        extra="sources = { torch-scatter = 'pyg' }",
        targets=f"[targets.t]\nplatform = 'linux-64'\n[targets.t.pip]\nfind-links = {{ pyg = '{flat.page}' }}\n"
        "[targets.u]\nplatform = 'linux-64'",
    )
    ran = machine.envspec("lock", machine.spec(text), status=2)
    assert "u asks for torch-scatter, which comes from pyg, and has no page of that name" in ran.error
    assert "[targets.u.pip]" in ran.hint


@pytest.mark.slow
def test_it_is_installed(machine: Machine, index: Index, tmp_path: Path) -> None:
    with FlatIndex(sidecars=False) as flat:
        flat.add(wheel("torch-scatter", "2.1.2+pt28cu128", "lib"))
        import sys

        python = f"{sys.version_info[0]}.{sys.version_info[1]}"
        machine.locked(spec=spec(flat.page).replace("'3.12'", f"'{python}'"))
        prefix = tmp_path / "prefix"
        machine.envspec("install", "specs/demo.toml", "--target", "t", "--prefix", str(prefix), status=0)
        assert list(prefix.glob("lib/python3.*/site-packages/torch_scatter.py"))
