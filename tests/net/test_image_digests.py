"""Digests of images: names, the API with its tokens and faults, logins, and the time that asking may take."""

import base64
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.registry import DOCKER_LIST, TOKEN, Registry

from envspec.base.errors import EnvspecError, IndexFailure, InputError
from envspec.configuration.settings import Credentials
from envspec.net.fetch import Fetcher
from envspec.net.registry import Asking, ImageAddress, Registries, image_address, login_for

DIGEST = f"sha256:{'0' * 64}"
SECRET = "hunter2-and-more"


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as running:
        yield running


def asked(name: str, mirrors: dict[str, str] | None = None, env: dict[str, str] | None = None) -> str:
    env = {"HOME": "nowhere", **(env or {})}
    return Registries(Fetcher(credentials={}, env=env).pool, mirrors or {}, env).digest(name)


def refused(name: str, mirrors: dict[str, str] | None = None, env: dict[str, str] | None = None) -> EnvspecError:
    with pytest.raises(IndexFailure) as caught:
        asked(name, mirrors, env)
    assert SECRET not in f"{caught.value.message} {caught.value.hint}" and TOKEN not in caught.value.message
    return caught.value


def logged_in(folder: Path, place: str, user: str = "me", secret: str = SECRET) -> dict[str, str]:
    auth = base64.b64encode(f"{user}:{secret}".encode()).decode()
    path = folder / "auth.json"
    path.write_text(json.dumps({"auths": {place: {"auth": auth}}}), encoding="utf-8")
    return {"REGISTRY_AUTH_FILE": str(path)}


@pytest.mark.parametrize(
    ("name", "registry", "path", "tag", "digest"),
    [
        ("debian", "docker.io", "library/debian", "latest", None),
        ("debian:bookworm-slim", "docker.io", "library/debian", "bookworm-slim", None),
        ("astral/uv:0.13.8", "docker.io", "astral/uv", "0.13.8", None),
        ("docker.io/debian:12", "docker.io", "library/debian", "12", None),
        ("index.docker.io/debian:12", "docker.io", "library/debian", "12", None),
        ("localhost/a/b", "localhost", "a/b", "latest", None),
        ("localhost:5000/a:b", "localhost:5000", "a", "b", None),
        ("[::1]:5000/a:b", "[::1]:5000", "a", "b", None),
        ("registry.example/team/a", "registry.example", "team/a", "latest", None),
        ("Example/a", "Example", "a", "latest", None),
        (f"a/b:c@{DIGEST}", "docker.io", "a/b", "c", DIGEST),
        (f"r.example/a@{DIGEST}", "r.example", "a", "latest", DIGEST),
    ],
)
def test_names(name: str, registry: str, path: str, tag: str, digest: str | None) -> None:
    assert image_address(name) == ImageAddress(registry, path, tag, digest)


@pytest.mark.parametrize(("head", "header"), [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("kind", ["application/vnd.oci.image.index.v1+json", DOCKER_LIST])
def test_the_digest_of_a_name(registry: Registry, head: bool, header: bool, kind: str) -> None:
    digest = registry.push("team/base", "1", kind=kind)
    registry.head, registry.header = head, header
    assert asked(f"{registry.host}/team/base:1") == digest
    assert [one.method for one in registry.asked] == (["HEAD"] if head and header else ["HEAD", "GET"])
    assert all(kind in one.accept and one.authorization is None for one in registry.asked)


def test_a_digest_that_is_not_the_bodys(registry: Registry) -> None:
    registry.push("a", "1")
    registry.head, registry.header = False, DIGEST
    assert f"announces {DIGEST} and sends sha256:" in refused(f"{registry.host}/a:1").message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"status": 404}, "doesn't exist"),
        ({"status": 429}, "no more requests"),
        ({"status": 500}, "answers HTTP 500"),
        ({"kind": "text/html; charset=utf-8"}, "answers text/html, not a manifest"),
        ({"kind": "application/vnd.docker.distribution.manifest.v1+prettyjws"}, "not a manifest"),
        ({"head": False, "cut": True}, "can't be read"),
        ({"moved": "http://registry.example/v2/a/manifests/1"}, "http://registry.example/v2/a/manifests/1 isn't https"),
        ({"moved": "{path}"}, "redirects too often"),
        ({"moved": "http://[bad/"}, "redirects to something that isn't an address"),
        ({"challenge": "basic"}, "needs a login"),
        ({"challenge": "bearer", "anonymous": False}, "needs a login"),
        ({"challenge": "bearer", "realm": "http://tokens.example/t?secret=hunter2-and-more"}, "isn't https"),
        ({"challenge": "bearer", "token_body": b"[]"}, "gives no token"),
        ({"challenge": "bearer", "token_body": b'{"token": "a\\r\\nX: y"}'}, "gives no token"),
        ({"challenge": "bearer", "token_body": b"{"}, "gives no token"),
        ({"challenge": "bearer", "token_body": b'{"token": "another"}'}, "needs a login"),
        ({"challenge": "negotiate"}, "needs a login"),
    ],
)
def test_faults(registry: Registry, change: dict[str, object], said: str) -> None:
    registry.push("a", "1")
    for name, value in change.items():
        setattr(registry, name, value)
    assert said in refused(f"{registry.host}/a:1").message


def test_nobody_there(registry: Registry) -> None:
    host = registry.host
    registry.__exit__(None, None, None)
    try:
        assert refused(f"{host}/a:1").message.startswith(f"http://{host}/v2/a/manifests/1 can't be read: ")
    finally:
        registry.__enter__()


def test_only_https(registry: Registry) -> None:
    mirrors = {"r.example": "http://mirror.example"}
    assert "mirror.example/v2/a/manifests/latest isn't https" in refused("r.example/a", mirrors).message


def test_a_token_for_everybody(registry: Registry) -> None:
    digest = registry.push("a/b", "1")
    registry.challenge = "bearer"
    assert asked(f"{registry.host}/a/b:1") == digest
    assert [one.authorization for one in registry.asked] == [None, None, f"Bearer {TOKEN}"]
    # what is asked for is what envspec needs, whatever the challenge says
    assert registry.asked[1].path == "/token?scope=repository%3Aa%2Fb%3Apull&service=the+service"


@pytest.mark.parametrize("challenge", ["basic", "bearer"])
def test_a_login(registry: Registry, tmp_path: Path, challenge: str) -> None:
    digest = registry.push("team/a", "1")
    registry.challenge, registry.login, registry.anonymous = challenge, ("me", SECRET), False
    assert asked(f"{registry.host}/team/a:1", env=logged_in(tmp_path, registry.host)) == digest
    wrong = logged_in(tmp_path, registry.host, secret=f"{SECRET}-no")
    assert "needs a login" in refused(f"{registry.host}/team/a:1", env=wrong).message
    other = logged_in(tmp_path, "other.example")
    assert "needs a login" in refused(f"{registry.host}/team/a:1", env=other).message


def test_an_identity_token_is_a_login(registry: Registry, tmp_path: Path) -> None:
    """As `docker login` and `az acr login` write it, beside a user without a password: it's changed for a token."""
    digest = registry.push("team/a", "1")
    registry.challenge, registry.refresh, registry.anonymous = "bearer", SECRET, False
    path = tmp_path / "auth.json"
    nobody = base64.b64encode(f"{'0' * 8}:".encode()).decode()

    def env(token: str) -> dict[str, str]:
        path.write_text(json.dumps({"auths": {registry.host: {"auth": nobody, "identitytoken": token}}}))
        return {"REGISTRY_AUTH_FILE": str(path)}

    assert asked(f"{registry.host}/team/a:1", env=env(SECRET)) == digest
    assert [one.method for one in registry.asked if one.path.startswith("/token")] == ["POST"]
    assert "needs a login" in refused(f"{registry.host}/team/a:1", env=env(f"{SECRET}-no")).message
    # basic authentication takes none, and no redirect takes it along
    registry.challenge = "basic"
    assert "needs a login" in refused(f"{registry.host}/team/a:1", env=env(SECRET)).message
    with Registry() as other:
        registry.challenge, registry.token_moved = "bearer", f"{other.origin}/token"
        assert "no token" in refused(f"{registry.host}/team/a:1", env=env(SECRET)).message
        assert not other.asked


@pytest.mark.parametrize("challenge", ["basic", "bearer"])
def test_a_redirect_elsewhere_takes_no_login_along(registry: Registry, tmp_path: Path, challenge: str) -> None:
    registry.challenge, registry.login, registry.anonymous = challenge, ("me", SECRET), False
    with Registry() as other:
        digest = other.push("a", "1")
        registry.moved = f"{other.origin}{{path}}"
        assert asked(f"{registry.host}/a:1", env=logged_in(tmp_path, registry.host)) == digest
        assert [one.authorization for one in other.asked] == [None]
    assert registry.asked[-1].authorization is not None


def test_a_mirror_stands_for_a_registry(registry: Registry, tmp_path: Path) -> None:
    digest = registry.push("library/debian", "12")
    below = registry.push("hub/library/debian", "12", "below a path")
    env = logged_in(tmp_path, "docker.io")
    assert asked("debian:12", {"docker.io": registry.origin}, env) == digest
    assert asked("debian:12", {"docker.io": f"{registry.origin}/hub/"}, env) == below
    registry.challenge, registry.login, registry.anonymous = "basic", ("me", SECRET), False
    # what the user gave for the Hub is not the mirror's to see
    assert "needs a login" in refused("debian:12", {"docker.io": registry.origin}, env).message
    assert asked("debian:12", {"docker.io": registry.origin}, logged_in(tmp_path, registry.host)) == digest
    with_login = registry.origin.replace("http://", f"http://me:{SECRET}@")
    assert asked("debian:12", {"docker.io": with_login}) == digest


def test_a_mirror_that_is_none() -> None:
    registries = Registries(Fetcher(credentials={}, env={}).pool, {"docker.io": "", "r.example": "nowhere"}, {})
    assert not registries.asks("debian:12") and registries.asks("other.example/a")
    with pytest.raises(InputError, match=r"\[mirrors\] r.example isn't an http or https address"):
        registries.asks("r.example/a")


def login(home: Path, name: str, **env: str) -> Credentials | None:
    return login_for(image_address(name), {"HOME": str(home), **env})


def test_where_logins_are_found(tmp_path: Path) -> None:
    def entry(user: str) -> dict[str, str]:
        return {"auth": base64.b64encode(f"{user}:p:w\0\0".encode()).decode()}

    docker = {"auths": {"https://index.docker.io/v1/": entry("hub"), "https://r.example/v2/": entry("docker"), "x": 3}}
    podman = {"auths": {"r.example/team": entry("team"), "r.example/team/a": {"auth": "%%"}}}
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(json.dumps(docker), encoding="utf-8")
    (tmp_path / "run" / "containers").mkdir(parents=True)
    (tmp_path / "run" / "containers" / "auth.json").write_text(json.dumps(podman), encoding="utf-8")
    runtime = {"XDG_RUNTIME_DIR": str(tmp_path / "run")}
    assert login(tmp_path, "debian") == Credentials("hub", "p:w")
    assert login(tmp_path, "r.example/team/a", **runtime) == Credentials("team", "p:w")
    assert login(tmp_path, "r.example/teams/a", **runtime) == Credentials("docker", "p:w")
    assert login(tmp_path, "r.example.org/a", **runtime) is None
    assert login(tmp_path, "debian", REGISTRY_AUTH_FILE=str(tmp_path / "none")) is None
    for broken in ("{", "[]", '{"auths": 3}', '{"auths": {"r.example": {"auth": 3, "identitytoken": 3}}}', "[" * 20000):
        (tmp_path / "broken.json").write_text(broken, encoding="utf-8")
        assert login(tmp_path, "r.example/a", REGISTRY_AUTH_FILE=str(tmp_path / "broken.json")) is None


@pytest.mark.parametrize(
    ("config", "answer", "expected"),
    [
        ({"credsStore": "box"}, '{"Username": "me", "Secret": "s"}', Credentials("me", "s")),
        ({"credHelpers": {"r.example": "box"}}, '{"Username": "me", "Secret": "s"}', Credentials("me", "s")),
        ({"credHelpers": {"other.example": "box"}}, '{"Username": "me", "Secret": "s"}', None),
        ({"credsStore": "box"}, '{"Username": "<token>", "Secret": "s"}', Credentials("<token>", "s")),
        ({"credsStore": "box"}, "credentials not found", None),
        ({"credsStore": "../bin/docker-credential-box"}, '{"Username": "me", "Secret": "s"}', None),
        ({"credsStore": "missing"}, "", None),
        ({}, '{"Username": "me", "Secret": "s"}', None),
    ],
)
def test_credential_helpers(
    tmp_path: Path, config: dict[str, object], answer: str, expected: Credentials | None
) -> None:
    program = tmp_path / "bin" / "docker-credential-box"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho \"$@\" >> '{tmp_path}/asked'; cat >> '{tmp_path}/asked'\necho '{answer}'\n")
    program.chmod(0o755)
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    path = f"{program.parent}:/usr/bin:/bin"
    assert login(tmp_path, "r.example/a", DOCKER_CONFIG=str(tmp_path), PATH=path) == expected
    asked = (tmp_path / "asked").read_text() if (tmp_path / "asked").exists() else ""
    assert asked in ("", "get\nr.example") and (asked or expected is None)


def test_at_most_four_at_a_time_and_each_once() -> None:
    gate, running, most = threading.Event(), [0], [0]
    lock = threading.Lock()

    def ask(name: str) -> str:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
            if running[0] == 4:
                gate.set()
        gate.wait(30)
        with lock:
            running[0] -= 1
        return f"digest of {name}"

    asking = Asking(ask, seconds=60)
    names = [f"image-{number}" for number in range(9)]
    asking.start(names)
    asking.start([*names, "late"])
    assert [asking.answer(name) for name in [*names, "late"]] == [f"digest of {name}" for name in [*names, "late"]]
    assert most[0] == 4


def test_who_is_slow_is_not_waited_for(registry: Registry) -> None:
    registry.push("a", "1")
    registry.wait = 60
    env = {"HOME": "nowhere"}
    asking = Asking(Registries(Fetcher(credentials={}, env=env).pool, {}, env).digest, seconds=0.2)
    asking.start([f"{registry.host}/a:1"])
    with pytest.raises(IndexFailure, match=rf"{registry.host} doesn't answer within 0\.2 s"):
        asking.answer(f"{registry.host}/a:1")


def test_what_asking_raises_comes_back() -> None:
    def broken(name: str) -> str:
        raise RuntimeError(name)

    asking = Asking(broken)
    asking.start(["a"])
    with pytest.raises(RuntimeError, match="a"):
        asking.answer("a")
