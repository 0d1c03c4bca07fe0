"""A user's machine: home, caches and project of its own, where `envspec` runs off the real network."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envspec.lock.model import Lock
from envspec.lock.read import load
from support import forked, in_process

ROOT = Path(__file__).resolve().parents[2]
# A process started under nohup ignores SIGHUP, and hands that on; the program's own answer is what is tested.
_PROGRAM = (
    "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL);"
    "from envspec.__main__ import _end, main; signal.signal(signal.SIGINT, _end);"  # as from main's first line on
    "from envspec.base import places; places.ETC = {etc!r};"  # this machine's site is no part of a test
    "main()"
)


_interpreters: dict[str, bytes] = {}
"""uv's own records of the Pythons that it asked, by their paths in its cache. Asking takes longer than many a lock."""
_locks: dict[tuple[str, bytes], dict[str, bytes]] = {}
"""What `Machine.locked_before` made: the files below locks/, by the packages' name and the spec's text."""


@dataclass(frozen=True)
class Ran:
    """How a run ended."""

    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The first `error:` line of stderr."""
        return next((line for line in self.err.splitlines() if line.startswith("error:")), "")

    @property
    def hint(self) -> str:
        return next((line for line in self.err.splitlines() if line.startswith("hint:")), "")


@dataclass
class Machine:
    """`folder` is the project (specs/, locks/); beside it lie home and caches. `default` is the index for PyPI."""

    base: Path
    default: str | None = None
    variables: dict[str, str] = field(default_factory=lambda: {"UV_HTTP_RETRIES": "1", "UV_PYTHON_DOWNLOADS": "never"})
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        for folder in (self.folder / "specs", self.home):
            folder.mkdir(parents=True, exist_ok=True)
        self.configure("")

    def configure(self, mirrors: str) -> Path:
        """Write envspec's configuration: these lines of [mirrors], and one that keeps off the real image registry."""
        path = self.home / ".config" / "envspec" / "config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'[mirrors]\n{mirrors}\n"docker.io" = ""\n', encoding="utf-8")
        return path

    @property
    def folder(self) -> Path:
        return self.base / "project"

    @property
    def home(self) -> Path:
        return self.base / "home"

    @property
    def cache(self) -> Path:
        """envspec's own cache."""
        return self.home / ".cache" / "envspec"

    @property
    def environments(self) -> Path:
        """The folder of environments that have no prefix of their own."""
        return self.home / ".local" / "share" / "envspec" / "environments"

    @property
    def locks(self) -> Path:
        return self.folder / "locks"

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.defpath])
        env = {
            "HOME": str(self.home),
            "PATH": path,
            "PYTHONPATH": str(ROOT),
            "LANG": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        if self.default is not None:
            env["UV_DEFAULT_INDEX"] = self.default
        return {**env, **self.variables, **(more or {})}

    def spec(self, text: str, name: str = "demo") -> str:
        """Write a spec; gives its path, relative to the project folder."""
        path = self.folder / "specs" / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        return f"specs/{name}.toml"

    def start(self, *arguments: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start `envspec` in a session of its own, so that a test can see what is left of it."""
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(etc=str(self.base / "etc")), *arguments],
            cwd=self.folder, env=self.environment(env), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._started.append(process)
        return process

    def close(self) -> None:
        """End what a failed test left running, and remember what uv learnt about this Python."""
        for process in self._started:
            with process:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
        if not _interpreters:
            cache = self.home / ".cache" / "uv"
            found = [path for path in cache.glob("interpreter-*/*/*.msgpack") if path.is_file()]
            _interpreters.update({str(path.relative_to(cache)): path.read_bytes() for path in found})

    def introduce(self) -> None:
        """Tell this machine's uv what another learnt, unless there is a cache, something in its place, or no room."""
        uv = self.home / ".cache" / "uv"
        if (self.home / ".cache").exists() or not os.access(self.home, os.W_OK):
            return
        for name, content in _interpreters.items():
            path = uv / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def envspec(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        seconds: float = 90,
        spawn: bool = False,
        status: int | None = None,
    ) -> Ran:
        """Run `envspec` to its end: in this process, or in one of its own where that is what the test is about. It must
        end with `status`, if one is given."""
        ran = self._run(arguments, env, seconds, spawn)
        assert status in (None, ran.status), f"{arguments} ended with {ran.status}: {ran.out}{ran.err}"
        return ran

    def _run(self, arguments: tuple[str, ...], env: Mapping[str, str] | None, seconds: float, spawn: bool) -> Ran:
        whole = self.environment(env)
        self.introduce()
        if in_process.can_run(whole):
            ended = (forked if spawn else in_process).run(arguments, cwd=self.folder, env=whole, seconds=seconds)
            assert "Traceback" not in ended.err, ended.err
            return Ran(*ended)
        with self.start(*arguments, env=env) as process:
            try:
                out, err = process.communicate(timeout=seconds)
            except BaseException:
                process.kill()
                raise
        assert "Traceback" not in err, err
        return Ran(process.returncode, out, err)

    def lock_path(self, name: str = "demo") -> Path:
        return self.locks / name / "envspec.lock"

    def lock(self, name: str = "demo") -> Lock:
        return load(self.lock_path(name))

    def locked(
        self,
        *arguments: str,
        name: str = "demo",
        spec: str = "",
        seconds: float = 90,
        env: Mapping[str, str] | None = None,
    ) -> Lock:
        """Run `envspec lock specs/<name>.toml`, which must succeed, and read the lock. `spec` is its text, if new."""
        if spec:
            self.spec(spec, name)
        self.envspec("lock", f"specs/{name}.toml", *arguments, env=env, seconds=seconds, status=0)
        return self.lock(name)

    def locked_before(self, key: str, name: str = "demo") -> Lock:
        """The lock that another machine of this process made of the same spec, or one made now. For tests of what comes
        after the lock, whose machines have the same packages: `key` names these."""
        text = (self.folder / "specs" / f"{name}.toml").read_bytes()
        if (key, text) not in _locks:
            self.locked(name=name)
            _locks[key, text] = self.files()
        for path, content in _locks[key, text].items():
            (self.locks / path).parent.mkdir(parents=True, exist_ok=True)
            (self.locks / path).write_bytes(content)
        return self.lock(name)

    def versions(self, target: str, name: str = "demo") -> dict[str, str]:
        locked = self.lock(name).target(target)
        assert locked is not None
        return {pin.name: pin.version for pin in locked.pins}

    def files(self) -> dict[str, bytes]:
        """Every file below locks/, by relative path."""
        return {
            str(path.relative_to(self.locks)): path.read_bytes()
            for path in sorted(self.locks.rglob("*"))
            if path.is_file()
        }


def cpu(
    *requirements: str, extra: str = "", targets: str = "[targets.cpu]\nplatform = 'linux-64'\n", python: str = "3.12"
) -> str:
    """The text of a spec with these requirements; one CPU target unless `targets` says more; `extra` is for [pip]."""
    listed = ", ".join(repr(requirement) for requirement in requirements)
    return f"[env]\npython = '{python}'\n[pip]\ndependencies = [{listed}]\n{extra}\n{targets}"
