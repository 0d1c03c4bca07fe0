"""What lock takes otherwise than uv is told, with all that moves for it."""

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import Dist, wheel
from support.uv_questions import questions

from envspec.net.index_proxy.releases import Release
from envspec.resolve.pip.floors import moved_beside, raised_finding, refused_floors, rejected_findings


def test_a_raised_package_is_told_with_what_moves_for_it() -> None:
    """As nuscenes-devkit 1.2.0 with numpy 1, and datasets 5 with an older fsspec."""
    before, after = {"app": "1.0", "lib": "2.0", "old": "1.0"}, {"app": "2.0", "lib": "1.0", "fresh": "1.0"}
    told = raised_finding(before, after, ["app", "gone"])
    assert told is not None and told.code == "passed-over"
    assert told.message.startswith("app 2.0 is locked, not uv's 1.0: ")
    assert told.message.endswith("; with lib 1.0 for 2.0, fresh 1.0 besides, no old")
    assert raised_finding(after, after, ["app"]) is None


def test_what_moves_for_a_pre_release_that_isnt_taken_is_told_with_it() -> None:
    """As NumPy with numba."""
    before, now = {"numba": "0.63.0b1", "numpy": "2.5.4"}, {"numba": "0.64.0", "numpy": "2.4.6"}
    (told,) = rejected_findings({"numba": "0.63.0b1 is a pre-release"}, before, now, {})
    assert told.message == "numba 0.64.0 is locked: 0.63.0b1 is a pre-release; with numpy 2.4.6 for 2.5.4"
    assert not [*rejected_findings({"numba": "0.63.0b1 is a pre-release"}, before, now, {"numba": "0.64.0"})]


def test_of_many_moves_the_first_are_named() -> None:
    before = {f"p{n}": "1" for n in range(10)}
    assert moved_beside(before, dict.fromkeys(before, "2"), ["p0"]).endswith("p8 2 for 1, 1 more that differ")


def test_a_release_that_refuses_the_python_is_told_where_an_older_one_names_it(machine: Machine, index: Index) -> None:
    """blis 1.2.1 and 1.1.0 on Python 3.13."""
    index.add(
        wheel("lib", "1.0", tag="cp312-cp312-manylinux_2_17_x86_64"), wheel("lib", "2.0", requires_python="<3.12")
    )
    machine.spec(cpu("lib"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert "note: cpu: lib 1.0 is locked: 2.0 doesn't take Python 3.12 (Requires-Python <3.12)" in ran.err
    assert machine.envspec("lock", "specs/demo.toml").err == ""


def test_a_pre_release_of_uvs_is_told(machine: Machine, index: Index) -> None:
    """numba 0.63.0b1, which goes with a newer numpy than 0.64."""
    index.add(wheel("lib", "1.0", "mid"), wheel("mid", "1.0", "num<2"), wheel("lib", "2.0rc1"))
    index.add(wheel("num", "1.0"), wheel("num", "2.0"))
    machine.spec(cpu("lib>=1", "num"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert "note: cpu: lib 1.0 is locked: 2.0rc1 is a pre-release, which nothing asks for" in ran.err


def test_a_floor_that_metadata_refuses_is_no_question(machine: Machine, index: Index) -> None:
    """lib can be no other release, and says so itself: uv is asked once, as the newer base was never to be had."""
    index.add(*(wheel("base", f"{major}.0") for major in range(1, 7)), wheel("lib", "1.0", "base<2"))
    ran = machine.envspec("lock", machine.spec(cpu("base", "lib")), status=0)
    assert machine.versions("cpu") == {"base": "1.0", "lib": "1.0"}
    assert "note: cpu: far below the newest that each gets alone: base 1.0 (6.0); all at their newest don't" in ran.err
    assert "lib 1.0 requires base<2" in ran.err


def test_a_floor_that_cant_be_held_is_told_with_what_stands_in_the_way(machine: Machine, index: Index) -> None:
    index.add(wheel("base", "1.0"), wheel("base", "2.0"), wheel("lib", "1.0"))
    index.add(*(wheel("lib", f"{major}.0", "base>=2") for major in range(2, 8)))
    ran = machine.envspec("lock", machine.spec(cpu("lib", "base<2")), status=0)
    assert machine.versions("cpu") == {"base": "1.0", "lib": "1.0"}
    assert "note: cpu: far below the newest that each gets alone: lib 1.0 (7.0); all at their newest don't" in ran.err
    assert "lib 7.0 requires base>=2, and base 1.0 is the newest that the spec admits" in ran.err
    index.add(wheel("lib", "8.0", "mid"), wheel("mid", "1.0", "base>=2"))
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade", status=0)
    # the floor isn't what the spec says
    assert "And because the spec asks for base<2 and lib alone gets 8.0: no versions satisfy" in ran.err


def old_library(index: Index, *, oldest: str = "2021-06-01") -> None:
    """As huggingface-hub 2, which transformers refuses since 4.12.2 of 2021. So many of its releases refuse it that uv
    chooses one of them before hub."""
    releases: list[tuple[str, ...]] = [
        ("hub", "1.0", "2024-06-01"),
        ("hub", "2.0", "2025-09-01"),
        ("trans", "1.0", oldest),
    ]
    releases += [("trans", f"2.{minor}", f"2024-0{minor}-01", "hub<2") for minor in range(1, 9)]
    for name, version, day, *requires in (*releases, ("app", "1.0", "2024-01-01", "trans")):
        index.add(wheel(name, version, *requires), uploaded=f"{day}T00:00:00Z")


def test_a_floor_that_sets_another_package_further_back_is_not_held(machine: Machine, index: Index) -> None:
    old_library(index)
    machine.spec(cpu("app", "hub"))
    ran = machine.envspec("lock", "specs/demo.toml", status=0)
    assert machine.versions("cpu") == {"app": "1.0", "hub": "1.0", "trans": "2.8"}
    assert ran.err.splitlines() == [
        "note: cpu: far below the newest that each gets alone: hub 1.0 (2.0); all at their newest don't go together: "
        "beside hub 2.0 trans goes back from 2.8 to 1.0"
    ]
    assert machine.envspec("lock", "specs/demo.toml", "--upgrade", status=0).out.startswith("unchanged")


def test_what_the_last_lock_had_holds_all_the_same_and_what_is_far_behind_for_it_is_a_warning(
    machine: Machine, index: Index
) -> None:
    old_library(index)
    machine.locked(spec=cpu("app", "hub>=2"))
    ran = machine.envspec("lock", machine.spec(cpu("app", "hub")), "--upgrade", status=0)
    assert machine.versions("cpu") == {"app": "1.0", "hub": "2.0", "trans": "1.0"}
    (warned,) = ran.err.splitlines()
    assert warned.startswith("warning: cpu: trans 1.0 is locked, not 2.8: hub 2.0 is locked, not uv's 1.0: ")
    machine.locked("--upgrade", spec=cpu("app", "hub<=1.0"))
    assert machine.versions("cpu")["trans"] == "2.8"


def test_a_floor_that_gains_more_than_it_costs_is_held(machine: Machine, index: Index) -> None:
    """What is far behind for it is a warning."""
    old_library(index, oldest="2023-06-01")
    ran = machine.envspec("lock", machine.spec(cpu("app", "hub")), status=0)
    assert machine.versions("cpu") == {"app": "1.0", "hub": "2.0", "trans": "1.0"}
    assert ran.err.startswith("warning: cpu: trans 1.0 is locked, not 2.8: ")


def test_a_correction_is_told_that_keeps_uvs_search_from_an_older_release(machine: Machine, index: Index) -> None:
    """verl with vLLM: for a newer fsspec uv goes back to datasets 2.14.4, which fails beside pyarrow 24. Where its
    search didn't come to one of these, nothing is told."""
    index.add(wheel("app", "1.0"), wheel("app", "2.0", "fsspec>=2026.3"), wheel("pyarrow", "24.0.0"))
    index.add(wheel("datasets", "2.14.4", "fsspec", "pyarrow"), wheel("datasets", "4.8.5", "fsspec<2026.3", "pyarrow"))
    index.add(wheel("fsspec", "2026.2.0"), wheel("fsspec", "2026.4.0"))
    told = "note: cpu: datasets 4.8.5 locked, because datasets 2.14.6 and older subclass pyarrow.PyExtensionType"
    # the second time uv has all METADATA in its cache
    for asked, said in (("app", True), ("app", True), ("app<2", False)):
        ran = machine.envspec("lock", machine.spec(cpu(asked, "datasets", "pyarrow")), "--upgrade", status=0)
        assert machine.versions("cpu")["datasets"] == "4.8.5"
        assert (told in ran.err) == said, ran.err


@pytest.mark.parametrize("held", ["a", "b"])
def test_targets_that_become_one_request_keep_the_newer_of_each_package(
    machine: Machine, index: Index, held: str
) -> None:
    """As where a merge brings an upgrade of one target beside another one's move to its CUDA."""
    index.add(*(wheel(name, version) for name in ("lib", "other") for version in ("1.0", "2.0")))
    both = "".join(f"[targets.{one}]\nplatform = 'linux-64'\n" for one in "ab")
    bounds = {held: "['lib<2', 'other==2']", {"a": "b", "b": "a"}[held]: "['lib==2', 'other<2']"}
    apart = "".join(f"[targets.{one}.pip]\nconstraints = {lines}\n" for one, lines in bounds.items())
    machine.locked(spec=cpu("lib", "other", targets=both + apart))
    assert machine.versions("a") != machine.versions("b")
    index.add(wheel("lib", "3.0"))
    ran = machine.envspec("lock", machine.spec(cpu("lib", "other", targets=both)), status=0)
    assert machine.versions("a") == machine.versions("b") == {"lib": "2.0", "other": "2.0"}
    assert "goes back" not in ran.err


UNFIT = wheel("app", "9.0", "base", tag="cp312-cp312-manylinux_2_39_x86_64")
"""The target may be why its newer releases are passed over: uv's unbounded answer is the second of two questions."""


def set_back(index: Index, name: str, bound: str) -> None:
    """Add a package whose oldest release has no bound; so many others have one that uv chooses one of them before what
    that is on."""
    index.add(wheel(name, "1.0"), *(wheel(name, f"2.0.{patch}", bound) for patch in range(1, 9)))


@pytest.mark.parametrize(("dists", "taken"), [((), "9.0"), ((UNFIT,), "4.0")])
def test_an_upgrade_asks_for_what_the_last_lock_had_before_what_is_new(
    machine: Machine, index: Index, dists: tuple[Dist, ...], taken: str
) -> None:
    """core goes back without a floor; all have a solution at their newest."""
    index.add(*(wheel("core", f"{major}.0") for major in (1, 2)), wheel("data", "4.0"), wheel("app", "0.1"))
    machine.locked(spec=cpu("app", "core", "data"))
    index.add(*(wheel("data", f"{major}.0") for major in range(5, 10)), wheel("app", "1.0", "base", "side"), *dists)
    set_back(index, "base", "data<5")
    set_back(index, "side", "core<2")
    with questions() as asked:
        ran = machine.envspec("lock", "specs/demo.toml", "--upgrade", status=0)
    assert max(map(len, asked.values())) == 3 and machine.versions("cpu")["data"] == taken
    assert machine.versions("cpu")["core"] == "2.0"
    far = "far below the newest that each gets alone: data 4.0 (9.0); what the last lock had was asked for" in ran.err
    assert far == bool(dists), ran.err


@pytest.mark.parametrize(("dists", "taken"), [((), "9.0"), ((UNFIT,), "4.0")])
def test_a_deep_conflict_lets_other_floors_go_where_the_target_may_have_a_part(
    machine: Machine, index: Index, dists: tuple[Dist, ...], taken: str
) -> None:
    """No METADATA of the two says that the newest tool and the newest core don't go together."""
    index.add(*(wheel("data", f"{major}.0") for major in (1, *range(4, 10))), wheel("app", "1.0", "base"), *dists)
    set_back(index, "base", "data<5")
    index.add(*(wheel("core", f"{major}.0") for major in (1, 2)), wheel("deep", "1.0", "core<2"))
    index.add(wheel("tool", "1.0"), wheel("tool", "2.0", "deep"))
    with questions() as asked:
        ran = machine.envspec("lock", machine.spec(cpu("app", "core", "data", "tool")), status=0)
    assert max(map(len, asked.values())) == 3 and machine.versions("cpu")["data"] == taken
    assert ("far below the newest that each gets alone: data 4.0 (9.0)" in ran.err) == bool(dists), ran.err


PAGES = {"one": ("1.0", "2.0"), "two": ("1.0", "2.0"), "shared": ("1.0", "2.0", "3.0"), "firm": ("1.0",)}


@pytest.mark.parametrize(
    ("lines", "refused"),
    [
        ({"one": ["two<2"]}, {"one", "two"}),
        ({"one": ["shared<2"], "two": ["shared>=3"]}, {"one", "two"}),
        ({"one": ["shared<3"], "two": ["shared>=2"]}, set()),
        ({"one": ["two<2", "firm>1"]}, {"one"}),
    ],
)
def test_floors_that_refuse_each_other_are_no_question(lines: dict[str, list[str]], refused: set[str]) -> None:
    """But for one that can't be held anyway: the other one may."""
    wanted, taken = {"one": "2.0", "two": "2.0", "firm": "1.0"}, {"one": "1.0", "two": "1.0", "firm": "1.0"}
    found = refused_floors(
        wanted,
        taken,
        (),
        {},
        lambda name, version: lines.get(name, ()),
        lambda name: [Release(one, (), False, False, None, None) for one in reversed(PAGES[name])],
    )
    assert {name for name, _ in found} == refused
