"""A secret stays where its owner put it: nothing that a command prints or writes has it, in whatever form."""

import base64
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from support import in_process
from support.index import status
from support.machine import Ran
from support.matrix import first_by_day
from support.planted import COMMANDS, USER, Plant, planted, spec
from support.registry import Registry

from envspec.base.redact import redact

pytestmark = pytest.mark.e2e

PLAIN, SLASH, AT, CODED = "hunter2-Plain", "hunter2/Sl4sh", "hunter2@4t", "hunter2 %&Coded"
TOKEN, SIGNATURE = "tk-hunter2Token", "0123abcHunter2Sig"


def default_index(plant: Plant) -> None:
    plant.machine.default = plant.url(f"{USER}:{quote(plant.secret, safe='')}")


def raw_default_index(plant: Plant) -> None:
    plant.machine.default = plant.url(f"{USER}:{plant.secret}")


def pips_variable(plant: Plant) -> None:
    plant.machine.variables["PIP_INDEX_URL"] = plant.url(f"{USER}:{plant.secret}")


def netrc(plant: Plant) -> None:
    plant.write(plant.machine.home / ".netrc", f"machine 127.0.0.1 login {USER} password {plant.secret}\n")
    plant.machine.default = plant.index.url


def keyring_stand_in(plant: Plant) -> None:
    program = plant.machine.base / "programs" / "keyring"
    plant.write(program, f'#!/bin/sh\n[ "$3" = {USER} ] && echo {plant.secret}\n')
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{plant.machine.environment()['PATH']}"
    plant.machine.variables |= {"UV_KEYRING_PROVIDER": "subprocess", "PATH": path}
    plant.machine.default = plant.url(USER)


def uvs_variables(plant: Plant) -> None:
    plant.machine.default = plant.index.url
    plant.machine.variables |= {"UV_INDEX_MINE_USERNAME": USER, "UV_INDEX_MINE_PASSWORD": plant.secret}
    plant.machine.variables["UV_INDEX"] = f"mine={plant.index.url}"


def token_in_the_path(plant: Plant) -> None:
    plant.machine.default = f"{plant.index.origin}/t/{plant.secret}/simple"


def token_of_a_query(plant: Plant) -> None:
    plant.machine.default = f"{plant.index.url}?token={plant.secret}"


def signed_files(plant: Plant) -> None:
    plant.machine.default = plant.index.url
    plant.pages = True


def proxy(plant: Plant) -> None:
    plant.machine.default = "http://index.invalid/simple"
    plant.machine.variables["HTTP_PROXY"] = f"http://{USER}:{plant.secret}@127.0.0.1:9"


def proxy_of_the_site(plant: Plant) -> None:
    plant.machine.default = "http://index.invalid/simple"
    path = plant.machine.configure("")
    plant.write(path, f'{path.read_text()}[site]\nproxy = "http://{USER}:{plant.secret}@127.0.0.1:9"\n')


INDEXED = "indexes = { mine = '%s' }\nsources = { alpha = 'mine', beta = 'mine' }"

PLANTS: dict[str, tuple[Callable[[Plant], None], str, dict[str, Any]]] = {
    "URL, plain": (default_index, PLAIN, {"credentials": (USER, PLAIN)}),
    "URL, with @": (default_index, AT, {"credentials": (USER, AT)}),
    "URL, percent-encoded": (default_index, CODED, {"credentials": (USER, CODED)}),
    "URL, with a raw slash": (raw_default_index, SLASH, {}),
    "PIP_INDEX_URL": (pips_variable, PLAIN, {"credentials": (USER, PLAIN)}),
    "netrc": (netrc, PLAIN, {"credentials": (USER, PLAIN)}),
    "keyring stand-in": (keyring_stand_in, PLAIN, {"credentials": (USER, PLAIN)}),
    "UV_INDEX_MINE_PASSWORD": (uvs_variables, PLAIN, {"credentials": (USER, PLAIN)}),
    "token in the path": (token_in_the_path, TOKEN, {"token": TOKEN}),
    "token in a query": (token_of_a_query, TOKEN, {}),
    "signed URLs": (signed_files, SIGNATURE, {"signed": SIGNATURE}),
    "a proxy's password": (proxy, PLAIN, {}),
    "the site's proxy": (proxy_of_the_site, PLAIN, {}),
}
ANSWERED = set(PLANTS) - {"URL, with a raw slash", "token in a query", "a proxy's password", "the site's proxy"}
"""With these, a lock is made; with the others every command that asks an index fails, and says why."""


@pytest.fixture(params=PLANTS)
def plant(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Plant]:
    put, secret, guard = PLANTS[request.param]
    with planted(tmp_path, secret, **guard) as made:
        made.machine.spec(spec(INDEXED % made.index.url if put is uvs_variables else ""))
        put(made)
        yield made


def name_of(request: pytest.FixtureRequest) -> str:
    return str(request.node.callspec.params["plant"])


@pytest.mark.by_day(6)
def test_where_a_lock_is_made_or_refused(plant: Plant, request: pytest.FixtureRequest) -> None:
    ran = plant.run("lock", "specs/demo.toml")
    assert (ran.status == 0) == (name_of(request) in ANSWERED), ran.err
    plant.run("audit", "specs/demo.toml")
    assert plant.found() == []


@pytest.mark.by_commit(3)
@pytest.mark.slow
def test_in_what_every_command_prints_and_writes(plant: Plant, request: pytest.FixtureRequest) -> None:
    plant.machine.variables["ENVSPEC_TRACEBACK"] = "1"
    ended = {name: plant.run(*arguments).status for name, arguments in COMMANDS.items()}
    if name_of(request) in ANSWERED:
        # there is no git here
        assert {name for name, code in ended.items() if code not in (0, 1)} == {"diff"}, plant.said
    assert plant.found() == []


@pytest.mark.by_commit(3)
@pytest.mark.slow
@pytest.mark.parametrize("code", [401, *(pytest.param(code, marks=pytest.mark.nightly) for code in (404, 500))])
def test_in_what_every_failure_says(plant: Plant, code: int, request: pytest.FixtureRequest) -> None:
    made = plant.run("lock", "specs/demo.toml").status == 0
    # pages, then files: all caches are others
    for number, path in enumerate(("/simple/", "/files/", "/pypi/")):
        plant.index.heal()
        plant.index.fail(path, status(code))
        plant.machine.variables |= {
            "ENVSPEC_CACHE_DIR": str(plant.machine.base / f"cache-{number}"),
            "UV_CACHE_DIR": str(plant.machine.base / f"uv-{number}"),
        }
        said = [plant.run(*COMMANDS[name]) for name in ("lock again", "pylock", "bundle", "install", "audit")]
        if made and path != "/pypi/":
            assert any(ran.status == 3 for ran in said), said
    assert plant.found() == []


def test_a_fault_of_envspec_with_a_traceback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The secret stands in the exception alone, without the URL that would tell it."""

    def broken(*arguments: object, **more: object) -> None:
        raise RuntimeError(f"sent {base64.b64encode(f'{USER}:{PLAIN}'.encode()).decode()} for {PLAIN!r}")

    with planted(tmp_path, PLAIN, credentials=(USER, PLAIN)) as plant:
        default_index(plant)
        plant.machine.spec(spec())
        monkeypatch.setattr("envspec.resolve.pip.solve.PipResolver.resolve", broken)
        told = plant.run("lock", "specs/demo.toml")
        assert told.status == 3 and "has a fault: RuntimeError: sent **** for '****'" in told.err
        env = plant.machine.environment({"ENVSPEC_TRACEBACK": "1"})
        asked = in_process.run(("lock", "specs/demo.toml"), cwd=plant.machine.folder, env=env, seconds=90)
        plant.said.append(Ran(*asked))
        assert asked.status == 1 and "Traceback" in asked.err and "RuntimeError: sent **** for '****'" in asked.err
        assert plant.found() == []


def test_a_git_url_in_the_spec(tmp_path: Path) -> None:
    with planted(tmp_path, SLASH) as plant:
        default_index(plant)
        url = f"git+{plant.url(f'{USER}:{plant.secret}', plant.index.origin)}/r.git@v1"
        plant.files.append(plant.machine.folder / plant.machine.spec(spec().replace("'alpha'", f"'alpha @ {url}'")))
        told = plant.run("lock", "specs/demo.toml")
        assert told.status == 2 and "has credentials in its URL" in told.err
        plant.run("check", "--json")
        assert plant.found() == []


def test_a_git_url_in_gits_own_settings(tmp_path: Path) -> None:
    with planted(tmp_path, PLAIN) as plant:
        plant.machine.default = plant.index.url
        secret = plant.url(f"{USER}:{plant.secret}", plant.index.origin)
        plant.write(plant.machine.home / ".gitconfig", f'[url "{secret}/"]\n\tinsteadOf = http://git.invalid/\n')
        plant.machine.spec(
            spec("allow-source = ['alpha']").replace(
                "'alpha']\nallow", "'alpha @ git+http://git.invalid/r.git']\nallow"
            )
        )
        told = plant.run("lock", "specs/demo.toml")
        assert told.status == 3 and "git" in told.err
        assert plant.found() == []


@pytest.mark.by_day(1)
@pytest.mark.parametrize("by", ["file", "helper"])
def test_a_login_of_dockers(tmp_path: Path, by: str) -> None:
    with planted(tmp_path, PLAIN) as plant, Registry(login=(USER, PLAIN), challenge="bearer", anonymous=False) as hub:
        plant.machine.default = plant.index.url
        hub.push("team/base", "1")
        auth = base64.b64encode(f"{USER}:{PLAIN}".encode()).decode()
        written = {"auths": {hub.host: {"auth": auth}}} if by == "file" else {"credsStore": "box"}
        plant.write(plant.machine.home / ".docker" / "config.json", json.dumps(written))
        helper = plant.machine.base / "programs" / "docker-credential-box"
        plant.write(helper, f"#!/bin/sh\necho '{json.dumps({'Username': USER, 'Secret': PLAIN})}'\n")
        helper.chmod(0o755)
        plant.machine.variables["PATH"] = f"{helper.parent}{os.pathsep}{plant.machine.environment()['PATH']}"
        plant.machine.spec(spec(more=f"[image]\nbase = '{hub.host}/team/base:1'\n"))
        assert plant.run("lock", "specs/demo.toml", "--json").status == 0
        assert any(asked.authorization for asked in hub.asked)
        assert redact(f"{PLAIN} {auth}") == "**** ****", "whoever else says it"
        hub.status = 500
        plant.run("lock", "specs/demo.toml", "--upgrade")
        plant.run(*COMMANDS["recipes"])
        assert plant.found() == []


def conda(plant: Plant, address: str, *, how: str) -> list[Ran]:
    """Commands on a spec with a conda package, the channel where `how` says."""
    login = f"{USER}:{quote(plant.secret, safe='')}"
    plant.machine.default = plant.url(login) if plant.index.credentials else f"{address}/simple"
    plant.machine.spec(spec(more="[conda]\nchannels = ['channel']\ndependencies = ['tool']\n"))
    if how == "mirror":
        plant.files.append(plant.machine.configure(f'channel = "{address}/channel"'))
    elif how == ".condarc":
        plant.write(plant.machine.home / ".condarc", f"channel_alias: {address}\n")
    else:
        plant.machine.variables["CONDA_CHANNEL_ALIAS"] = address
    return [
        plant.run("lock", "specs/demo.toml"),
        plant.run("lock", "specs/demo.toml", "--upgrade", "--offline"),
        plant.run(
            "export", "specs/demo.toml", "-f", "conda-lock", "-f", "conda-explicit", "-f", "conda-env", "-o", "x"
        ),
        plant.run("bundle", "specs/demo.toml", "-o", "demo.tar"),
        plant.run("install", "specs/demo.toml", "--prefix", "../environment"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("how", first_by_day(1, [".condarc", "variable", "mirror"]))
def test_a_login_in_a_channels_url(tmp_path: Path, how: str) -> None:
    pytest.importorskip("rattler")
    with planted(tmp_path, AT, credentials=(USER, AT)) as plant:
        ran = conda(plant, plant.url(f"{USER}:{quote(AT, safe='')}", plant.index.origin), how=how)
        assert [one.status for one in ran] == [0] * len(ran), ran
        assert plant.found() == []


@pytest.mark.slow
@pytest.mark.parametrize("how", first_by_day(1, ["mirror", ".condarc"]))
def test_a_token_in_a_channels_path(tmp_path: Path, how: str) -> None:
    pytest.importorskip("rattler")
    with planted(tmp_path, TOKEN, token=TOKEN) as plant:
        ran = conda(plant, f"{plant.index.origin}/t/{TOKEN}", how=how)
        assert [one.status for one in ran] == [0] * len(ran), ran
        assert plant.found() == []


def test_a_token_that_rattler_has_no_kind_for_stays_in_a_private_cache(tmp_path: Path) -> None:
    """Two channels on one host with different logins: the authentication storage holds one a host."""
    pytest.importorskip("rattler")
    with planted(tmp_path, SLASH) as plant:
        plant.machine.default = plant.index.url
        first, second = (plant.url(f"{user}:{quote(SLASH, safe='')}", plant.index.origin) for user in (USER, "other"))
        plant.files.append(plant.machine.configure(f'channel = "{first}/channel"\nanother = "{second}/another"'))
        plant.machine.spec(spec(more="[conda]\nchannels = ['channel', 'another']\ndependencies = ['tool']\n"))
        assert plant.run("lock", "specs/demo.toml").status == 0
        private = plant.machine.cache / "conda" / "repodata-private"
        assert private.stat().st_mode & 0o777 == 0o700 and list(private.iterdir())
        assert plant.found() == []
