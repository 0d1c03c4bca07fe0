"""The Python of an environment without conda's: found here or fetched, and made into a virtual environment."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from envspec.base import programs
from envspec.base.documents import read_json
from envspec.base.errors import IndexFailure, InputError, ToolError
from envspec.base.places import data_home, home_of
from envspec.base.redact import redact
from envspec.base.storage import refuse_shortage
from envspec.configuration.settings import Settings, load_settings, trusted_folder
from envspec.export.python_build import RELEASES, TABLE, folder_name, uv_table
from envspec.lock.model import LockedPython
from envspec.net.connections import index_fetcher
from envspec.net.fetch import NOT_THERE
from envspec.net.file_store import ARTIFACTS, FileStore, WantedFile
from envspec.resolve.uv.errors import cause, machine_error
from envspec.resolve.uv.program import Uv

# Builds of CPython that uv brings to a machine: the lock's own, by its hash, or uv's newest where it names none.
#
# uv has a table of them with their hashes; for a build of the lock, the lock takes the table's place. Where they are
# fetched from is uv's setting (`UV_PYTHON_INSTALL_MIRROR`, or `python-install-mirror` in uv.toml), or `[mirrors]
# python`.


MIRROR_VARIABLE = "UV_PYTHON_INSTALL_MIRROR"
MIRROR = "python"
"""The key in `[mirrors]` of envspec's configuration."""
_FOLDER_VARIABLE = "UV_PYTHON_INSTALL_DIR"
SHARED = "[cache] shared"
"""The setting that names the cache of all users. Its folder `python` has the Pythons of their environments."""


def may_fetch(env: Mapping[str, str], uv: Uv) -> bool:
    """Return whether the user lets Pythons be fetched."""
    return not uv.offline and load_settings(env).fetches_python


def uvs_folder(env: Mapping[str, str]) -> Path:
    """Give the folder of uv's Pythons."""
    return Path(env.get(_FOLDER_VARIABLE) or data_home(env) / "uv" / "python")


def with_shared_pythons(env: Mapping[str, str], shared: Path | None) -> Mapping[str, str]:
    """Give the environment of an installation whose Python all users run: below their cache, unless uv's variable names
    another place."""
    return env if shared is None or env.get(_FOLDER_VARIABLE) else {**env, _FOLDER_VARIABLE: str(shared / MIRROR)}


def place_of_build(build: LockedPython, env: Mapping[str, str]) -> Path | None:
    """Find the interpreter of a build that is on this machine already, among uv's Pythons, envspec's, or those that all
    users share. Raises InputError for a shared cache that another user may write to."""
    shared = trusted_folder(load_settings(env).shared_cache, SHARED)
    for folder in (uvs_folder(env), _own_folder(build, env), *([shared / MIRROR] if shared else [])):
        root = folder / folder_name(build)
        interpreter = root / "bin" / f"python{build.version.rpartition('.')[0]}"
        if _release_in(root) == build.build and interpreter.is_file():
            return interpreter
    return None


def fetch_python(python: str, build: LockedPython | None, env: Mapping[str, str], uv: Uv) -> None:
    """Have uv fetch a CPython `python` ("3.12"): the build that a lock names, or uv's newest. It goes to uv's Pythons,
    or to envspec's where uv has another release of that version. Raises ToolError."""
    more = {name: value for name, value in env.items() if name.startswith("UV_PYTHON_")}
    more["UV_PYTHON_DOWNLOADS"] = "automatic"
    mirror = load_settings(env).mirrors.get(MIRROR)
    if mirror:
        more.setdefault(MIRROR_VARIABLE, mirror)
    words = ["python", "install", "--no-bin", build.version if build else python]
    with tempfile.TemporaryDirectory() as folder:
        if build is not None:
            table = Path(folder) / "builds.json"
            table.write_text(uv_table(build), encoding="utf-8")
            more[TABLE] = table.as_uri()
            if (uvs_folder(env) / folder_name(build)).exists():
                more[_FOLDER_VARIABLE] = str(_own_folder(build, env))
        # no project's settings count, only the user's
        done = uv.run(words, cwd=Path("/"), more=more)
    if stopped := machine_error(done.returncode, done.stderr, "uv"):
        raise stopped
    if done.returncode:
        reason = cause(redact(done.stderr))
        if build is None:
            hint = f"install python{python}; or set {MIRROR_VARIABLE} to a mirror of its builds"
            raise ToolError(f"this machine has no CPython {python}, and uv can't fetch one: {reason}", hint=hint)
        raise ToolError(
            f"uv can't fetch CPython {build.version} of {build.build}, which the lock names: {reason}",
            hint=f"set {MIRROR_VARIABLE}, or [mirrors] {MIRROR}, to a mirror of its builds; with"
            f" UV_PYTHON_DOWNLOADS=never, envspec takes this machine's own Python {python}",
        )


def _own_folder(build: LockedPython, env: Mapping[str, str]) -> Path:
    return data_home(env) / "envspec" / "python" / build.build


def _release_in(root: Path) -> str | None:
    """Read what uv notes beside a Python that it unpacked: the release that it is of."""
    try:
        return (root / "BUILD").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None


def build_address(build: LockedPython, settings: Settings, env: Mapping[str, str]) -> str:
    """Give the URL of a build: below the mirror of uv's variable, of `[mirrors] python`, or at its publisher."""
    base = env.get(MIRROR_VARIABLE) or settings.mirrors.get(MIRROR) or RELEASES
    return f"{base.rstrip('/')}/{build.build}/{quote(build.file)}"


def fetch_build(
    build: LockedPython, settings: Settings, env: Mapping[str, str], *, offline: bool = False, into: Path | None = None
) -> Path:
    """Fetch a build, unless it is in the cache; `into` is another cache to read and fill. Raises InputError where it
    isn't there and the user lets none be fetched, IndexFailure, whose hint names what has to serve it, OSError."""
    fetcher = index_fetcher(settings, {}, env, offline=offline)
    store = FileStore(into / ARTIFACTS, fetcher) if into else FileStore.of(settings, fetcher)
    expected = WantedFile(build.file, build.sha256, build.size)
    if cached := store.find_and_verify(expected):
        return cached
    if not settings.fetches_python:
        raise InputError(
            f"the cache has no {build.file}, and UV_PYTHON_DOWNLOADS, or uv's python-downloads, lets none be fetched",
            hint="where it may be fetched, run `UV_PYTHON_DOWNLOADS=automatic envspec cache fill`; or let images take "
            'the base\'s own Python: [image] python = "base"',
        )
    try:
        return store.fetch(build_address(build, settings, env), expected)
    except IndexFailure as error:
        if error.hint != NOT_THERE:
            raise
        mirror = env.get(MIRROR_VARIABLE) or settings.mirrors.get(MIRROR)
        demand = f"{redact(mirror)} has to serve" if mirror else f"a mirror that [mirrors] {MIRROR} names has to serve"
        error.hint = f"{demand} {build.build}/{build.file}, or `envspec cache fill` puts it into a shared cache"
        raise


_SECONDS = 30.0
_ASK = """\
import json, sys, sysconfig
print(json.dumps([sys.implementation.name, "%d.%d" % sys.version_info[:2], sys.base_prefix, sys.maxsize > 2**32,
                  bool(sysconfig.get_config_var("Py_GIL_DISABLED")), "%d.%d.%d" % sys.version_info[:3]]))
"""


def python_of(prefix: Path) -> Path:
    """Give the path of a prefix's interpreter."""
    return prefix / "bin" / "python"


def find_interpreter(python: str, env: Mapping[str, str]) -> Path:
    """Find a CPython `python` ("3.12") on this machine.

    Looks, in this order, at the Python that runs envspec, PATH, uv's Pythons, pyenv's. An interpreter of a virtual
    environment stands for its base. Raises ToolError, which names what is missing.
    """
    looked: list[str] = []
    for candidate in _candidates(python, env):
        if candidate in looked:
            continue
        looked.append(candidate)
        base = _base(candidate, python, env)
        if base is not None:
            return base
    raise ToolError(
        f"this machine has no CPython {python} to make an environment with",
        hint=f"install it (`uv python install {python}`, or your system's python{python}), or let the spec take"
        f' Python from conda: [conda] dependencies = ["python {python}.*"]',
    )


def has_python(prefix: Path, python: str) -> bool:
    """Return whether a prefix is a virtual environment of Python `python` that still runs."""
    return (prefix / "pyvenv.cfg").is_file() and _ask(str(python_of(prefix)), python, os.environ) is not None


def version_of(prefix: Path, env: Mapping[str, str]) -> str | None:
    """Give the full version of a prefix's Python ("3.12.14"); None where it doesn't run."""
    facts = _probe(str(python_of(prefix)), env)
    return str(facts[5]) if facts else None


def make_virtual_environment(
    prefix: Path,
    python: str,
    env: Mapping[str, str],
    uv: Uv,
    build: LockedPython | None = None,
    interpreter: Path | None = None,
    *,
    seeing_it: bool = False,
) -> None:
    """Make a virtual environment in `prefix`, beside any other content: of `interpreter`, of
    the lock's `build`, which uv fetches, or of this machine's Python where the lock names none or the user lets none be
    fetched. With `seeing_it`, its Python sees the packages of that Python, too. Raises ToolError."""
    base = interpreter if interpreter and interpreter.exists() else _find_or_fetch(python, env, uv, build)
    options = ["--quiet", "--no-config", "--no-project", "--allow-existing", *["--system-site-packages"] * seeing_it]
    done = uv.run(["venv", *options, "--python", str(base), str(prefix)], cwd=Path("/"))
    if stopped := machine_error(done.returncode, done.stderr, "uv"):
        raise stopped
    if done.returncode:
        message = " ".join(redact(done.stderr).split())
        raise ToolError(f"{base} can't make a virtual environment: {message}", hint="check that this Python works")


def _find_or_fetch(python: str, env: Mapping[str, str], uv: Uv, build: LockedPython | None) -> Path:
    if build is not None and (interpreter := place_of_build(build, env)):
        return interpreter
    if build is None or not may_fetch(env, uv):
        try:
            return find_interpreter(python, env)
        except ToolError:
            if not may_fetch(env, uv):
                raise
    fetch_python(python, build, env, uv)
    return (place_of_build(build, env) if build else None) or find_interpreter(python, env)


def is_of_build(prefix: Path, build: LockedPython, env: Mapping[str, str]) -> bool:
    """Return whether a virtual environment is of a build that is on this machine."""
    interpreter = place_of_build(build, env)
    return interpreter is not None and python_of(prefix).resolve() == interpreter.resolve()


def unmake_virtual_environment(prefix: Path) -> None:
    """Remove the files that make a prefix a virtual environment; its packages stay. Raises OSError."""
    if not (prefix / "pyvenv.cfg").is_file():
        return
    for path in (prefix / "bin").glob("python*"):
        if path.is_symlink():
            path.unlink()
    (prefix / "pyvenv.cfg").unlink()


def _candidates(python: str, env: Mapping[str, str]) -> Iterator[str]:
    name = f"python{python}"
    if f"{sys.version_info.major}.{sys.version_info.minor}" == python:
        yield str(Path(sys.base_prefix) / "bin" / name)
    path = env.get("PATH", os.defpath)
    for folder in path.split(os.pathsep):
        for program in (name, "python3", "python"):
            if os.path.isabs(folder) and (candidate := shutil.which(program, path=folder)):
                yield candidate
    uvs = uvs_folder(env)
    pyenvs = Path(env.get("PYENV_ROOT") or home_of(env) / ".pyenv") / "versions"
    for root, pattern in ((uvs, f"cpython-{python}.*"), (pyenvs, f"{python}.*")):
        yield from sorted(glob.glob(os.path.join(glob.escape(str(root)), pattern, "bin", name)), reverse=True)


def _base(candidate: str, python: str, env: Mapping[str, str]) -> Path | None:
    """Return the interpreter that `candidate` is or was made from, if it's the required Python."""
    base_prefix = _ask(candidate, python, env)
    if base_prefix is None:
        return None
    base = Path(base_prefix) / "bin" / f"python{python}"
    return base if base.is_file() else Path(candidate)


def _ask(candidate: str, python: str, env: Mapping[str, str]) -> str | None:
    """Give the base prefix of an interpreter that is a 64-bit CPython `python` with a GIL, else None."""
    facts = _probe(candidate, env)
    if facts is None or (facts[0], facts[1], *facts[3:5]) != ("cpython", python, True, False):
        return None
    return str(facts[2])


def _probe(candidate: str, env: Mapping[str, str]) -> Sequence[object] | None:
    try:
        done = programs.run([os.path.abspath(candidate), "-I", "-S", "-c", _ASK], env, seconds=_SECONDS)
        kind, version, base_prefix, wide, free_threaded, full = read_json(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        if isinstance(error, OSError):
            refuse_shortage("envspec", error)
        return None
    return kind, version, base_prefix, wide, free_threaded, full
