"""Secrets planted where people keep them, and every place in which one may turn up again."""

import base64
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from support.audit import Pypi
from support.conda_archives import PYTHON, Channel, borrowed_python, data_package, python_module
from support.index import Answer
from support.machine import Machine, Ran, cpu
from support.packages import wheel

USER = "robot"


@dataclass
class Guarded(Pypi):
    """An index, and a conda channel below /channel, that ask for more than a login.

    token   the path has to begin with /t/TOKEN
    signed  files have it as `?X-Amz-Signature=`
    """

    token: str = ""
    signed: str = ""
    channel: Path | None = None

    def answer(self, path: str) -> Answer:
        if self.token:
            if not path.startswith(f"/t/{self.token}/"):
                return Answer(403, b"no token", "text/plain")
            path = path.removeprefix(f"/t/{self.token}")
        if self.signed and path.startswith("/files/") and f"?X-Amz-Signature={self.signed}" not in path:
            return Answer(403, b"not signed", "text/plain")
        if path.startswith(("/channel/", "/another/")) and self.channel is not None:
            file = self.channel / path[1:].partition("/")[2]
            return Answer(200, file.read_bytes()) if file.is_file() else Answer(404, b"no", "text/plain")
        found = super().answer(path)
        if self.signed and path.startswith("/simple/"):
            signed = found.body.replace(b'.whl", "hashes"', f'.whl?X-Amz-Signature={self.signed}", "hashes"'.encode())
            return Answer(found.status, signed, found.kind)
        return found


@dataclass
class Plant:
    """One secret in its place, on a machine of its own.

    secret   the password or token
    files    where it was put, so that it may stand there
    pages    an index hands it out on its pages, which uv keeps in its own cache
    """

    machine: Machine
    index: Guarded
    secret: str
    files: list[Path] = field(default_factory=list)
    said: list[Ran] = field(default_factory=list)
    pages: bool = False

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        self.files.append(path)

    def run(self, *arguments: str) -> Ran:
        ran = self.machine.envspec(*arguments)
        self.said.append(ran)
        return ran

    def url(self, login: str, base: str = "") -> str:
        return (base or self.index.url).replace("http://", f"http://{login}@")

    def forms(self) -> set[str]:
        """How a secret may be written."""
        plain = self.secret
        coded = {base64.b64encode(text.encode()).decode().rstrip("=") for text in (plain, f"{USER}:{plain}")}
        percent = {quote(plain), quote(plain, safe=""), quote(plain, safe="").lower()}
        return {plain, json.dumps(plain)[1:-1], *percent, *coded}

    def _is_private(self, path: Path) -> bool:
        """A cache that only its user may look into, and uv's own where it has pages with what an index hands out."""
        if self.pages and any(part == "uv" or part.startswith("uv-") for part in path.parent.parts):
            return True
        folder = next((above for above in path.parents if above.name.endswith("-private")), None)
        return folder is not None and folder.stat().st_mode & 0o777 == 0o700

    def found(self) -> list[str]:
        """Where it turned up: what was printed, and files by name and content."""
        forms = self.forms()
        places = []
        for ran in self.said:
            places += [f"printed: {line}" for line in (ran.out + ran.err).splitlines() if any(f in line for f in forms)]
        coded = [form.encode() for form in forms]
        for path in self.machine.base.rglob("*"):
            if path in self.files or not path.is_file() or self._is_private(path):
                continue
            content = str(path).encode() + path.read_bytes()
            if any(form in content for form in coded):
                places.append(str(path))
        return places


@contextmanager
def planted(folder: Path, secret: str, **guard: object) -> Iterator[Plant]:
    """A machine and an index with two wheels and a conda package; the secret is put in place by the caller."""
    channel = Channel(folder / "channel").add(
        data_package("tool", "1.0"), borrowed_python("linux-64"), python_module("pip", "26.0")
    )
    index = Guarded(channel=channel.folder, **guard)  # type: ignore[arg-type]
    with index:
        index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"), uploaded="2026-01-01T00:00:00Z")
        index.know("alpha", "1.0")
        index.know("beta", "1.0")
        machine = Machine(folder / "machine")
        # keep the machine's own trust and registry out of it
        machine.variables |= {"UV_HTTP_RETRIES": "0", "PIP_CONFIG_FILE": os.devnull}
        try:
            yield Plant(machine, index, secret)
        finally:
            machine.close()


def spec(extra: str = "", more: str = "") -> str:
    return cpu("alpha", extra=extra, python=PYTHON) + more


COMMANDS: dict[str, tuple[str, ...]] = {
    "lock": ("lock", "specs/demo.toml", "--json"),
    "lock again": ("lock", "specs/demo.toml", "--upgrade"),
    "check": ("check", "specs/demo.toml", "--json"),
    "tree": ("tree", "specs/demo.toml"),
    "why": ("why", "specs/demo.toml", "beta"),
    "requirements": ("export", "specs/demo.toml", "-f", "requirements", "-o", "-"),
    "pylock": ("export", "specs/demo.toml", "-f", "pylock", "-o", "-"),
    "formats": ("export", "specs/demo.toml", "-f", "sbom", "-f", "pylock", "-o", "exported"),
    "recipes": ("export", "specs/demo.toml", "-f", "all", "-o", "recipes/demo"),
    "bundle": ("bundle", "specs/demo.toml", "-o", "demo.tar"),
    "install": ("install", "specs/demo.toml", "--prefix", "../environment"),
    "audit": ("audit", "specs/demo.toml"),
    "audit as JSON": ("audit", "specs/demo.toml", "--json"),
    "diff": ("diff", "specs/demo.toml", "--format", "markdown"),
    "report": ("report", "specs/demo.toml", "-o", "report.html"),
    "doctor": ("doctor", "specs/demo.toml"),
}
"""Every command that asks an index or reads a lock."""
