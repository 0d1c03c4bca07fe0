"""Credentials reach the index they were given for, and nothing else: no lock, no output, no error, no cache."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.index import Index, status
from support.machine import Machine, Ran, cpu
from support.packages import sdist, wheel

pytestmark = pytest.mark.e2e

USER, PASSWORD = "robot-7", "hunter2-Zq"
SECRETS = (USER.encode(), PASSWORD.encode())


@pytest.fixture
def private(index: Index) -> Iterator[Index]:
    """A second index, that wants credentials. (The first would do, but most users have both.)"""
    with Index(credentials=(USER, PASSWORD)) as running:
        running.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0", padding=2 << 20), sdist("gamma", "1.0"))
        yield running


def leaks(folder: Path, *, but: tuple[Path, ...] = ()) -> list[Path]:
    """Files below a folder that hold the user or the password, in their name or in them."""
    found = []
    for path in folder.rglob("*"):
        if path in but or not path.is_file():
            continue
        content = str(path).encode() + path.read_bytes()
        if any(secret in content for secret in SECRETS):
            found.append(path)
    return found


def quiet(machine: Machine, ran: Ran, *, but: tuple[Path, ...] = ()) -> None:
    assert not any(secret.decode() in ran.out + ran.err for secret in SECRETS)
    assert leaks(machine.folder, but=but) == []
    assert leaks(machine.home, but=(machine.home / ".netrc",)) == []


def named(machine: Machine, url: str) -> Path:
    extra = (
        f"indexes = {{ my-index = '{url}' }}\nsources = {{ alpha = 'my-index', beta = 'my-index', gamma = 'my-index' }}"
    )
    return machine.folder / machine.spec(cpu("alpha", "gamma", extra=f"{extra}\nallow-source = ['gamma']"))


@pytest.mark.slow
def test_in_the_url_of_the_users_own_default_index(machine: Machine, private: Index) -> None:
    machine.default = private.url_with(USER, PASSWORD)
    ran = machine.envspec("lock", machine.spec(cpu("alpha", "gamma", extra="allow-source = ['gamma']")), status=0)
    quiet(machine, ran)


@pytest.mark.slow
def test_in_netrc(machine: Machine, private: Index) -> None:
    (machine.home / ".netrc").write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
    machine.default = private.url
    ran = machine.envspec("lock", machine.spec(cpu("alpha", "gamma", extra="allow-source = ['gamma']")), status=0)
    quiet(machine, ran)


@pytest.mark.slow
def test_in_the_keyring(machine: Machine, private: Index) -> None:
    programs = machine.base / "programs"
    programs.mkdir()
    (programs / "keyring").write_text(f'#!/bin/sh\n[ "$3" = {USER} ] && echo {PASSWORD}\n')
    (programs / "keyring").chmod(0o755)
    path = f"{programs}{os.pathsep}{machine.environment()['PATH']}"
    machine.variables |= {"UV_KEYRING_PROVIDER": "subprocess", "PATH": path}
    machine.default = private.url.replace("http://", f"http://{USER}@")
    ran = machine.envspec("lock", machine.spec(cpu("alpha", "gamma", extra="allow-source = ['gamma']")), status=0)
    quiet(machine, ran)


@pytest.mark.slow
def test_in_uvs_variables_for_a_named_index(machine: Machine, private: Index) -> None:
    named(machine, private.url)
    machine.variables |= {"UV_INDEX_MY_INDEX_USERNAME": USER, "UV_INDEX_MY_INDEX_PASSWORD": PASSWORD}
    machine.variables["UV_INDEX"] = f"my-index={private.url}"
    ran = machine.envspec("lock", "specs/demo.toml", status=0)
    quiet(machine, ran)


@pytest.mark.slow
def test_in_the_url_of_a_mirror(machine: Machine, private: Index) -> None:
    named(machine, "https://unreachable.invalid/simple")
    config = machine.configure(f'my-index = "{private.url_with(USER, PASSWORD)}"')
    machine.envspec("lock", "specs/demo.toml", status=0)
    assert leaks(machine.home, but=(config,)) == [] and leaks(machine.folder) == []


def test_in_the_spec_itself(machine: Machine, private: Index) -> None:
    """Unwise, and a spec may refuse it; if it doesn't, the lock must not pass it on."""
    spec = named(machine, private.url_with(USER, PASSWORD))
    ran = machine.envspec("lock", "specs/demo.toml")
    assert ran.status in (0, 2), ran.err
    quiet(machine, ran, but=(spec,))


def test_in_the_url_of_a_direct_requirement(machine: Machine, private: Index) -> None:
    alpha = wheel("alpha", "1.0", "beta")
    url = private.file_url(alpha).replace("http://", f"http://{USER}:{PASSWORD}@")
    machine.default = private.url_with(USER, PASSWORD)
    spec = machine.folder / machine.spec(cpu(f"alpha @ {url}#sha256={alpha.sha256}"))
    ran = machine.envspec("lock", "specs/demo.toml")
    quiet(machine, ran, but=(spec,))


@pytest.mark.parametrize("code", [401, 403, 500])
def test_errors_hold_none(machine: Machine, private: Index, code: int) -> None:
    private.fail("/simple/beta", status(code))
    machine.default = private.url_with(USER, PASSWORD)
    ran = machine.envspec("lock", machine.spec(cpu("alpha")), env={"UV_HTTP_RETRIES": "0"})
    assert ran.status == 3 and private.origin in ran.error
    quiet(machine, ran)


@pytest.mark.parametrize("code", [401, 500])
def test_errors_of_envspecs_own_reading_hold_none(machine: Machine, private: Index, code: int) -> None:
    machine.default = private.url_with(USER, PASSWORD)
    assert machine.envspec("lock", machine.spec(cpu("alpha"))).status == 0
    private.fail("^/files/", status(code))
    ran = machine.envspec(
        "lock", "specs/demo.toml", "--upgrade", env={"ENVSPEC_CACHE_DIR": str(machine.base / "other")}
    )
    assert ran.status == 3 and f"{private.origin}/files/" in ran.error
    quiet(machine, ran)
    assert leaks(machine.base / "other") == []


@pytest.mark.parametrize("given", ["", "wrong"])
def test_missing_or_wrong_ones_are_told_as_that(machine: Machine, private: Index, given: str) -> None:
    machine.default = private.url_with("bob", given) if given else private.url
    ran = machine.envspec("lock", machine.spec(cpu("alpha")), status=3)
    assert ran.error == f"error: {private.url}/alpha/ needs credentials (HTTP 401)"
    assert "netrc" in ran.hint and "UV_INDEX_<NAME>_PASSWORD" in ran.hint


@pytest.mark.slow
def test_another_host_gets_none(machine: Machine, private: Index, index: Index) -> None:
    index.add(wheel("delta", "1.0"))
    named(machine, private.url)
    machine.spec((machine.folder / "specs" / "demo.toml").read_text().replace("'alpha', ", "'alpha', 'delta', "))
    machine.variables |= {"UV_INDEX_MY_INDEX_USERNAME": USER, "UV_INDEX_MY_INDEX_PASSWORD": PASSWORD}
    machine.variables["UV_INDEX"] = f"my-index={private.url}"
    assert machine.envspec("lock", "specs/demo.toml").status == 0
    assert {asked.authorization for asked in index.asked} == {None}
    assert index.asked
