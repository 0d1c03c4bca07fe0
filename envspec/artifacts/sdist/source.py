"""Metadata of sources without a wheel: source distributions and git checkouts.

A source distribution counts as it is if its list of dependencies is final (`envspec.artifacts.sdist.static_source`).
Otherwise envspec asks the build backend through PEP 517's metadata hook, in an isolated environment. That runs the
package's code, so a spec must name the package in `allow-source`. Build requirements come as wheels: envspec builds no
package that the spec doesn't name. torch and its companions aren't among them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from envspec.artifacts.metadata import MetadataCache, cache_key
from envspec.artifacts.sdist.static_source import StaticReader
from envspec.artifacts.sdist.unpacked_source import UnpackedSource, missing_module
from envspec.base import programs
from envspec.base.documents import read_json
from envspec.base.errors import AnswerNo, EnvspecError, IndexFailure, InternalError, OutsideError, ToolError
from envspec.base.redact import redact
from envspec.base.storage import OF_THE_MACHINE, storage_error
from envspec.configuration.settings import split_credentials
from envspec.facts.cuda_stack import NOT_FOR_METADATA
from envspec.lock.toml_text import key, string, value
from envspec.net.file_store import BY_INDEX, FileStore, WantedFile
from envspec.net.index_proxy.pages import Describe, Pages, Upstream
from envspec.net.index_proxy.server import IndexProxy, open_proxy
from envspec.net.remote_file import DamagedFile
from envspec.net.simple_page import LivePages
from envspec.packages.address import parse_address
from envspec.packages.archive_entries import TarMember, leading_out
from envspec.packages.metadata import Metadata, from_fields
from envspec.resolve.uv.answer import FoundFile
from envspec.resolve.uv.errors import BUILD_TOOLS, build_failure, machine_error
from envspec.resolve.uv.program import Processes, Uv
from envspec.spec.way import avoiding

# The build requirements of sources: wheels of the default index, through an index proxy of its own and its bounds.
#
# uv has no other network then. What else a source names (a URL, an index in its own `[tool.uv]`), and what the user's
# other settings name, is not asked.


class BuildIndex(Struct, frozen=True):
    """The index that builds see. `default` is the address of "pypi" behind it. `own` has the indexes that come before
    it, by name, for the target's packages from them."""

    proxy: IndexProxy
    default: str
    own: tuple[tuple[str, str], ...] = ()

    def configuration(self, uv: Uv) -> str:
        """Write uv's configuration for a build: the user's settings that don't change answers, and this index."""
        lines = [f"{key(name)} = {value(content)}" for name, content in uv.settings_cut_off(self.proxy.host).items()]
        url = self.proxy.with_login(self.proxy.index(Upstream(self.default)))
        for name, address in self.own:
            lines += ["[[index]]", f"name = {string(name)}", f"url = {string(self.proxy.with_login(address))}"]
        lines += ["[[index]]", 'name = "pypi"', f"url = {string(url)}", "default = true"]
        return "\n".join(lines) + "\n"


@contextmanager
def build_requirements(
    pages: Pages,
    describe: Describe,
    default: str | None,
    secrets: Path,
    live: Mapping[str, LivePages] | None = None,
) -> Iterator[BuildIndex]:
    """Serve the index. `default` is the address of "pypi", `secrets` the folder with the secret of the served address,
    and `live` the pages of PyTorch's indexes. `describe` gives METADATA; for a source, the same as a lock gets for one
    that may not be built.

    Raises OutsideError where no index is configured for PyPI.
    """
    if default is None:
        raise OutsideError("no index is configured for PyPI", hint="name the index to use: UV_DEFAULT_INDEX=https://…")
    with open_proxy(live, pages=pages, metadata=describe, folder=secrets, purpose="builds") as proxy:
        yield BuildIndex(proxy, default)


def url_requirement_error(url: str) -> ToolError:
    """Make the error for a build that requires a file by its URL."""
    return ToolError(
        f"the build requires {redact(url)}, and what builds require comes from the default index alone",
        hint="if you have a default index of your own, put that file there",
    )


PYTHON = "{}.{}".format(*sys.version_info)
"""Variables that may change the requirements of a build."""
_SECONDS = 600
_UNSENT = re.compile(r"error sending request for url \(([^()\s]+)\)")
_PATIENCE = {"UV_HTTP_TIMEOUT": "86400"}
"""The index proxy fetches a file whole before it answers, and gives up who is too slow by itself."""


class BuildFailed(ToolError):
    """A build or git ended with an error. `output` is what it wrote."""

    def __init__(self, message: str, output: str = "", *, hint: str | None = None) -> None:
        self.output = output
        super().__init__(message, hint=hint)


_ASK = """
import json, sys
from build import ProjectBuilder
from build.env import DefaultIsolatedEnv
from pyproject_hooks import quiet_subprocess_runner
with DefaultIsolatedEnv(installer="uv") as env:
    builder = ProjectBuilder.from_isolated_env(env, sys.argv[1], runner=quiet_subprocess_runner)
    env.install(builder.build_system_requires)
    try:
        requires = sorted(builder.get_requires_for_build("wheel"))
    except Exception as error:
        # what the backend wrote says why; its runner keeps it
        output = getattr(getattr(error, "exception", None), "output", None) or b""
        sys.stderr.write(output.decode(errors="replace"))
        raise
sys.stdout.write("\\n" + json.dumps(requires))
"""
"""Asks the backend of a project, in an environment of its own, for PEP 517's requirements of a wheel's build."""


@contextmanager
def causes_behind(proxy: IndexProxy) -> Iterator[None]:
    """Raise the failure behind the index proxy in place of the error of the program that saw the proxy fail, and give
    other errors the indexes' own addresses."""
    before = len(proxy.failures)
    try:
        yield
    except EnvspecError as error:
        if proxy.failures[before:] and not isinstance(error, AnswerNo):
            raise proxy.failures[before] from None
        error.message = proxy.plain(error.message)
        raise


class SourceReader(Struct, frozen=True):
    """A reader of sources' metadata, through the same cache as wheels.

    `files` are those of indexes, looked through before they are unpacked; `uv` fills the environments of builds, from
    `builds`. Without it, sources that need a build aren't read.
    """

    cache: MetadataCache
    files: FileStore
    static: StaticReader
    uv: Uv
    builds: BuildIndex | None = None
    processes: Processes = field(default_factory=Processes)

    def read_sdist(self, file: FoundFile, name: str, version: str, folder: Path, subdirectory: str = "") -> Metadata:
        """Read the metadata of a source distribution that may be built, or of a project in a subdirectory of it. Takes
        an empty folder to unpack in. Raises IndexFailure, ToolError or StorageError."""
        key = cache_key("built", name, version, str(file.sha256), PYTHON, *([subdirectory] if subdirectory else []))
        if (cached := self.cache.get(key)) is not None:
            return cached
        # read as it streams in: what needs no build isn't looked through a second time, to be unpacked
        facts = self.static.read(file, name, version)
        if facts.trust == "static" and not subdirectory:
            return self._keep(key, facts.metadata)
        try:
            source = self.sdist_source(file, folder, subdirectory)
            metadata = self._from_backend(source, folder)
        except BuildFailed as failed:
            error: ToolError = failed
            if module := missing_module(failed.output):
                error = ToolError(
                    f"building the metadata of {file.file} failed: it imports {module}, which the build doesn't have",
                    hint=source.metadata_hint(module, name, version, facts),
                )
            raise avoiding(error, name, version) from None
        except (DamagedFile, ToolError) as error:
            raise avoiding(error, name, version) from None
        return self._keep(key, replace(metadata, size=facts.metadata.size))

    def read_git(self, url: str, commit: str, subdirectory: str | None, folder: Path) -> Metadata:
        """Read the metadata of a git commit. Raises ToolError."""
        key = cache_key("git", split_credentials(url)[0], commit, subdirectory or "", PYTHON)
        if (cached := self.cache.get(key)) is not None:
            return cached
        return self._keep(key, self._from_backend(self.git_source(url, commit, subdirectory, folder), folder))

    def git_hint(self, name: str, url: str, folder: Path) -> str | None:
        """Write the hint with the `metadata` line of a git project that the spec names by this URL, read from its files
        without running them; None where they have no such data. Raises ToolError."""
        address = parse_address(url)
        repository = url.removeprefix("git+").partition("#")[0].removesuffix(f"@{address.revision}")
        return self.git_source(repository, address.revision or "HEAD", address.folder, folder).checkout_hint(name)

    def sdist_source(self, file: FoundFile, folder: Path, subdirectory: str = "") -> UnpackedSource:
        """Unpack a source distribution into an empty folder; nothing of it runs. Raises IndexFailure, StorageError."""
        source = _unpack(self._fetch(file), folder / "source", redact(file.url))
        return UnpackedSource(source / subdirectory, file.file)

    def git_source(self, url: str, commit: str, subdirectory: str | None, folder: Path) -> UnpackedSource:
        """Check a git commit out below an empty folder; nothing of it runs. Raises ToolError, also where the folder,
        pyproject.toml or setup.py is a link that leads out."""
        checkout = folder / "checkout"
        checkout.mkdir(parents=True)
        with self.files.fetcher.progress.fetching(redact(url), None) as came:
            for step in ("init -q", "fetch -q --depth 1 --", "checkout -q FETCH_HEAD"):
                command = [*step.split(), *([url, commit] if step.endswith("--") else [])]
                self._git(command, checkout, f"git {command[0]} of {redact(url)}")
            came(sum(file.stat().st_size for file in (checkout / ".git/objects/pack").glob("*")))
        source = UnpackedSource(checkout / (subdirectory or ""), redact(url))
        for path in (source.folder, source.folder / "pyproject.toml", source.folder / "setup.py"):
            # they are read where nothing of the source runs, too, and shown
            if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(checkout)):
                raise ToolError(
                    f"{source.label}: {path.relative_to(checkout)} is a link that leads out of the repository",
                    hint="ask those who publish it for one that doesn't",
                )
        return source

    def ask_backend(self, source: UnpackedSource, scratch: Path) -> tuple[str, ...]:
        """Ask a source's build backend for the build's undeclared requirements. That runs the source's code. Raises
        BuildFailed, ToolError."""
        what = f"asking the build of {source.label} what it requires"
        out = self._build(programs.python(_ASK, str(source.folder)), scratch, what)
        lines = read_json(out.rpartition("\n")[2])
        return tuple(line for line in lines if isinstance(line, str))

    def _fetch(self, file: FoundFile) -> Path:
        try:
            return self.files.fetch(file.url, WantedFile(file.file, str(file.sha256), file.size, BY_INDEX))
        except OSError as error:
            raise storage_error(error, self.files.folder, option="ENVSPEC_CACHE_DIR") from None

    def _keep(self, key: str, metadata: Metadata) -> Metadata:
        self.cache.put(key, metadata)
        return metadata

    def _from_backend(self, source: UnpackedSource, scratch: Path) -> Metadata:
        code = "from build.__main__ import main; main(sys.argv[1:])"
        command = programs.python(code, "--metadata", "--installer", "uv", str(source.folder))
        out = self._build(command, scratch, f"building the metadata of {source.label}")
        start = out.find("{")
        try:
            fields = read_json(out[start:])
            texts = {
                key.replace("_", "-"): value if isinstance(value, list) else [value] for key, value in fields.items()
            }
            return from_fields({**texts, "classifier": fields.get("classifiers", [])})
        except ValueError:
            raise ToolError(f"the build backend gave no metadata of {source.label}") from None

    def _build(self, command: Sequence[str], scratch: Path, what: str) -> str:
        """Run Python with what a build may see; gives its output."""
        if self.builds is None:
            raise InternalError(f"{what}: nothing is built here")
        # a configuration by name is the only one that uv reads: not the user's, not one of the source's own
        configuration = scratch / "uv.toml"
        configuration.write_text(self.builds.configuration(self.uv), encoding="utf-8")
        overrides = scratch / "without-torch.txt"
        overrides.write_text("".join(f"{name}; python_version < '0'\n" for name in NOT_FOR_METADATA), encoding="utf-8")
        env = {
            **self.uv.environment(),
            **_PATIENCE,
            "UV_CONFIG_FILE": str(configuration),
            "UV_OVERRIDE": str(overrides),
            "UV_NO_BUILD": "1",
            # what an interrupted build leaves goes with the scratch folder
            "TMPDIR": str(scratch),
            "PATH": f"{Path(self.uv.executable).parent}{os.pathsep}{self.uv.env.get('PATH', os.defpath)}",
        }
        with causes_behind(self.builds.proxy):
            return self._run(command, scratch, env, what)

    def _git(self, command: list[str], folder: Path, what: str) -> None:
        env = {**programs.git_environment(self.uv.env, fetches=True), "TMPDIR": str(folder.parent)}
        if programs.find_program("git", env) is None:
            raise ToolError(f"{what} needs git, which isn't installed", hint="install git")
        self._run(programs.git(command, fetches=True), folder, env, what)

    def _run(self, command: Sequence[str], folder: Path, env: Mapping[str, str], what: str) -> str:
        try:
            done = self.processes.run(command, cwd=folder, env=env, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise ToolError(f"{what} took longer than {_SECONDS} s") from None
        if killed := machine_error(done.returncode, done.stderr, what):
            raise killed
        if done.returncode:
            if unsent := _UNSENT.search(done.stderr):
                error = url_requirement_error(unsent[1])
                raise ToolError(f"{what}: {error.message}", hint=error.hint)
            # of a backend that can't be imported, build writes why to stdout
            output = f"{done.stdout}\n{done.stderr}"
            raise BuildFailed(f"{what} failed: {build_failure(output)}", output, hint=BUILD_TOOLS)
        return done.stdout


def _unpack(archive: Path, into: Path, where: str) -> Path:
    """Unpack an sdist and return its one top folder. Refuses paths outside the folder."""
    into.mkdir()
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(into)
        else:
            with tarfile.open(archive, tarinfo=TarMember) as tarred:
                if (name := leading_out(tarred.getmembers())) is not None:
                    raise tarfile.TarError(f"its entry {name!r} leads out of the folder that it's unpacked to")
                if hasattr(tarfile, "data_filter"):
                    tarred.extractall(into, filter="data")
                else:
                    tarred.extractall(into)
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno in OF_THE_MACHINE:
            raise storage_error(error, into, option="ENVSPEC_CACHE_DIR") from None
        raise IndexFailure(
            f"{where} can't be unpacked: {error}", hint="report this to whoever runs the index: the file is damaged"
        ) from None
    top = [entry for entry in into.iterdir() if entry.is_dir()]
    if len(top) != 1:
        raise DamagedFile(
            f"{where} holds {len(top)} top folders instead of one",
            hint="if the spec names its URL, check that; else report this to whoever runs the index",
        )
    return top[0]
