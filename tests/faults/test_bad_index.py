"""Indexes that go wrong: retried where that helps, then exit 3 with the URL and what to do; fine once they're well."""

import re
import time

import pytest
from support.index import Fault, Index, hanging, html_error, other_bytes, passing, reset, status, truncated
from support.machine import Machine, Ran, cpu
from support.matrix import first_by_day
from support.packages import wheel

pytestmark = pytest.mark.e2e


@pytest.fixture
def packages(index: Index) -> Index:
    return index.add(wheel("alpha", "1.0", "beta>=2"), wheel("beta", "1.0"), wheel("beta", "3.0"))


def quick(machine: Machine, *, seconds: str = "1", retries: str = "0") -> Ran:
    return machine.envspec("lock", "specs/demo.toml", env={"UV_HTTP_TIMEOUT": seconds, "UV_HTTP_RETRIES": retries})


PAGE, FILE, METADATA = "^/simple/beta/", r"^/files/.*whl$", r"^/files/.*\.metadata$"


@pytest.mark.parametrize(
    ("path", "fault", "said"),
    first_by_day(
        1,
        [
            (PAGE, status(500), "answered HTTP 500 after 0 retries"),
            (PAGE, status(403), "HTTP 403"),
            (PAGE, truncated, "IncompleteRead"),
            (PAGE, hanging, "timed out"),
            (PAGE, html_error, "serves a web page that isn't an index page"),
            (PAGE, reset, "/simple/beta/"),
            (METADATA, status(500), "answered HTTP 500 after 0 retries"),
            (METADATA, truncated, "IncompleteRead"),
            (METADATA, hanging, "timed out"),
        ],
    ),
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_told_and_survived(machine: Machine, packages: Index, path: str, fault: Fault, said: str) -> None:
    machine.spec(cpu("alpha"))
    packages.fail(path, fault)
    started = time.monotonic()
    ran = quick(machine)
    assert ran.status == 3, ran.out + ran.err
    assert time.monotonic() - started < 30
    assert ran.out == "" and len(ran.err.splitlines()) == 2
    assert ran.error.startswith("error: cpu: ") and said in ran.error and packages.origin in ran.error
    assert ran.hint
    assert not machine.locks.exists() or machine.files() == {}
    packages.heal()
    assert quick(machine, seconds="10").status == 0, "a fault that is over must not be remembered"


@pytest.mark.parametrize("fault", [status(404), html_error])
def test_metadata_that_is_not_beside_a_wheel_is_read_from_it(machine: Machine, packages: Index, fault: Fault) -> None:
    machine.spec(cpu("alpha"))
    packages.fail(METADATA, fault)
    machine.locked()
    assert machine.versions("cpu") == {"alpha": "1.0", "beta": "3.0"}


@pytest.mark.parametrize(
    ("fault", "said"),
    first_by_day(
        3,
        [
            (status(500), "500"),
            (status(404), "404"),
            (truncated, "alpha-1.0-py3-none-any.whl"),
            (hanging, "alpha-1.0-py3-none-any.whl"),
            (html_error, "alpha-1.0-py3-none-any.whl"),
            (other_bytes, "alpha-1.0-py3-none-any.whl"),
        ],
    ),
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_files_of_an_index_without_sidecars(machine: Machine, packages: Index, fault: Fault, said: str) -> None:
    packages.sidecars = False
    machine.spec(cpu("alpha"))
    packages.fail(FILE, fault)
    ran = quick(machine)
    assert ran.status == 3, ran.out + ran.err
    assert said in ran.error and ran.hint
    packages.heal()
    assert quick(machine, seconds="10").status == 0


@pytest.mark.parametrize("path", [PAGE, METADATA])
def test_what_passes_is_retried(machine: Machine, packages: Index, path: str) -> None:
    machine.spec(cpu("alpha"))
    packages.fail(path, passing(503, 1))
    assert quick(machine, retries="1").status == 0


@pytest.mark.slow
def test_only_envspecs_own_reading_meets_the_fault(machine: Machine, packages: Index) -> None:
    """uv's cache holds the metadata, envspec's doesn't: the fault is then told by envspec itself."""
    machine.spec(cpu("alpha"))
    assert quick(machine).status == 0
    for fault, said in (
        (status(500), "answered HTTP 500 after 0 retries"),
        (reset, "can't be read"),
        (hanging, "can't be read"),
    ):
        packages.heal()
        packages.fail("^/files/", fault)
        env = {
            "ENVSPEC_CACHE_DIR": str(machine.base / said.replace(" ", "-")),
            "UV_HTTP_TIMEOUT": "1",
            "UV_HTTP_RETRIES": "0",
        }
        ran = machine.envspec("lock", "specs/demo.toml", "--upgrade", env=env)
        assert ran.status == 3 and said in ran.error and f"{packages.origin}/files/" in ran.error, ran.err


def test_nobody_listens(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"))
    machine.default = "http://bob:hunter2@127.0.0.1:9/simple"
    ran = quick(machine)
    assert ran.status == 3 and "http://127.0.0.1:9/simple/alpha/" in ran.error and "Connection refused" in ran.error
    assert ran.hint.startswith("hint: check the address and the network")
    assert "hunter2" not in ran.err


def test_a_host_that_does_not_exist(machine: Machine) -> None:
    machine.spec(cpu("alpha"))
    machine.default = "http://no-such-host.invalid/simple"
    ran = quick(machine)
    assert ran.status == 3 and "http://no-such-host.invalid/simple/alpha/" in ran.error, ran.err


def test_offline(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha"))
    for arguments, env in ((["--offline"], {}), ([], {"UV_OFFLINE": "1"})):
        ran = machine.envspec("lock", "specs/demo.toml", *arguments, env=env)
        assert ran.status == 3 and "run without --offline once" in ran.hint
        assert packages.asked == []
    assert machine.envspec("lock", "specs/demo.toml", env={"UV_OFFLINE": "0"}).status == 0
    packages.asked.clear()
    ran = machine.envspec("lock", "specs/demo.toml", "--upgrade", "--offline")
    assert ran.status == 0 and packages.asked == [], ran.err


def test_a_hang_is_bounded_by_itself(machine: Machine) -> None:
    """Nobody set a limit: uv is given one, and a longer one that the user set for pip is respected."""
    from envspec.net.fetch import read_timeout
    from envspec.resolve.uv.program import Uv

    for env, limit in (
        ({}, 30.0),
        ({"PIP_DEFAULT_TIMEOUT": "180"}, 180.0),
        ({"PIP_DEFAULT_TIMEOUT": "5"}, 30.0),
        ({"UV_HTTP_TIMEOUT": "7", "PIP_DEFAULT_TIMEOUT": "180"}, 7.0),
        ({"UV_REQUEST_TIMEOUT": "8"}, 8.0),
        ({"UV_HTTP_TIMEOUT": "soon"}, 30.0),
    ):
        assert read_timeout(env) == limit
        passed = Uv("uv", env).environment()
        assert passed["UV_HTTP_TIMEOUT"] == env.get("UV_HTTP_TIMEOUT", f"{limit:.0f}")


CONFLICT = "Because all versions of gamma depend on beta<2 and all versions of alpha depend on beta>=2"


def test_unsatisfiable(machine: Machine, packages: Index) -> None:
    packages.add(wheel("gamma", "1.0", "beta<2"))
    machine.spec(cpu("alpha", "gamma", targets="[targets.laptop]\nplatform = 'osx-arm64'\n"))
    ran = quick(machine)
    assert ran.status == 1
    lines = ran.err.splitlines()
    # no change of the spec was tried that leads to a lock, so none is named
    assert len(lines) == 1 and lines[0].startswith(f"error: specs/demo.toml:4:17: laptop: {CONFLICT}")
    assert re.search(r"the spec asks for alpha and gamma: no versions satisfy this target\.$", lines[0])
    assert not machine.locks.exists() or machine.files() == {}


@pytest.mark.slow
def test_unsatisfiable_names_every_target_that_shares_it(machine: Machine, packages: Index) -> None:
    machine.spec(cpu("alpha>5", targets="[targets.a]\nplatform = 'linux-64'\n[targets.b]\nplatform = 'linux-64'\n"))
    ran = quick(machine)
    assert ran.status == 1 and ran.error.startswith(
        "error: specs/demo.toml:4:17: a, b: Because only alpha==1.0 is available and the spec asks for alpha>5"
    )


@pytest.mark.slow
def test_one_impossible_target_of_two_writes_nothing(machine: Machine, packages: Index) -> None:
    machine.locked(spec=cpu("alpha"))
    before = machine.files()
    targets = "[targets.cpu]\nplatform = 'linux-64'\n[targets.other]\nplatform = 'win-64'\n"
    targets += "[targets.other.pip]\ndependencies = ['nosuch']\n"
    machine.spec(cpu("alpha", targets=targets))
    ran = quick(machine)
    assert ran.status == 1 and ran.error.startswith("error: specs/demo.toml:11:17: other: ") and "nosuch" in ran.error
    assert machine.files() == before
