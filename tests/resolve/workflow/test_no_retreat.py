"""No answer by retreat: what lock refuses, what it takes instead of uv's first answer, and the ways that it prints."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Index, status
from support.machine import Machine, Ran, cpu
from support.packages import Dist, sdist, wheel
from support.uv_questions import questions

from envspec.lock.read import load

pytestmark = pytest.mark.e2e


def of(one: Dist, requires_python: str) -> Dist:
    return replace(one, requires_python=requires_python)


def locked(machine: Machine, *arguments: str) -> dict[str, str]:
    """The versions of the lock that this run writes."""
    machine.envspec("lock", "specs/demo.toml", *arguments, status=0)
    (target,) = load(machine.lock_path()).targets
    return {pin.name: pin.version for pin in target.pins}


def refused(machine: Machine) -> Ran:
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 1 and not machine.lock_path().exists(), ran.err
    return ran


@pytest.fixture
def server(index: Index) -> Index:
    """A package whose newest release refuses Python 3.13, of which an older one says nothing."""
    return index.add(of(wheel("server", "2.0"), ">=3.9,<3.13"), wheel("server", "1.0"))


def test_a_release_that_refuses_the_python_isnt_answered_by_one_that_says_nothing(
    machine: Machine, server: Index
) -> None:
    machine.spec(cpu("server", python="3.13"))
    ran = refused(machine)
    assert "server 2.0 doesn't take Python 3.13 (Requires-Python >=3.9,<3.13), and 1.0 says nothing of it" in ran.error
    assert ran.error.startswith("error: specs/demo.toml:4:")
    for way in ('python = "3.12"', '"server<=1.0"', 'accept = { requires-python = { server = "why" } }'):
        assert way in ran.hint


def test_what_the_target_isnt_asked_for_has_no_part_in_it(machine: Machine, server: Index) -> None:
    """As unsloth's triton-windows on Linux."""
    server.add(wheel("app", "1.0"))
    machine.spec(cpu("app", 'server; sys_platform == "win32"', python="3.13"))
    assert locked(machine) == {"app": "1.0"}
    assert server.paths("/server/") == []


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (cpu("server", python="3.12"), "2.0"),
        (cpu("server<=1.0", python="3.13"), "1.0"),
        (cpu("server", python="3.13", extra='accept = { requires-python = { server = "tested" } }'), "2.0"),
    ],
    ids=["python", "bound", "accept"],
)
def test_each_way_that_is_printed_works(machine: Machine, server: Index, text: str, version: str) -> None:
    machine.spec(text)
    assert locked(machine)["server"] == version
    assert machine.envspec("check").status == 0


def test_a_retreat_once_taken_doesnt_stay(machine: Machine, server: Index) -> None:
    machine.spec(cpu("server==2.0", python="3.12"))
    locked(machine)
    ran = machine.envspec("lock", machine.spec(cpu("server", python="3.13")))
    assert ran.status == 1 and "server 2.0 doesn't take Python 3.13" in ran.error


def test_an_older_release_that_was_locked_doesnt_stay_once_its_bound_is_gone(machine: Machine, server: Index) -> None:
    machine.spec(cpu("server<=1.0", python="3.13"))
    assert locked(machine)["server"] == "1.0"
    ran = machine.envspec("lock", machine.spec(cpu("server", python="3.13")))
    assert ran.status == 1 and "server 2.0 doesn't take Python 3.13" in ran.error
    assert '"server<=1.0"' in ran.hint, "the edit that keeps what was locked"


def test_a_package_on_the_way_doesnt_go_back_instead(machine: Machine, index: Index) -> None:
    """app 2 needs the release that refuses this Python; app 1 needs nothing, and says nothing of it either."""
    index.add(of(wheel("server", "2.0"), ">=3.9,<3.13"), of(wheel("server", "1.5"), ">=3.9,<3.14"))
    index.add(wheel("app", "2.0", "server>=2"), wheel("app", "1.0"))
    machine.spec(cpu("app", python="3.13"))
    assert "server 2.0 doesn't take Python 3.13" in refused(machine).error


@pytest.mark.slow
def test_only_ways_that_give_a_lock_are_printed(machine: Machine, index: Index) -> None:
    """On Python 3.12 the newest needs what no index has; the older one needs a source."""
    index.add(of(wheel("server", "2.0", "gone; python_version < '3.13'"), ">=3.9,<3.13"))
    index.add(wheel("server", "1.0", "old"), sdist("old", "1.0"))
    machine.spec(cpu("server", python="3.13"))
    ran = refused(machine)
    source = 'and if you trust its code, add to [pip]: allow-source = ["old"]'
    assert ran.hint.startswith(f'hint: python = "3.12" {source}; or write "server<=1.0" {source}; or if you know')
    for spec in (cpu("server", python="3.12"), cpu("server<=1.0", python="3.13")):
        machine.spec(spec.replace("[pip]", "[pip]\nallow-source = ['old']", 1))
        assert locked(machine) == {"old": "1.0", "server": "1.0"}


def test_several_refusals_have_ways_that_hold_for_all(machine: Machine, server: Index) -> None:
    server.add(of(wheel("other", "2.0"), ">=3.9,<3.12"), wheel("other", "1.0"))
    machine.spec(cpu("server", "other", python="3.13"))
    ran = refused(machine)
    assert "server 2.0" in ran.error and "other 2.0" in ran.error
    assert 'python = "3.11"' in ran.hint and 'python = "3.12"' not in ran.hint
    assert 'accept = { requires-python = { other = "why", server = "why" } }' in ran.hint


def test_a_dry_run_lists_what_is_refused_of_several_specs(machine: Machine, server: Index) -> None:
    server.add(wheel("fine", "1.0"))
    machine.spec(cpu("server", python="3.13"))
    machine.spec(cpu("fine", python="3.13").replace("demo", "fine"), "fine")
    ran = machine.envspec("lock", "specs/demo.toml", "specs/fine.toml", "--dry-run", "--json")
    document = json.loads(ran.out)
    assert ran.status == 1 and [one["status"] for one in document["specs"]] == ["refused", "would-change"]
    assert "server<=1.0" in document["specs"][0]["errors"][0]["hint"]


@pytest.mark.slow
def test_a_dry_run_lists_a_fresh_lock_that_would_be_refused_now(machine: Machine, index: Index, tmp_path: Path) -> None:
    index.add(wheel("server", "1.0"), wheel("fine", "1.0"))
    machine.spec(cpu("server", python="3.13"))
    machine.spec(cpu("fine", python="3.13"), "fine")
    assert machine.envspec("lock").status == 0
    index.add(of(wheel("server", "2.0"), ">=3.9,<3.13"))
    later = {"XDG_CACHE_HOME": str(tmp_path), "ENVSPEC_CACHE_DIR": str(tmp_path), "UV_CACHE_DIR": str(tmp_path / "uv")}
    assert machine.envspec("lock", env=later).status == 0
    ran = machine.envspec("lock", "--dry-run", "--json", env=later)
    said = [(one["spec"], one["status"]) for one in json.loads(ran.out)["specs"]]
    assert ran.status == 1 and said == [("specs/demo.toml", "refused"), ("specs/fine.toml", "fresh")]
    index.fail("", status(500))
    machine.envspec("lock", "specs/fine.toml", "--dry-run", env=later, status=0)


NEWER_GLIBC = "cp38-abi3-manylinux_2_31_x86_64"


@pytest.mark.slow
def test_what_stays_far_behind_is_a_warning_above_everything_else(machine: Machine, index: Index) -> None:
    for n in range(1, 8):
        bound = "guidance<2" if n < 3 else "guidance>=2"
        index.add(wheel("server", f"0.{n}", bound), uploaded=f"202{n}-01-01T00:00:00Z")
    index.add(wheel("guidance", "1.0"), wheel("guidance", "2.0", tag=NEWER_GLIBC))
    machine.spec(cpu("server", extra="sources = { nobody = 'pypi' }"))
    first, hint, *more = machine.envspec("lock", "specs/demo.toml").err.splitlines()
    said = "cpu: server 0.2 is locked, not 0.7: guidance 2.0 wants glibc 2.31, and the target has 2.28"
    assert first == f"warning: {said}" and hint == 'hint: if the machines have it, set glibc = "2.31" in the target'
    assert any(line.startswith("warning: ") for line in more), "another warning, below it"
    machine.spec(cpu("server").replace("linux-64'", "linux-64'\nglibc = '2.31'"))
    assert locked(machine, "--upgrade")["server"] == "0.7"


def test_a_conflict_in_which_the_target_has_no_part_stays_uvs(machine: Machine, index: Index) -> None:
    index.add(*(wheel("app", f"{n}.0", "lib<2" if n < 8 else "lib<1") for n in range(1, 9)))
    index.add(wheel("lib", "1.0"), wheel("other", "1.0", "lib>=1"))
    ran = machine.envspec("lock", machine.spec(cpu("app", "other")))
    assert ran.status == 0 and "warning" not in ran.err, ran.err


@pytest.mark.slow
def test_where_nothing_is_behind_uv_runs_once(machine: Machine, index: Index) -> None:
    """Once more where a bound can't be held."""
    index.add(wheel("app", "1.0"), wheel("lib", "1.0"))
    machine.spec(cpu("app", "lib"))
    with questions() as asked:
        locked(machine)
    assert [*map(len, asked.values())] == [1]
    index.add(wheel("app", "2.0", "lib<1"))
    with questions() as asked:
        assert locked(machine, "--upgrade") == {"app": "1.0", "lib": "1.0"}
    assert max(map(len, asked.values())) <= 2


def test_a_release_that_lifts_the_bound_is_named(machine: Machine, server: Index) -> None:
    server.add(of(wheel("server", "3.0"), ">=3.9"))
    machine.spec(cpu("server<3", python="3.13"))
    assert 'write "server==3.0": the bounds leave it out' in refused(machine).hint


def test_a_bound_at_this_minor_is_an_answer(machine: Machine, server: Index) -> None:
    server.add(of(wheel("server", "1.5"), ">=3.9,<3.14"))
    machine.spec(cpu("server", python="3.13"))
    assert locked(machine)["server"] == "1.5"


def test_a_floor_on_python_is_answered_by_an_older_release(machine: Machine, index: Index) -> None:
    index.add(of(wheel("server", "2.0"), ">=3.12"), of(wheel("server", "1.0"), ">=3.9"))
    machine.spec(cpu("server", python="3.10"))
    assert locked(machine)["server"] == "1.0"


def test_wheels_for_older_pythons_alone_are_answered_by_the_source(machine: Machine, index: Index) -> None:
    """An older release without any mark of a Python isn't what uv would take either."""
    index.add(wheel("fast", "2.0", tag="cp312-cp312-manylinux_2_28_x86_64"), sdist("fast", "2.0"), wheel("fast", "1.0"))
    machine.spec(cpu("fast", python="3.13"))
    assert "fast 2.0" in refused(machine).error
    machine.spec(cpu("fast", python="3.12"))
    assert locked(machine)["fast"] == "2.0"


@pytest.mark.slow
def test_a_package_of_the_spec_doesnt_go_back_for_what_others_lead_to(machine: Machine, index: Index) -> None:
    """Whatever uv reads first takes the newest base, and data goes back to a release that had no bound yet."""
    index.add(
        wheel("base", "2026.9"), wheel("base", "2026.6"),
        wheel("data", "5.0", "base<=2026.6"), wheel("data", "2.0", "base"),
        wheel("anchor", "1.0", "base"),
    )  # fmt: skip
    for names in (("anchor", "data"), ("data", "anchor"), ("a-first", "data")):
        index.add(wheel("a-first", "1.0", "base>=2026"))
        machine.spec(cpu(*names))
        assert locked(machine, "--upgrade")["data"] == "5.0"


@pytest.mark.slow
def test_upgrades_reach_one_point(machine: Machine, index: Index) -> None:
    """`--upgrade` and `-P` of each package after the other change nothing back."""
    index.add(wheel("base", "1.0"), wheel("data", "1.0", "base"), wheel("anchor", "1.0", "base"))
    machine.spec(cpu("anchor", "data"))
    locked(machine)
    index.add(
        wheel("base", "3.0"), wheel("base", "2.0"), wheel("data", "2.0", "base<3"), wheel("anchor", "2.0", "base")
    )
    newest = {"anchor": "2.0", "base": "2.0", "data": "2.0"}
    assert locked(machine, "--upgrade") == newest
    for name in ("anchor", "base", "data"):
        assert locked(machine, "-P", name) == newest
    assert locked(machine, "--upgrade") == newest


@pytest.mark.slow
def test_no_package_of_the_spec_goes_below_the_last_lock(machine: Machine, index: Index) -> None:
    """Where the newest of all can't stand together, what was locked is the floor."""
    index.add(wheel("base", "1.0"), wheel("alpha", "2.0", "base<=1.0"), wheel("alpha", "1.0"), wheel("beta", "1.0"))
    machine.spec(cpu("alpha", "beta"))
    assert locked(machine)["alpha"] == "2.0"
    index.add(wheel("base", "2.0"), wheel("beta", "2.0", "base>=2.0"))
    found = locked(machine, "--upgrade")
    assert found["alpha"] == "2.0"


@pytest.mark.slow
def test_only_an_older_release_goes_back(machine: Machine, index: Index) -> None:
    """Its local part names a build, and a bound can't: neither torch 2.13.0+cpu nor another goes back to itself."""
    index.add(wheel("base", "1.0"), wheel("alpha", "2.0+cpu", "base<=1.0"), wheel("alpha", "1.0+cpu"))
    machine.spec(cpu("alpha"))
    assert locked(machine)["alpha"] == "2.0+cpu"
    ran = machine.envspec("lock", machine.spec(cpu("alpha", "base")))
    assert ran.status == 0 and "goes back" not in ran.err
    machine.spec(cpu("alpha", "base>=2.0"))
    index.add(wheel("base", "2.0"))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status == 0 and "alpha goes back from 2.0 to 1.0: " in ran.err, ran.err
    assert "to hold it" not in ran.err, "base>=2.0 refuses that: it was the floor of another run"


@pytest.mark.slow
def test_what_was_published_a_moment_ago_is_seen(machine: Machine, index: Index) -> None:
    """By an upgrade, and before it's said that nothing satisfies the spec: cached pages count for some minutes."""
    index.add(wheel("mine", "1.0"))
    machine.spec(cpu("mine"))
    assert locked(machine)["mine"] == "1.0"
    index.add(wheel("mine", "2.0"))
    assert locked(machine, "--upgrade")["mine"] == "2.0"
    index.add(wheel("mine", "3.0"))
    machine.spec(cpu("mine>=3"))
    assert locked(machine)["mine"] == "3.0"


PANDAS = (wheel("frame", "2.3", extras=["gpu"]), of(wheel("frame", "3.1", extras=["gpu", "ice"]), ">=3.13"))


def test_an_extra_that_only_a_newer_release_has_is_not_given_up(machine: Machine, index: Index) -> None:
    index.add(*PANDAS)
    machine.spec(cpu("frame[ice]"))
    said = "frame 2.3 has no extra ice, which the spec asks for, and 3.1, which has it, doesn't take Python 3.12"
    ran = refused(machine)
    assert said in ran.error and ran.hint.startswith(
        'hint: python = "3.13"; or write "frame": without the extra ice; or if'
    )
    machine.spec(cpu("frame[ice]", extra="accept = { retreat = { frame = 'why' } }"))
    assert locked(machine) == {"frame": "2.3"}


@pytest.mark.slow
def test_a_bound_of_envspecs_gives_no_extra_up(machine: Machine, index: Index) -> None:
    """jax[cuda13] in a target for CUDA 12 became jax 0.6.2, which has no such extra, and ran on the CPU. The hint was
    tried: it locks."""
    plugins = [wheel(f"jax-cuda{major}-plugin", "0.8.0") for major in (12, 13)]
    extras = [f'jax-cuda{major}-plugin; extra == "cuda{major}"' for major in (12, 13)]
    index.add(*plugins, wheel("jax", "0.6.2", extras[0], extras=["cuda12"]))
    index.add(wheel("jax", "0.8.0", *extras, extras=["cuda12", "cuda13"]))
    target = "[targets.t]\nplatform = 'linux-64'\ncuda = '12.8'\ngpus = ['H100']\n"
    machine.spec(cpu("jax[cuda13]", targets=target))
    ran = refused(machine)
    assert "jax-cuda13-plugin 0.8.0 belongs to CUDA 13, and the target is for CUDA 12.8" in ran.err
    assert 'write "jax[cuda12]"' in ran.err and "0.6.2" not in ran.err
    machine.spec(cpu("jax[cuda12]", targets=target))
    assert locked(machine) == {"jax": "0.8.0", "jax-cuda12-plugin": "0.8.0"}


@pytest.mark.slow
def test_an_extra_of_another_cuda_is_told_with_the_targets_own(machine: Machine, index: Index) -> None:
    """numba-cuda[cu12] for CUDA 13. The hint was tried: it locks."""
    extras = [f'frame-cu{major}; extra == "cu{major}"' for major in (12, 13)]
    index.add(*(wheel(f"frame-cu{major}", "3.1") for major in (12, 13)))
    index.add(wheel("frame", "3.1", *extras, extras=["cu12", "cu13"]))
    target = "[targets.t]\nplatform = 'linux-64'\ncuda = '13.0'\ngpus = ['H100']\n"
    machine.spec(cpu("frame[cu12]>=3", targets=target))
    assert 'hint: write "frame[cu13]>=3"; or ' in refused(machine).err
    machine.spec(cpu("frame[cu13]>=3", targets=target))
    assert locked(machine) == {"frame": "3.1", "frame-cu13": "3.1"}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["cuda-core", "nvidia-acme", "frame"])
def test_no_name_gives_an_extra_up(machine: Machine, index: Index, name: str) -> None:
    """cuda-core[cu13] for CUDA 12 became cuda-core 0.3.1, which has no such extra: what is named like the toolkit
    follows the target's CUDA, and what the spec asks of it counts all the same."""
    extras = [f'cuda-toolkit=={major}.*; extra == "cu{major}"' for major in (12, 13)]
    index.add(wheel("cuda-toolkit", "12.9.2"), wheel("cuda-toolkit", "13.5.0"), wheel(name, "0.3.1"))
    index.add(wheel(name, "1.2.2", *extras, extras=["cu12", "cu13"]))
    target = "[targets.t]\nplatform = 'linux-64'\ncuda = '12.8'\ngpus = ['H100']\n"
    machine.spec(cpu(f"{name}[cu13]", targets=target))
    assert f'hint: write "{name}[cu12]"; or ' in refused(machine).err
    machine.spec(cpu(f"{name}[cu12]", targets=target))
    assert locked(machine) == {name: "1.2.2", "cuda-toolkit": "12.9.2"}


@pytest.mark.parametrize("asked", ["frame[gpu]", "frame[ic]", "frame[ice]<3", "frame"])
def test_extras_count_where_they_are_asked_for_alone(machine: Machine, index: Index, asked: str) -> None:
    index.add(*PANDAS)
    machine.spec(cpu(asked))
    assert locked(machine) == {"frame": "2.3"}


def test_an_extra_behind_a_newer_glibc_names_it(machine: Machine, index: Index) -> None:
    newer = wheel("frame", "3.1", extras=["ice"], tag="py3-none-manylinux_2_34_x86_64")
    index.add(wheel("frame", "2.3"), newer)
    machine.spec(cpu("frame[ice]"))
    ran = refused(machine)
    assert "frame 2.3 has no extra ice" in ran.error and 'glibc = "2.34" in the target' in ran.hint


@pytest.mark.slow
def test_a_package_on_the_way_has_the_bound_as_a_constraint(machine: Machine, server: Index) -> None:
    """ai-edge-litert leads to backports-strenum 1.3, which refuses Python 3.11 and later."""
    server.add(wheel("app", "1.0", "server"))
    machine.spec(cpu("app", python="3.13"))
    way = 'constraints = ["server<=1.0"]'
    assert f"; or add to [pip]: {way}; or if" in refused(machine).hint
    machine.spec(cpu("app", python="3.13", extra=way))
    assert locked(machine) == {"app": "1.0", "server": "1.0"}


def test_an_extra_whose_packages_want_a_newer_glibc_names_it(machine: Machine, index: Index) -> None:
    ice = wheel("ice", "1.0", tag="py3-none-manylinux_2_34_x86_64")
    index.add(wheel("frame", "2.3"), wheel("frame", "3.1", 'ice; extra == "ice"', extras=["ice"]), ice)
    machine.spec(cpu("frame[ice]"))
    ran = refused(machine)
    why = "doesn't go with what the target has: ice 1.0 wants glibc 2.34, and the target has 2.28"
    assert ran.error.endswith(f"3.1, which has it, {why}")
    assert 'glibc = "2.34" in the target' in ran.hint
    machine.spec(cpu("frame[ice]").replace("linux-64'", "linux-64'\nglibc = '2.34'"))
    assert locked(machine) == {"frame": "3.1", "ice": "1.0"}


def test_what_is_given_up_is_told_once(machine: Machine, index: Index) -> None:
    index.add(wheel("boost", "2.0", "nvidia-nccl-cu13"), wheel("boost", "1.0", "nvidia-nccl-cu12"))
    index.add(wheel("nvidia-nccl-cu13", "2.30.0"), wheel("nvidia-nccl-cu12", "2.30.0"))
    machine.spec(cpu("boost").replace("linux-64'", "linux-64'\ncuda = '12.8'\ngpus = ['H100']"))
    ran = machine.envspec("lock", "specs/demo.toml", status=0)
    assert ran.err.count("boost 1.0 is locked, not 2.0") == 1 and "belongs to CUDA 13" in ran.err


@pytest.mark.slow
def test_a_newer_release_of_what_uv_went_back_to_is_a_way(machine: Machine, index: Index) -> None:
    """keras-cv 0.9 leads to tensorflow-metadata 0.5 of 2018, beside the protobuf of tensorflow 2.20."""
    index.add(of(wheel("schema", "0.5"), ">=2.7,<3"), wheel("schema", "1.0", "buf<4"), wheel("buf", "6.0"))
    index.add(wheel("data", "2.0", "schema"), wheel("data", "1.0"))
    machine.spec(cpu("data", "buf>=6", python="3.12"))
    ran = refused(machine)
    assert "schema 0.5 doesn't take Python 3.12" in ran.error
    way = 'constraints = ["schema>=1.0"]'
    assert f"add to [pip]: {way}; " in ran.hint
    machine.spec(cpu("data", "buf>=6", python="3.12", extra=way))
    assert locked(machine) == {"data": "1.0", "buf": "6.0"}


@pytest.mark.slow
def test_what_is_far_behind_for_another_target_is_a_warning_there_too(machine: Machine, index: Index) -> None:
    """As vLLM for glibc 2.28 and for 2.35."""
    for major in range(1, 7):
        needs = ["native"] if major > 1 else []
        index.add(wheel("server", f"{major}.0", *needs), uploaded=f"202{major}-01-01T00:00:00Z")
    index.add(wheel("native", "1.0", tag="cp312-cp312-manylinux_2_34_x86_64"))
    both = "[targets.old]\nplatform = 'linux-64'\n[targets.young]\nplatform = 'linux-64'\nglibc = '2.35'\n"
    ran = machine.envspec("lock", machine.spec(cpu("server", targets=both)), status=0)
    assert machine.versions("old") == machine.versions("young") == {"server": "1.0"}
    assert ran.err.splitlines() == [
        "warning: old: server 1.0 is locked, not 6.0: native 1.0 wants glibc 2.34, and the target has 2.28",
        'hint: if the machines have it, set glibc = "2.34" in the target',
        "warning: young: server 1.0 is locked, not 6.0: another target has it, and targets of one spec share versions",
    ]
    own = "[targets.young.pip]\ndependencies = ['server>=6.0']\n"
    ran = machine.envspec("lock", machine.spec(cpu("server", targets=both + own)), "--upgrade", status=0)
    assert "young" not in ran.err and machine.versions("young")["server"] == "6.0"
    assert machine.versions("old")["server"] == "1.0"
