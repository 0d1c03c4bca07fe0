"""Logins and mirrors of indexes that go wrong: what each error names, and that no secret is in it."""

import base64
import os
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from support.channel import LocalChannel, Record, pythons
from support.index import Index, status
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine, Ran, cpu
from support.network import WebProxy, certified
from support.packages import sdist, wheel
from support.serving import QuietFiles, serving

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


@pytest.mark.by_day(1)
@pytest.mark.parametrize("code", [401, 403, 500])
def test_errors_hold_none(machine: Machine, private: Index, code: int) -> None:
    private.fail("/simple/beta", status(code))
    machine.default = private.url_with(USER, PASSWORD)
    ran = machine.envspec("lock", machine.spec(cpu("alpha")), env={"UV_HTTP_RETRIES": "0"})
    assert ran.status == 3 and private.origin in ran.error
    quiet(machine, ran)


@pytest.mark.by_day(1)
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


WHEELS = (wheel("alpha", "1.0", "beta"), wheel("beta", "2.0"), wheel("acme", "3.0", "beta"))
MOMENT = "2026-01-01T00:00:00.000000Z"


@pytest.fixture
def mirror() -> Iterator[Index]:
    """The same files elsewhere, as a mirror serves them: below another path, as HTML, without sizes or sidecars."""
    with Index(form="html", sidecars=False, sizes=False, prefix="/artifactory/api/pypi") as running:
        yield running


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """A conda channel over HTTP; gives the address above it."""
    handler = partial(QuietFiles, directory=str(tmp_path / "channels"))
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as url:
        yield url


@pytest.mark.slow
def test_a_lock_made_through_mirrors_has_the_same_bytes(
    machine: Machine, index: Index, mirror: Index, tmp_path: Path
) -> None:
    source = sdist("gamma", "1.0", "beta")
    with Index() as internal, Index(form="html", prefix="/internal/pypi") as own_mirror:
        for one in (index, mirror):
            one.add(*WHEELS[:2], source, uploaded=MOMENT)
        internal.add(WHEELS[2])
        own_mirror.add(WHEELS[2])
        extra = (
            f"allow-source = ['gamma']\nindexes = {{ internal = '{internal.url}' }}\nsources = {{ acme = 'internal' }}"
        )
        machine.locked(spec=cpu("alpha", "gamma", "acme", extra=extra))
        direct = machine.files()
        asked = len(index.asked), len(internal.asked)

        there = Machine(tmp_path / "site")
        there.configure(f'pypi = "{mirror.url}"\ninternal = "{own_mirror.url}"')
        there.locked(spec=(machine.folder / "specs" / "demo.toml").read_text())
        there.close()
        assert there.files() == direct
        assert (len(index.asked), len(internal.asked)) == asked, "what has a mirror is asked of that alone"
        assert mirror.paths("/alpha/") and own_mirror.paths("/acme/")


@pytest.mark.slow
def test_so_has_one_of_a_conda_channel(machine: Machine, served: str, tmp_path: Path) -> None:
    pytest.importorskip("rattler")
    records = [*pythons("3.12.11"), Record("tool", "1", depends=("lib",)), Record("lib", "2")]
    LocalChannel(tmp_path / "channels" / "mine").write(records)
    LocalChannel(tmp_path / "channels" / "mirrored" / "at-our-site").write(records)
    text = f"[env]\npython = '3.12'\n[conda]\nchannels = ['{served}/mine']\ndependencies = ['tool']\n"
    text += "[targets.cpu]\nplatform = 'linux-64'\n"
    machine.locked(spec=text)

    there = Machine(tmp_path / "site", machine.default)
    there.configure(f'mine = "{served}/mirrored/at-our-site"')
    there.locked(spec=text)
    there.close()
    assert there.files() == machine.files()
    # and by conda's own configuration
    condarc = Machine(tmp_path / "condarc", machine.default)
    (condarc.home / ".condarc").write_text(f"custom_channels:\n  mine: {served}/elsewhere\n")
    LocalChannel(tmp_path / "channels" / "elsewhere" / "mine").write(records)
    condarc.locked(spec=text.replace(f"{served}/mine", "mine"))
    condarc.close()
    assert condarc.files().keys() == machine.files().keys()


@pytest.mark.slow
def test_a_lock_made_through_a_proxy_has_the_same_bytes(machine: Machine, index: Index, tmp_path: Path) -> None:
    index.add(*WHEELS)
    machine.locked(spec=cpu("alpha", "acme"))
    there = Machine(tmp_path / "site", "http://pypi.example/simple")
    there.spec(cpu("alpha", "acme"))
    with WebProxy(index, (USER, PASSWORD)) as proxy:
        there.variables["HTTP_PROXY"] = proxy.url
        ran = there.envspec("lock", "specs/demo.toml", status=0)
        assert proxy.asked and all(one.startswith("http://pypi.example/") for one in proxy.asked)
    there.close()
    assert there.files() == machine.files()
    assert PASSWORD not in ran.out + ran.err


@pytest.mark.slow
def test_a_sites_own_certificate_reaches_every_command(machine: Machine, tmp_path: Path) -> None:
    context, certificate = certified(tmp_path)
    with Index(tls=context) as index:
        index.add(*WHEELS)
        machine.default = index.url
        ran = machine.envspec("lock", machine.spec(cpu("alpha")))
        assert ran.status == 3 and "certificate verify failed" in ran.err
        machine.variables["SSL_CERT_FILE"] = str(certificate)
        for command in (["lock", "specs/demo.toml"], ["bundle", "specs/demo.toml", "-o", "demo.tar"]):
            ran = machine.envspec(*command, status=0)


COMMANDS = {
    "lock": ["lock", SPEC, "--upgrade"],
    "export": ["export", SPEC, "--format", "pylock", "-o", "-"],
    "bundle": ["bundle", SPEC, "-o", "demo.tar"],
    "audit": ["audit", SPEC],
}


@pytest.mark.by_day(6)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("by", ["keyring", "netrc"])
def test_a_login_reaches_every_command_that_asks_an_index(machine: Machine, command: str, by: str) -> None:
    with Index(credentials=(USER, PASSWORD)) as private:
        private.add(WHEELS[1])
        write_lock(machine, [pip_pin(WHEELS[1])])
        machine.default = private.url
        if by == "netrc":
            (machine.home / ".netrc").write_text(f"machine 127.0.0.1 login {USER} password {PASSWORD}\n")
        else:
            programs = machine.base / "programs"
            programs.mkdir()
            (programs / "keyring").write_text(f'#!/bin/sh\n[ "$3" = {USER} ] && echo {PASSWORD}\n')
            (programs / "keyring").chmod(0o755)
            path = f"{programs}{os.pathsep}{machine.environment()['PATH']}"
            machine.variables |= {"UV_KEYRING_PROVIDER": "subprocess", "PATH": path}
            machine.default = private.url.replace("http://", f"http://{USER}@")
        ran = machine.envspec(*COMMANDS[command])
        assert "needs credentials" not in ran.err, ran.err
        right = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        assert {asked.authorization for asked in private.asked} == {right}
        # an audit has no advisories from here: this index has none
        assert ran.status == (3 if command == "audit" else 0), ran.err
        assert PASSWORD not in ran.out + ran.err
