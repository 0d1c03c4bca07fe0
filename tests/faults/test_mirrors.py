"""A site behind mirrors, proxies and logins: the same lock, byte for byte, and every command that asks an index can."""

import base64
import os
from collections.abc import Iterator
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from support.channel import LocalChannel, Record, pythons
from support.index import Index
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine, cpu
from support.network import WebProxy, certified
from support.packages import sdist, wheel
from support.serving import QuietFiles, serving

pytestmark = pytest.mark.e2e

USER, PASSWORD = "robot-7", "hunter2-Zq"
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
