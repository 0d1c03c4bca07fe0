"""The files rendered from a lock: golden texts, and their own readers."""

from pathlib import Path

import pytest
import tomli
from lock_samples import artifact, sample_lock, urls, wheel
from msgspec import structs
from packaging.pylock import Pylock

from envspec.base.errors import InternalError
from envspec.lock.formats.conda_environment import conda_environment
from envspec.lock.formats.pylock import pylock_toml
from envspec.lock.formats.requirements import requirements_txt
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.store import RENDERED_NAMES, is_rendered, rendered_files

GOLDEN = Path(__file__).parent / "golden"
LOCK = sample_lock()


def target(name: str) -> LockedTarget:
    found = LOCK.target(name)
    assert found
    return found


@pytest.mark.parametrize("name", [locked.name for locked in LOCK])
def test_golden_requirements(name: str) -> None:
    golden = (GOLDEN / f"{name}.requirements.txt").read_text(encoding="utf-8")
    assert requirements_txt(LOCK, target(name)) == golden


@pytest.mark.parametrize("name", [locked.name for locked in LOCK])
def test_golden_pylock(name: str) -> None:
    golden = (GOLDEN / f"{name}.pylock.toml").read_text(encoding="utf-8")
    assert pylock_toml(LOCK, target(name), urls(target(name))) == golden


def test_an_index_of_the_spec_is_named_with_how_to_give_it() -> None:
    pin = structs.replace(wheel("acme", "1"), index="internal")
    locked = structs.replace(target("cu126-volta"), pins=(pin,))
    text = requirements_txt(LOCK, locked)
    assert "uv pip sync --index=internal=URL --index-strategy=unsafe-best-match requirements.txt" in text
    assert '--extra-index-url="URL of internal" -r requirements.txt' in text
    assert '# From the index "internal".\n\nacme==1' in text


def test_a_flat_index_is_named_as_a_page_with_links() -> None:
    pins = (structs.replace(wheel("acme", "1"), index="pyg"), structs.replace(wheel("mine", "1"), index="own"))
    locked = target("cu126-volta")
    inputs = structs.replace(locked.inputs, find_links=(("pyg", "torch-2.8.0.html"),))
    text = requirements_txt(LOCK, structs.replace(locked, pins=pins, inputs=inputs))
    uv = 'uv pip sync --find-links="URL of pyg" --index=own=URL --index-strategy=unsafe-best-match requirements.txt'
    assert uv in text
    assert '--extra-index-url="URL of own" --find-links="URL of pyg" -r requirements.txt' in text


@pytest.mark.parametrize("name", [locked.name for locked in LOCK])
def test_pylock_is_one(name: str) -> None:
    locked = target(name)
    pylock = Pylock.from_dict(tomli.loads(pylock_toml(LOCK, locked, urls(locked))))
    assert [package.name for package in pylock.packages] == [pin.name for pin in locked.pins if pin.kind == "pip"]
    for package in pylock.packages:
        pin = locked.pin(package.name, "pip")
        assert pin
        assert package.version is None if pin.git else str(package.version) == pin.version


def test_pylock_of_a_source_archive() -> None:
    url = "https://files.example.org/a-1.tar.gz"
    pin = structs.replace(wheel("a", "1"), artifact=artifact("a-1.tar.gz", None), url=url, index="url")
    locked = structs.replace(target("cpu"), pins=(pin,))
    (package,) = Pylock.from_dict(tomli.loads(pylock_toml(LOCK, locked, {}))).packages
    assert package.archive
    assert package.archive.url == url
    assert package.version is None


def test_pylock_without_packages() -> None:
    locked = structs.replace(target("cpu"), pins=())
    assert Pylock.from_dict(tomli.loads(pylock_toml(LOCK, locked, {}))).packages == []


def test_pylock_wants_every_url() -> None:
    with pytest.raises(InternalError, match="deepspeed"):
        pylock_toml(LOCK, target("cpu"), {})


def test_rendered_files() -> None:
    files = rendered_files(LOCK)
    conda = {"cpu/conda-lock.yml", "cpu/conda-linux-64.lock"}
    assert files.keys() == {f"{locked.name}/requirements.txt" for locked in LOCK} | conda
    assert {path.partition("/")[2] for path in files} <= set(RENDERED_NAMES)
    assert all(is_rendered(text) for text in files.values())
    assert not is_rendered("torch==2.9.1\n")


def test_a_target_of_conda_packages_alone_has_no_requirements() -> None:
    pins = tuple(pin for pin in target("cpu").pins if pin.kind == "conda")
    lock = Lock("x", LOCK.inputs, (structs.replace(target("cpu"), pins=pins),))
    assert rendered_files(lock).keys() == {"cpu/conda-lock.yml", "cpu/conda-linux-64.lock"}


def test_pip_gets_its_option_for_what_the_spec_takes_against_its_requires_python() -> None:
    """uv heeds no Requires-Python of what is pinned, and has no such option."""
    pin = structs.replace(wheel("server", "1.0"), requires_python="<3.12,>=3.9")
    one = structs.replace(target("cu126-volta"), pins=(pin,))
    text = requirements_txt(sample_lock(), one)
    assert "#   pip install --require-hashes --no-deps --ignore-requires-python -r requirements.txt\n" in text
    assert "uv pip sync requirements.txt\n" in text
    environment = conda_environment(sample_lock(), one, {})
    assert "#   PIP_IGNORE_REQUIRES_PYTHON=1 conda env create --file environment.yml" in environment
