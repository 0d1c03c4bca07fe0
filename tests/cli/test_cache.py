"""`envspec cache`: what is in it, and what goes."""

import os
import time
from pathlib import Path

import pytest
from support.documents import valid
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

import envspec.cli
from envspec.app.cache_contents import KINDS
from envspec.base.documents import read_json

DAY = 86400


@pytest.fixture
def filled(machine: Machine, index: Index) -> Machine:
    """A machine that locked something, so that its cache has something of envspec's own making."""
    index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"))
    machine.locked(spec=cpu("alpha"))
    return machine


def asked(machine: Machine, *arguments: str) -> dict[str, object]:
    ran = machine.envspec("cache", *arguments, "--json", status=0)
    document: dict[str, object] = valid(ran.out, "cache")
    return document


def put(machine: Machine, path: str, size: int, days: float = 0) -> Path:
    """A file of that size in the cache, used so long ago; its folder too."""
    made = machine.cache / path
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_bytes(b"x" * size)
    then = time.time() - days * DAY
    os.utime(made, (then, then))
    os.utime(made.parent, (then, then))
    return made


def kinds(document: dict[str, object]) -> dict[str, int]:
    listed = document["kinds"]
    assert isinstance(listed, list)
    return {row["kind"]: row["entries"] for row in listed}


def test_everything_that_envspec_makes_is_of_a_kind(filled: Machine) -> None:
    document = asked(filled, "size")
    assert document["foreign"] == []
    assert kinds(document)["metadata"] == 2 and kinds(document)["releases"] == 2
    ran = filled.envspec("cache", "size")
    assert "METADATA of wheels" in ran.out and ran.out.endswith(f" in {filled.cache}\n")
    assert filled.envspec("cache", "dir").out == f"{filled.cache}\n"


def test_the_schema_has_every_kind() -> None:
    schema = read_json((Path(envspec.cli.__file__).parent / "schemas" / "cache.json").read_bytes())
    assert set(schema["properties"]["kinds"]["items"]["properties"]["kind"]["enum"]) == set(KINDS)


def test_nothing_is_there_and_nothing_is_made(machine: Machine) -> None:
    for command in (["size"], ["clean"], ["prune", "--older-than", "1d"]):
        assert asked(machine, *command)["size"] == 0
    assert not machine.cache.exists()


def test_prune_by_age(filled: Machine) -> None:
    old = put(filled, "artifacts/" + "0" * 64, 1000, days=40)
    young = put(filled, "artifacts/" + "1" * 64, 1000, days=20)
    document = asked(filled, "prune", "--older-than", "30d")
    assert document["removed"] == {"entries": 1, "size": 1000, "kept": []}
    assert not old.exists() and young.exists()


def test_prune_by_size_takes_the_oldest_use(filled: Machine) -> None:
    files = [put(filled, f"artifacts/{number:064}", 1_000_000, days=number) for number in (3, 1, 2)]
    ran = filled.envspec("cache", "prune", "--max-size", "1.5 MB")
    assert ran.status == 0 and ran.out.startswith("removed 2.0 MB, "), ran.out
    assert [path.exists() for path in files] == [False, True, False]


def test_a_conda_package_goes_whole_with_its_mark(filled: Machine) -> None:
    inside = put(filled, "conda/packages/lib-1.0-0/share/a", 1000, days=50)
    folder = filled.cache / "conda" / "packages" / "lib-1.0-0"
    mark = put(filled, "conda/packages/lib-1.0-0.lock", 40, days=50)
    then = time.time() - 50 * DAY
    os.utime(folder, (then, then))
    put(filled, "conda/packages/.cache.lock", 0)
    assert kinds(asked(filled, "size"))["conda-packages"] == 1
    asked(filled, "prune", "--older-than", "30d")
    assert not inside.exists() and not folder.exists() and not mark.exists()
    assert (filled.cache / "conda" / "packages" / ".cache.lock").exists(), "what rattler's installers hold"


@pytest.mark.slow
def test_clean_leaves_what_isnt_ours(filled: Machine) -> None:
    notes = put(filled, "notes.txt", 5)
    thesis = put(filled, "my-thesis/chapter", 5)
    document = asked(filled, "clean")
    assert document["size"] == 0 and document["foreign"] == ["my-thesis", "notes.txt"]
    assert notes.exists() and thesis.exists()
    # and the next lock finds out everything again
    assert filled.envspec("lock", "specs/demo.toml", "--upgrade").status == 0


def test_clean_of_one_kind(filled: Machine) -> None:
    document = asked(filled, "clean", "metadata")
    assert "metadata" not in kinds(document) and "releases" in kinds(document)
    ran = filled.envspec("cache", "clean", "metdata")
    assert ran.status == 2 and ran.hint == "hint: did you mean metadata?"


def test_scratch_of_a_run_stays_and_that_of_a_killed_one_goes(filled: Machine) -> None:
    from envspec.base.scratch import _host

    running = put(filled, f"scratch/{os.getpid()}-{_host()}-aaaa/x", 5)
    dead = put(filled, f"scratch/999999999-{_host()}-bbbb/x", 5)
    elsewhere = put(filled, "scratch/999999999-0badc0de-cccc/x", 5)
    asked(filled, "prune", "--older-than", "30d")
    assert running.exists() and elsewhere.exists() and not dead.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prune"], "isn't told what may go"),
        (["prune", "--older-than", "30"], "--older-than: '30' is no age"),
        (["prune", "--max-size", "20"], "--max-size: '20' is no size"),
    ],
)
def test_what_it_isnt_told(machine: Machine, arguments: list[str], words: str) -> None:
    ran = machine.envspec("cache", *arguments)
    assert ran.status == 2 and words in ran.err and ran.hint


def bound(machine: Machine, size: str) -> None:
    path = machine.configure("")
    path.write_text(path.read_text() + f'[cache]\nmax-size = "{size}"\n')


def test_a_bound_is_kept_after_a_lock(filled: Machine) -> None:
    old = put(filled, "artifacts/" + "0" * 64, 2_000_000, days=1)
    new = put(filled, "artifacts/" + "1" * 64, 500_000)
    bound(filled, "1 MB")
    ran = filled.envspec("lock", "specs/demo.toml", status=0)
    assert "note: 2.0 MB removed from the cache, which [cache] max-size bounds" in ran.err
    assert not old.exists() and new.exists()
    # what was used within the hour stays: another run may be at it
    bound(filled, "1 kB")
    assert filled.envspec("lock", "specs/demo.toml").status == 0
    assert new.exists()
    assert filled.envspec("cache", "prune").status == 0
    assert not new.exists()


def test_use_counts_and_not_when_it_was_fetched(filled: Machine) -> None:
    path = next((filled.cache / "metadata-v2").rglob("*.json"))
    then = time.time() - 50 * DAY
    os.utime(path, (then, then))
    for other in (filled.cache / "metadata-v2").rglob("*.json"):
        os.utime(other, (then, then))
    filled.locked("--upgrade")
    assert path.stat().st_mtime > time.time() - 60
