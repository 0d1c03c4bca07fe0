"""Several indexes of a spec's own: each package is its own index's, and uv asks one root of the proxy for all."""

from pathlib import Path

import pytest
from support.index import Answer, Index
from support.machine import Machine, cpu
from support.packages import Dist, wheel

ALPHA, BETA = wheel("alpha", "1.0", "beta"), wheel("beta", "1.0")
OTHERS = (wheel("alpha", "9.0"), wheel("beta", "9.0"), wheel("gamma", "9.0"))
GAMMA = wheel("gamma", "1.0")


def spec(machine: Machine, one: Index, two: Index) -> str:
    folder = machine.folder / "specs" / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / GAMMA.file).write_bytes(GAMMA.content)
    said = f"indexes = {{ one = '{one.url}', two = '{two.url}' }}\nfind-links = {{ here = './wheels' }}\n"
    return machine.spec(cpu("alpha", "gamma", extra=f"{said}sources = {SOURCES}"))


SOURCES = "{ alpha = 'one', beta = 'two', gamma = 'here' }"


@pytest.mark.slow
def test_each_package_is_its_own_indexs(machine: Machine, index: Index) -> None:
    """Each index has a newer release of what comes from another. A second lock asks what a first one has to, once."""
    index.add(*OTHERS)
    with Index() as one, Index() as two:
        one.add(ALPHA, *OTHERS[1:])
        two.add(BETA, OTHERS[0], OTHERS[2])
        path = spec(machine, one, two)
        pins = {pin.name: (pin.version, pin.index) for pin in machine.locked().targets[0].pins}
        assert pins == {"alpha": ("1.0", "one"), "beta": ("1.0", "two"), "gamma": ("1.0", "here")}
        for several in (one, two):
            several.asked.clear()
        machine.envspec("lock", path, "--upgrade", status=0)
        assert (one.paths(), two.paths()) == (["/simple/alpha/"], ["/simple/beta/"]), "their pages alone, once"
        machine.envspec("lock", path, "--upgrade", "--offline", status=0)
        assert not index.paths("alpha|beta|gamma"), "the default index is asked for none of them"


@pytest.mark.slow
def test_an_error_names_the_index(machine: Machine) -> None:
    with Index() as one, Index() as two:
        one.add(ALPHA)
        two.add(BETA)
        two.fail("^/simple/beta", lambda handler, answer: Answer(500, b"", "text/plain"))
        error = machine.envspec("lock", spec(machine, one, two), status=3).err
        assert f"{two.url}/beta/" in error and one.url not in error and "/i-" not in error


@pytest.mark.slow
def test_a_page_leads_to_no_file_of_this_machine_beside_a_folder(machine: Machine, tmp_path: Path) -> None:
    private: Dist = wheel("alpha", "2.0")
    (tmp_path / private.file).write_bytes(private.content)
    page = f'<a href="{(tmp_path / private.file).as_uri()}#sha256={private.sha256}">{private.file}</a>'
    with Index() as one, Index() as two:
        two.add(BETA)
        one.fail("^/simple/alpha", lambda handler, answer: Answer(200, page.encode(), "text/html"))
        ran = machine.envspec("lock", spec(machine, one, two))
        assert ran.status != 0 and not machine.lock_path().exists()
