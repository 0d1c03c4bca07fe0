"""A spec names an index as the user's own is named, at a host of its author's: that host gets no login."""

import base64
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.app.lock.resolvers import trust_index
from envspec.base.errors import InputError, StorageError
from envspec.configuration.settings import Settings, load_settings
from envspec.net.connections import credentials_of, index_fetcher

LOGIN = {"UV_INDEX_INTERNAL_USERNAME": "robot", "UV_INDEX_INTERNAL_PASSWORD": "hunter2-Zq"}
EVIL = {"internal": "https://evil.example/simple"}


@pytest.fixture
def evil() -> Iterator[Index]:
    with Index() as index:
        index.add(wheel("acme", "1.0"))
        yield index


def spec_of(machine: Machine, evil: Index) -> None:
    machine.spec(cpu("acme", extra=f"indexes = {{ internal = '{evil.url}' }}\nsources = {{ acme = 'internal' }}"))


@pytest.mark.e2e
def test_nothing_is_sent_until_the_user_binds_the_name_to_the_host(machine: Machine, index: Index, evil: Index) -> None:
    spec_of(machine, evil)
    machine.variables |= LOGIN
    ran = machine.envspec("lock", "specs/demo.toml")
    host = evil.origin.removeprefix("http://")
    assert ran.status == 2 and f"envspec lock --trust-index internal={host}" in ran.hint, ran.err
    assert not evil.asked and "hunter2" not in ran.err
    machine.envspec("lock", "specs/demo.toml", "--trust-index", f"internal={host}", status=0)
    assert {one.authorization for one in evil.asked} == {"Basic cm9ib3Q6aHVudGVyMi1acQ=="}
    assert machine.envspec("lock", "specs/demo.toml", "--upgrade").status == 0, "it is written down"


@pytest.mark.e2e
def test_the_default_of_netrc_goes_to_no_host_of_a_spec(machine: Machine, index: Index, evil: Index) -> None:
    netrc = machine.home / ".netrc"
    netrc.write_text("default login robot password hunter2-Zq\n")
    netrc.chmod(0o600)
    spec_of(machine, evil)
    assert machine.envspec("lock", "specs/demo.toml").status == 0
    assert evil.asked and {one.authorization for one in evil.asked} == {None}
    machine.default = evil.url
    assert machine.envspec("lock", "specs/demo.toml", "--upgrade", "--refresh").status == 0
    assert "Basic cm9ib3Q6aHVudGVyMi1acQ==" in {one.authorization for one in evil.asked}, "the user's own host gets it"


@pytest.mark.parametrize(
    ("bound", "url"),
    [
        ({"UV_INDEX": "internal=https://packages.example/simple"}, EVIL["internal"]),
        ({"UV_INDEX": "other=https://evil.example/simple"}, EVIL["internal"]),
        ({"UV_INDEX": "https://evil.example/simple"}, EVIL["internal"]),
        ({"UV_INDEX": "internal=https://packages.example"}, "https://packages.example.evil.example/simple"),
        ({"UV_INDEX": "internal=https://packages.example"}, "https://packages.example:8443/simple"),
        ({"UV_INDEX": "internal=https://packages.example"}, "http://packages.example/simple"),
    ],
)
def test_a_name_that_is_bound_elsewhere(bound: Mapping[str, str], url: str, tmp_path: Path) -> None:
    env = {**LOGIN, **bound}
    with pytest.raises(InputError, match="nothing was sent"):
        credentials_of(load_settings(env, tmp_path), {"internal": url}, env)


def test_a_name_that_is_bound_here(tmp_path: Path) -> None:
    url = "https://packages.example/simple"
    (tmp_path / "uv.toml").write_text(f'[[index]]\nname = "internal"\nurl = "{url}"\n')
    for bound in ({"UV_INDEX": f"a=https://b.example internal={url}"}, {"UV_CONFIG_FILE": str(tmp_path / "uv.toml")}):
        env = {**LOGIN, **bound}
        assert credentials_of(load_settings(env, tmp_path), {"internal": url}, env).keys() == {
            "https://packages.example"
        }


def test_netrc_over_plain_http(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text("machine packages.example login robot password hunter2-Zq\n")
    env = {"HOME": str(tmp_path)}
    stranger = index_fetcher(Settings(tmp_path), {"internal": "http://packages.example/simple"}, env)
    own = index_fetcher(Settings(tmp_path, default_index="http://packages.example/simple"), {}, env)
    assert stranger._authorization("http://packages.example/simple/a/", None) == {}
    assert stranger._authorization("https://packages.example/simple/a/", None)
    assert own._authorization("http://packages.example/simple/a/", None)
    # what the user gave for this index comes before what netrc has for its host
    url = "https://mine:own@packages.example/simple"
    given = index_fetcher(Settings(tmp_path, default_index=url), {}, env)
    basic = base64.b64encode(b"mine:own").decode()
    assert given._authorization("https://packages.example/simple/a/", None) == {"authorization": f"Basic {basic}"}


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("before", "asked", "status", "words"),
    [
        ("trusted-indexes = 3\n", "internal=a.example", 2, ":1:19: trusted-indexes must be a table"),
        ("[[trusted-indexes]]\n", "internal=a.example", 2, "trusted-indexes must be a table"),
        ("[mirror]\n", "internal=a.example", 2, "unknown key"),
        ("", "a\n=a.example", 2, "--trust-index takes NAME=HOST"),
        ("", "a b=a.example", 2, "--trust-index takes NAME=HOST"),
        (None, "internal=a.example", 3, "this is a folder; a file is needed"),
    ],
)
def test_a_configuration_that_can_hold_no_binding(
    machine: Machine, before: str | None, asked: str, status: int, words: str
) -> None:
    """It stays as it is, and is told by its place."""
    machine.spec(cpu("acme"))
    path = machine.configure("")
    if before is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_text(before)
    ran = machine.envspec("lock", "specs/demo.toml", "--trust-index", asked)
    assert (ran.status, path.read_text() if path.is_file() else None) == (status, before) and words in ran.err, ran.err


def test_a_binding_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    """The rest of the file stays, with its mode: it may hold a login. A link leads to where the user keeps it."""
    kept, link = tmp_path / "kept.toml", tmp_path / "config.toml"
    kept.write_text('# mine\n[mirrors]\npypi = "https://me:hunter2-Zq@packages.example/simple"\n')
    kept.chmod(0o600)
    link.symlink_to(kept)
    before, env = kept.read_text(), {"ENVSPEC_CONFIG": str(link), "HOME": str(tmp_path)}
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, hard))
    try:
        with pytest.raises(StorageError, match="File too large"):
            trust_index(env, "internal", "packages.example")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert kept.read_text() == before and {path.name for path in tmp_path.iterdir()} == {"config.toml", "kept.toml"}
    trust_index(env, "internal", "packages.example")
    assert kept.read_text() == f'{before}\n[trusted-indexes]\ninternal = "packages.example"\n'
    assert link.is_symlink() and kept.stat().st_mode & 0o777 == 0o600
