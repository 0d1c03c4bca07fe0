"""Nix in a store of its own, with a stand-in for nixpkgs on the host's tools, and files on loopback."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from uv import find_uv_bin

from support.serving import Quiet, Serving

STAND_IN = Path(__file__).resolve().parents[1] / "e2e" / "nixpkgs-stand-in" / "flake.nix"


class Files:
    """Serves files by the last part of the URL, whatever stands before it; `asked` is what was asked for, decoded."""

    def __init__(self) -> None:
        self.content: dict[str, bytes | Path] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(Quiet):
            def do_GET(self) -> None:
                outer.asked.append(unquote(self.path))
                content = outer.content.get(outer.asked[-1].rpartition("/")[2])
                if content is None:
                    self.send_error(404)
                    return
                data = content.read_bytes() if isinstance(content, Path) else content
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._serving = Serving(self._server)

    def close(self) -> None:
        self._serving.stop()


@dataclass
class Nix:
    """`base` holds the store, the stand-in and Nix's caches."""

    base: Path
    tools: dict[str, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True)
        python = Path(sys.base_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
        self.tools = {"python": python.resolve(), "uv": Path(find_uv_bin()), **self.tools}
        (self.base / "tools" / "bin").mkdir(parents=True)
        for name, program in self.tools.items():
            (self.base / "tools" / "bin" / name).symlink_to(program)
        self.nixpkgs({})

    @property
    def home(self) -> Path:
        return self.base / "home"

    def nixpkgs(self, host: Mapping[str, object]) -> None:
        """Write the stand-in, with what it's to know of this host."""
        folder = self.base / "nixpkgs"
        folder.mkdir(exist_ok=True)
        shutil.copy(STAND_IN, folder)
        known = {"tools": str(self.base / "tools"), "bash": shutil.which("bash"), "buildTools": sys.prefix, **host}
        (folder / "host.json").write_text(json.dumps(known), encoding="utf-8")

    def run(
        self, *words: str | Path, cwd: Path | None = None, timeout: float = 600
    ) -> subprocess.CompletedProcess[str]:
        """`nix` with flakes, off the network's caches, in this store."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("NIX_")}
        env = {
            **kept,
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.base / "cache"),
            "NIX_STORE_DIR": str(self.base / "store"),
            "NIX_STATE_DIR": str(self.base / "state"),
            "NIX_LOG_DIR": str(self.base / "log"),
            "NIX_CONF_DIR": str(self.base / "etc"),
        }
        options = {
            "extra-experimental-features": "nix-command flakes",
            "sandbox": "false",
            "build-users-group": "",
            "substituters": "",
            "flake-registry": "",
            "fsync-metadata": "false",
            "max-jobs": "2",
        }
        given = [word for name, value in options.items() for word in ("--option", name, value)]
        return subprocess.run(
            ["nix", *given, *map(str, words)],
            cwd=cwd or self.base,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )

    def flake(self, verb: str, *words: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """A verb on the flake in `cwd`, with the stand-in for nixpkgs."""
        return self.run(
            verb, "--no-write-lock-file", "--override-input", "nixpkgs", f"path:{self.base}/nixpkgs", *words, cwd=cwd
        )

    def evaluate(self, attribute: str, function: str = "x: x", *, cwd: Path) -> Any:
        """An attribute of the flake in `cwd`, through a function."""
        ran = self.flake("eval", "--json", f"{flake_in(cwd)}#{attribute}", "--apply", function, cwd=cwd)
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)

    def build(self, attribute: str, *words: str | Path, cwd: Path) -> Path:
        """Build an attribute of the flake in `cwd`; gives the result."""
        link = self.base / f"result-{attribute.strip('.').replace('/', '-') or 'default'}"
        ran = self.flake("build", f"{flake_in(cwd)}#{attribute}", "-o", link, "-L", *words, cwd=cwd)
        assert ran.returncode == 0, ran.stderr
        return link.resolve()

    def close(self) -> None:
        """Remove it all: a store is read only."""
        for folder, _, _ in os.walk(self.base):
            os.chmod(folder, 0o700)
        shutil.rmtree(self.base)


def flake_in(folder: Path) -> str:
    """The flake of a folder, as Nix's command line names it: that of a spec's recipes is a part of its repository."""
    if (folder.parent / "_shared").is_dir():
        return f"git+file://{folder.parents[1]}?dir=recipes/{folder.name}"
    return f"path:{folder}"
