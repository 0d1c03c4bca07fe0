"""Digests of images: the part of the OCI distribution API that pulls manifests."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urljoin, urlsplit

from msgspec import Struct

from envspec.base import programs
from envspec.base.documents import read_json
from envspec.base.errors import IndexFailure, InputError
from envspec.base.places import config_home, home_of
from envspec.base.redact import redact, register, without_credentials
from envspec.configuration.settings import Credentials, split_credentials
from envspec.net.body import Pace, TooMuch, read_whole, too_slow
from envspec.net.fetch import reason_of
from envspec.net.limits import LIMITS
from envspec.net.transport import PeerTooSlow, deadline, is_loopback

if TYPE_CHECKING:
    import urllib3

# Image names and their parts: registry, path and tag.

HUB = "docker.io"
"""The registry of a name without one, as in all container tools."""


class ImageAddress(Struct, frozen=True):
    """The parts of an image's name. `debian:bookworm-slim` is registry "docker.io", path "library/debian", tag
    "bookworm-slim".

    digest  the digest in the name itself ("sha256:…"), else None
    """

    registry: str
    path: str
    tag: str
    digest: str | None


def image_address(name: str) -> ImageAddress:
    """Parse an image's name, [registry/]path[:tag][@digest], by the rules of container tools.

    The part before the first slash is a registry when it has a dot or a colon, is "localhost", or holds capitals; a
    name without one is the Hub's, and a single word there is below "library/". The tag is "latest" by default.
    """
    rest, _, digest = name.partition("@")
    head, slash, tail = rest.partition("/")
    if slash and (any(c in ".:" for c in head) or head == "localhost" or head != head.lower()):
        registry, rest = head, tail
    else:
        registry = HUB
    folder, _, last = rest.rpartition("/")
    last, _, tag = last.partition(":")
    path = f"{folder}/{last}" if folder else last
    if registry == f"index.{HUB}":
        registry = HUB
    if registry == HUB and "/" not in path:
        path = f"library/{path}"
    return ImageAddress(registry, path, tag or "latest", digest or None)


_HELPER_SECONDS = 3.0
IDENTITY = "<token>"
"""The user that says that the password is an identity token, which is changed for others by OAuth 2. Source: docker's
credential helpers, "Identity tokens"."""
_HELPER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def login_for(image: ImageAddress, env: Mapping[str, str]) -> Credentials | None:
    """Find the user's name and password for an image's registry. None if no file has any.

    A login for a part of a registry ("quay.io/team") goes before one for all of it. Starts a credential helper only if
    a file names it for this registry, or for all. Skips files that can't be read: their own tools report them.
    """
    for path in _files(env):
        table = _table(path)
        login = _helper(_table_in(table, "credHelpers").get(image.registry), image.registry, env)
        login = login or _login_in_file(_table_in(table, "auths"), image)
        login = login or _helper(table.get("credsStore"), image.registry, env)
        if login:
            return login
    return None


def _files(env: Mapping[str, str]) -> Iterator[Path]:
    if env.get("REGISTRY_AUTH_FILE"):
        yield Path(env["REGISTRY_AUTH_FILE"])
        return
    home = home_of(env)
    if os.path.isabs(env.get("XDG_RUNTIME_DIR", "")):
        yield Path(env["XDG_RUNTIME_DIR"]) / "containers" / "auth.json"
    yield config_home(env, home) / "containers" / "auth.json"
    yield Path(env.get("DOCKER_CONFIG") or home / ".docker") / "config.json"


def _table(path: Path) -> Mapping[str, Any]:
    try:
        document = read_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _table_in(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = table.get(key)
    return value if isinstance(value, dict) else {}


def _login_in_file(auths: Mapping[str, Any], image: ImageAddress) -> Credentials | None:
    """Find the login in the file itself, by the longest key that covers the image."""
    by_place = {_place(key): entry for key, entry in auths.items() if isinstance(entry, dict)}
    place = f"{image.registry}/{image.path}"
    while place:
        entry = by_place.get(place)
        login = _identity(entry) or _decode(entry.get("auth")) if entry else None
        if login:
            return login
        place = place.rpartition("/")[0]
    return None


def _identity(entry: Mapping[str, Any]) -> Credentials | None:
    """Find an identity token, beside which `auth` has a user without a password."""
    token = entry.get("identitytoken")
    return Credentials(IDENTITY, token).mask() if isinstance(token, str) and token else None


def _place(key: str) -> str:
    """Split a key into registry and path: docker writes the Hub's as a URL."""
    bare = re.sub(r"^https?://", "", key).rstrip("/")
    bare = re.sub(r"/v[12]$", "", bare)
    return HUB if bare == f"index.{HUB}" else bare


def _decode(auth: object) -> Credentials | None:
    """Decode `base64(user:password)`."""
    if not isinstance(auth, str):
        return None
    try:
        user, colon, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except ValueError:
        return None
    # docker pads passwords with NUL
    return Credentials(user, password.rstrip("\0")).mask() if user and colon else None


def _helper(name: object, registry: str, env: Mapping[str, str]) -> Credentials | None:
    """Run `docker-credential-NAME get`, which answers JSON with Username and Secret."""
    if not isinstance(name, str) or not _HELPER_NAME.fullmatch(name):
        return None
    program = programs.find_program(f"docker-credential-{name}", env)
    if program is None:
        return None
    server = f"https://index.{HUB}/v1/" if registry == HUB else registry
    try:
        ran = programs.run([program, "get"], env, given=server.encode(), seconds=_HELPER_SECONDS)
        answer = read_json(ran.stdout.decode()) if ran.returncode == 0 else None
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    if not isinstance(answer, dict):
        return None
    user, secret = answer.get("Username"), answer.get("Secret")
    if not isinstance(user, str) or not isinstance(secret, str):
        return None
    return Credentials(user, secret).mask()


SECONDS = 5.0
"""Seconds that all questions for digests together may add to a run."""
_AT_ONCE = 4
_CONNECT_SECONDS = 2.0
_READ_SECONDS = 3.0
_REDIRECTS = 3
_LIMIT = 4 << 20
"""Bytes of a manifest: the largest that the distribution specification wants registries to take."""

MANIFEST_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
"""The types of manifest to ask for: first those of all platforms, then those of a single one."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TOKEN = re.compile(r"[\x21-\x7e]+")
_CHALLENGE = re.compile(r'\b(\w+)="([^"]*)"')


class RegistryEndpoint(Struct, frozen=True):
    """The address of an image on a registry: "https://host", and the image's path there."""

    origin: str
    path: str
    login: Credentials | None
    is_mirror: bool = False


class _Reply(Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: bytes


class Registries:
    """Access to registries from this machine.

    pool     gives the connections for a URL
    mirrors  `[mirrors]` of envspec's configuration: a registry's name ("docker.io") -> the address to ask instead. A
             path in it goes before the image's; an empty address means that envspec never asks the registry
    env      the environment, which leads to the user's logins
    """

    def __init__(
        self, pool: Callable[[str], urllib3.PoolManager], mirrors: Mapping[str, str], env: Mapping[str, str]
    ) -> None:
        self._pool = pool
        self._mirrors = mirrors
        self._env = env

    def asks(self, name: str) -> bool:
        """Return whether envspec may ask an image's registry. Raises InputError for a mirror that isn't an address."""
        image = image_address(name)
        if self._mirrors.get(image.registry) == "":
            return False
        self.endpoint(image)
        return True

    def digest(self, name: str) -> str:
        """Ask for the digest ("sha256:…") of an image's name: that of the image index if there is one.

        The header of a HEAD request is trusted: a wrong digest can't be pulled. If only GET gives a digest, it is
        computed from the bytes, and has to equal the header's.

        Raises IndexFailure without an answer or with a wrong one; InputError for a mirror that isn't an address.
        """
        image = image_address(name)
        endpoint = self.endpoint(image)
        url = f"{endpoint.origin}/v2/{endpoint.path}/manifests/{image.tag}"
        authorization: str | None = None
        reply = self._send("HEAD", url, None)
        if reply.status == 401:
            authorization = self.authorization(reply.headers.get("WWW-Authenticate", ""), image, endpoint)
            reply = self._send("HEAD", url, authorization)
        announced = reply.headers.get("Docker-Content-Digest", "")
        if reply.status == 200 and _DIGEST.fullmatch(announced):
            self._judge(reply, url)
            return announced
        if reply.status in (200, 405):
            reply = self._send("GET", url, authorization)
        self._judge(reply, url)
        computed = f"sha256:{hashlib.sha256(reply.body).hexdigest()}"
        announced = reply.headers.get("Docker-Content-Digest", "")
        # a registry may know the same bytes by another algorithm
        if announced.startswith("sha256:") and announced != computed:
            raise IndexFailure(
                f"{url} announces {announced} and sends {computed}",
                hint="check whether a proxy on the way changes the answer",
            )
        return computed

    def endpoint(self, image: ImageAddress, *, writing: bool = False) -> RegistryEndpoint:
        """Return the address of an image: the registry's mirror if there is one, except for writing. Raises InputError
        for a mirror that isn't an address."""
        mirror = None if writing else self._mirrors.get(image.registry)
        if mirror:
            bare, login = split_credentials(mirror)
            parts = urlsplit(bare)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                hint = "for example: https://mirror.example"
                raise InputError(f"[mirrors] {image.registry} isn't an http or https address", hint=hint)
            path = "/".join(part for part in (parts.path.strip("/"), image.path) if part)
            return RegistryEndpoint(f"{parts.scheme}://{parts.netloc}", path, login, True)
        # the Hub's name is not where its API answers
        host = f"registry-1.{image.registry}" if image.registry == HUB else image.registry
        return RegistryEndpoint(f"{'http' if is_loopback(f'//{host}') else 'https'}://{host}", image.path, None)

    def authorization(
        self, challenge: str, image: ImageAddress, endpoint: RegistryEndpoint, scopes: Sequence[str] = ()
    ) -> str:
        """Make the header that answers a registry's 401: a token, fetched with the user's login if there is one.
        `scopes` are the permissions that it asks for, by default to pull the image. Raises IndexFailure."""
        host = urlsplit(endpoint.origin).netloc
        # a mirror has its own login: that of the registry it stands for is none of its business
        login_place = ImageAddress(host, endpoint.path, "", None) if endpoint.is_mirror else image
        login = endpoint.login or login_for(login_place, self._env)
        identity = login.password if login and login.username == IDENTITY else None
        basic = login.basic if login and identity is None else None
        scheme, _, fields = challenge.strip().partition(" ")
        if scheme.lower() == "basic" and basic:
            return basic
        parameters = dict(_CHALLENGE.findall(fields))
        if scheme.lower() != "bearer" or "realm" not in parameters:
            raise needs_login(host)
        query = [("scope", scope) for scope in scopes or (f"repository:{endpoint.path}:pull",)]
        if "service" in parameters:
            query.append(("service", parameters["service"]))
        realm = resolve_location(endpoint.origin, parameters["realm"])
        if identity is not None:
            reply = self._send("POST", realm, None, limit=1 << 20, form=_refreshing(query, identity))
        else:
            reply = self._send("GET", f"{realm}{'&' if '?' in realm else '?'}{urlencode(query)}", basic, limit=1 << 20)
        if reply.status in (401, 403):
            raise needs_login(host)
        try:
            answer = read_json(reply.body) if reply.status == 200 else {}
            token = answer.get("token") or answer.get("access_token")
        except (ValueError, AttributeError, RecursionError):
            token = None
        if not isinstance(token, str) or not _TOKEN.fullmatch(token):
            raise IndexFailure(f"{urlsplit(realm).netloc} gives no token for {host} (HTTP {reply.status})")
        register(token)
        return f"Bearer {token}"

    def _send(
        self, method: str, url: str, authorization: str | None, *, limit: int = _LIMIT, form: str | None = None
    ) -> _Reply:
        """Send one request and follow its redirects. A login goes only to its own origin, and never unencrypted; a form
        goes nowhere else."""
        import urllib3
        from urllib3.exceptions import HTTPError

        headers = {"Accept": ", ".join(MANIFEST_TYPES), "Accept-Encoding": "identity"}
        if authorization:
            headers["Authorization"] = authorization
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        with deadline(LIMITS.whole_seconds) as whole, whole.holds():
            for _ in range(_REDIRECTS + 1):
                shown = shown_address(url)
                parts = urlsplit(url)
                if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(url)):
                    hint = "set up a certificate for the registry"
                    raise IndexFailure(f"{shown} isn't https, so envspec doesn't contact it", hint=hint)
                try:
                    response = self._pool(url).request(
                        method,
                        url,
                        headers=headers,
                        body=form,
                        redirect=False,
                        retries=urllib3.Retry(total=1, redirect=False, status=0),
                        timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS),
                        preload_content=False,
                    )
                    location = response.headers.get("Location")
                    body = read_whole(response, limit, Pace(shown, LIMITS, whole, whole=True))
                    response.release_conn()
                except PeerTooSlow as slow:
                    raise too_slow(shown, slow.seconds, 0) from None
                except TooMuch:
                    raise IndexFailure(f"{shown} sends more than {limit >> 20} MiB, the limit for a manifest") from None
                except (HTTPError, ValueError) as error:
                    raise IndexFailure(f"{shown} can't be read: {reason_of(error)}") from None
                if response.status not in (301, 302, 303, 307, 308) or not location or form is not None:
                    return _Reply(response.status, response.headers, body)
                target = resolve_location(url, location)
                if urlsplit(target)[:2] != parts[:2]:
                    headers.pop("Authorization", None)
                url = target
        raise IndexFailure(f"{shown} redirects too often")

    def _judge(self, reply: _Reply, url: str) -> None:
        """Raise IndexFailure for an answer that isn't a manifest."""
        if reply.status in (401, 403):
            raise needs_login(urlsplit(url).netloc)
        if reply.status == 404:
            raise IndexFailure(f"{url} doesn't exist", hint="check the image's name and tag")
        if reply.status == 429:
            raise IndexFailure(
                f"{url} allows no more requests for now (HTTP 429)", hint="log in with `docker login`, or wait"
            )
        kind = reply.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if reply.status != 200 or kind not in MANIFEST_TYPES:
            what = (
                f"HTTP {reply.status}"
                if reply.status != 200
                else f"{redact(kind)[:60] or 'no content type'}, not a manifest"
            )
            raise IndexFailure(f"{url} answers {what}")


def _refreshing(query: Sequence[tuple[str, str]], identity: str) -> str:
    """Write the form that changes an identity token for one of these scopes.

    Source: distribution's token specification, "OAuth2 Token Authentication"."""
    scopes = " ".join(value for name, value in query if name == "scope")
    rest = [pair for pair in query if pair[0] != "scope"]
    own = [("grant_type", "refresh_token"), ("client_id", "envspec"), ("refresh_token", identity), ("scope", scopes)]
    return urlencode([*own, *rest])


def needs_login(host: str) -> IndexFailure:
    return IndexFailure(
        f"{host} has no such image, or needs a login that can read it", hint=f"check the name, or `docker login {host}`"
    )


def resolve_location(url: str, other: str) -> str:
    """Resolve `other`, a location in an answer from `url`."""
    try:
        target = urljoin(url, other)
        urlsplit(target)
    except ValueError:
        raise IndexFailure(f"{shown_address(url)} redirects to something that isn't an address") from None
    return target


def shown_address(url: str) -> str:
    """Strip a URL for messages: no user and no query, as both may be secret."""
    return without_credentials(url).partition("?")[0]


class Asking:
    """Requests for digests in the background, while packages are resolved."""

    def __init__(self, ask: Callable[[str], str], *, seconds: float = SECONDS) -> None:
        self._ask = ask
        self._seconds = seconds
        self._turn = threading.Semaphore(_AT_ONCE)
        self._threads: dict[str, threading.Thread] = {}
        self._answers: dict[str, str | Exception] = {}
        self._until = 0.0

    def start(self, names: Iterable[str]) -> None:
        """Ask for the digests of names that are new."""
        for name in names:
            if name not in self._threads:
                # a daemon: what hangs in a name look-up must not keep the process from its end
                self._threads[name] = threading.Thread(target=self._run, args=(name,), daemon=True)
                self._threads[name].start()
                self._until = time.monotonic() + self._seconds

    def answer(self, name: str) -> str:
        """Wait for the digest of a name given to `ask`, no longer than all requests may take together.

        Raises what the request raised; IndexFailure without an answer in time.
        """
        self._threads[name].join(max(0.0, self._until - time.monotonic()))
        reply = self._answers.get(name)
        if reply is None:
            registry = image_address(name).registry
            raise IndexFailure(f"{registry} doesn't answer within {self._seconds:g} s", hint="check the network")
        if isinstance(reply, Exception):
            raise reply
        return reply

    def _run(self, name: str) -> None:
        with self._turn:
            try:
                self._answers[name] = self._ask(name)
            except Exception as error:  # noqa: BLE001 (raised again for who waits for the answer)
                self._answers[name] = error
