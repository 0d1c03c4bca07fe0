"""The user's logins at registries, from Docker's and Podman's own files, which envspec reads and never writes.

The forms are those of docker's `config.json` and of containers-auth.json(5).
"""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from envspec.base import programs
from envspec.base.documents import read_json
from envspec.base.settings import Credentials
from envspec.net.image_address import HUB, ImageAddress

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
        found = _helper(_table_in(table, "credHelpers").get(image.registry), image.registry, env)
        found = found or _written(_table_in(table, "auths"), image)
        found = found or _helper(table.get("credsStore"), image.registry, env)
        if found:
            return found
    return None


def _files(env: Mapping[str, str]) -> Iterator[Path]:
    if env.get("REGISTRY_AUTH_FILE"):
        yield Path(env["REGISTRY_AUTH_FILE"])
        return
    home = Path(env.get("HOME", "~")).expanduser()
    if env.get("XDG_RUNTIME_DIR"):
        yield Path(env["XDG_RUNTIME_DIR"]) / "containers" / "auth.json"
    yield Path(env.get("XDG_CONFIG_HOME") or home / ".config") / "containers" / "auth.json"
    yield Path(env.get("DOCKER_CONFIG") or home / ".docker") / "config.json"


def _table(path: Path) -> Mapping[str, Any]:
    try:
        found = read_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _table_in(table: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = table.get(key)
    return found if isinstance(found, dict) else {}


def _written(auths: Mapping[str, Any], image: ImageAddress) -> Credentials | None:
    """Find the login in the file itself, by the longest key that covers the image."""
    by_place = {_place(key): entry for key, entry in auths.items() if isinstance(entry, dict)}
    place = f"{image.registry}/{image.path}"
    while place:
        entry = by_place.get(place)
        found = _identity(entry) or _decoded(entry.get("auth")) if entry else None
        if found:
            return found
        place = place.rpartition("/")[0]
    return None


def _identity(entry: Mapping[str, Any]) -> Credentials | None:
    """Find an identity token, beside which `auth` has a user without a password."""
    token = entry.get("identitytoken")
    return Credentials(IDENTITY, token).masked() if isinstance(token, str) and token else None


def _place(key: str) -> str:
    """Split a key into registry and path: docker writes the Hub's as a URL."""
    bare = re.sub(r"^https?://", "", key).rstrip("/")
    bare = re.sub(r"/v[12]$", "", bare)
    return HUB if bare == f"index.{HUB}" else bare


def _decoded(auth: object) -> Credentials | None:
    """`base64(user:password)`."""
    if not isinstance(auth, str):
        return None
    try:
        user, colon, password = base64.b64decode(auth, validate=True).decode().partition(":")
    except ValueError:
        return None
    # docker pads passwords with NUL
    return Credentials(user, password.rstrip("\0")).masked() if user and colon else None


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
    return Credentials(user, secret).masked()
