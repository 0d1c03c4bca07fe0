"""Metadata of what has no wheel: source distributions and git checkouts.

A source distribution counts as it is if its list of dependencies is final (`envspec.resolve.pip.static_source`).
Otherwise envspec asks the build backend through PEP 517's metadata hook, in an isolated environment. That runs the
package's code, so a spec must name the package in `allow-source`. Build requirements come as wheels: envspec builds no
package that the spec doesn't name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from envspec.documents import read_json
from envspec.errors import IndexFailure, ToolError
from envspec.net.fetch import Fetcher
from envspec.packages.requirement import canonical_name
from envspec.redact import redact
from envspec.resolve.pip.metadata import Metadata, MetadataCache, cache_key, licence, refuse_other_hash
from envspec.resolve.pip.static_source import StaticReader
from envspec.resolve.pip.unbuilt import metadata_hint, missing_module
from envspec.settings import split_credentials
from envspec.uv.answer import FoundFile
from envspec.uv.processes import Processes

_PYTHON = "{}.{}".format(*sys.version_info)
"""Variables that may change the requirements of a build."""
_SECONDS = 600


class BuildFailed(ToolError):
    """A build or git ended with an error. `output` is what it wrote to stderr."""

    def __init__(self, message: str, output: str = "", *, hint: str | None = None) -> None:
        self.output = output
        super().__init__(message, hint=hint)


@dataclass(frozen=True)
class SourceReader:
    """A reader of sources' metadata, through the same cache as wheels.

    `env` is the environment that builds run in; `uv` the program that fills it; `default_index` the user's address of
    "pypi", if there is one.
    """

    cache: MetadataCache
    fetcher: Fetcher
    static: StaticReader
    env: Mapping[str, str]
    uv: str
    default_index: str | None
    processes: Processes = field(default_factory=Processes)

    def read_sdist(self, file: FoundFile, name: str, version: str, folder: Path) -> Metadata:
        """Read the metadata of a source distribution that may be built. Takes an empty folder to unpack in. Raises
        IndexFailure or ToolError."""
        key = cache_key("built", name, version, str(file.sha256), _PYTHON)
        cached = self.cache.get(key)
        if cached is not None:
            return cached
        facts = self.static.read(file, name, version)
        if facts.trust == "static":
            return self._keep(key, facts.metadata, facts.metadata.size)
        archive = folder / Path(file.file).name
        most = file.size or self.fetcher.limits.source_bytes
        with self.fetcher.stream(file.url, most) as stream, archive.open("wb") as out:
            while piece := stream.read(1 << 20):
                out.write(piece)
        refuse_other_hash(file, stream.sha256)
        source = _unpack(archive, folder / "source", redact(file.url))
        try:
            metadata = self._from_backend(source, file.file)
        except BuildFailed as failed:
            module = missing_module(failed.output)
            if module is None:
                raise
            raise ToolError(
                f"building the metadata of {file.file} failed: it imports {module}, which the build doesn't have",
                hint=metadata_hint(module, name, version, facts, source),
            ) from None
        return self._keep(key, metadata, stream.length)

    def read_git(self, url: str, commit: str, subdirectory: str | None, folder: Path) -> Metadata:
        """Read the metadata of a git commit. Raises ToolError."""
        where = canonical_name((subdirectory or "root").replace("/", "-"))
        key = cache_key("git", split_credentials(url)[0], commit, where, _PYTHON)
        cached = self.cache.get(key)
        if cached is not None:
            return cached
        checkout = folder / "checkout"
        checkout.mkdir(parents=True)
        for step in (
            ["init", "-q"],
            ["fetch", "-q", "--depth", "1", "--", url, commit],
            ["checkout", "-q", "FETCH_HEAD"],
        ):
            self._run(["git", *step], checkout, f"git {step[0]} of {redact(url)}")
        return self._keep(key, self._from_backend(checkout / (subdirectory or ""), redact(url)), None)

    def _keep(self, key: str, metadata: Metadata, size: int | None) -> Metadata:
        known = Metadata(**{**metadata.__dict__, "size": size})
        self.cache.put(key, known)
        return known

    def _from_backend(self, source: Path, what: str) -> Metadata:
        out = self._run(
            [sys.executable, "-m", "build", "--metadata", "--installer", "uv", str(source)],
            source,
            f"building the metadata of {what}",
        )
        start = out.find("{")
        try:
            fields = read_json(out[start:])
        except ValueError:
            raise ToolError(
                f"the build backend gave no metadata of {what}", hint="check whether a newer release has a wheel"
            ) from None
        texts = {key.replace("_", "-"): value if isinstance(value, list) else [value] for key, value in fields.items()}
        return Metadata(
            name=canonical_name(fields["name"]),
            version=fields["version"],
            requires_dist=tuple(fields.get("requires_dist", ())),
            provides_extra=tuple(fields.get("provides_extra", ())),
            requires_python=fields.get("requires_python"),
            licence=licence({**texts, "classifier": fields.get("classifiers", [])}),
        )

    def _run(self, command: list[str], folder: Path, what: str) -> str:
        env = {
            **self.env,
            "GIT_TERMINAL_PROMPT": "0",
            # what an interrupted build leaves goes with the scratch folder
            "TMPDIR": str(folder.parent),
            "PATH": f"{Path(self.uv).parent}{os.pathsep}{self.env.get('PATH', os.defpath)}",
        }
        if command[0] != "git":
            env["UV_NO_BUILD"] = "1"
        if self.default_index:
            env["UV_DEFAULT_INDEX"] = self.default_index
        if command[0] == "git" and shutil.which("git", path=env["PATH"]) is None:
            raise ToolError(
                f"{what} needs git, which isn't installed", hint="install git, or ask for a release instead"
            )
        try:
            done = self.processes.run(command, cwd=folder, env=env, timeout=_SECONDS)
        except subprocess.TimeoutExpired:
            raise ToolError(
                f"{what} took longer than {_SECONDS} s", hint="check whether a release has a wheel"
            ) from None
        if done.returncode:
            last = " | ".join(line.strip() for line in done.stderr.strip().splitlines()[-3:])
            raise BuildFailed(
                f"{what} failed: {redact(last)}",
                done.stderr,
                hint="install the build tools that the package's README names, or choose a release that has a wheel",
            )
        return done.stdout


def _unpack(archive: Path, into: Path, where: str) -> Path:
    """Unpack an sdist and return its one top folder. Refuses paths outside the folder."""
    into.mkdir()
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as zipped:
                zipped.extractall(into)
        else:
            with tarfile.open(archive) as tarred:
                if hasattr(tarfile, "data_filter"):
                    tarred.extractall(into, filter="data")
                elif all(_stays(member) for member in tarred.getmembers()):
                    tarred.extractall(into)
                else:
                    raise tarfile.TarError("it has paths outside its folder")
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError) as error:
        raise IndexFailure(
            f"{where} can't be unpacked: {error}", hint="report this to whoever runs the index: the file is damaged"
        ) from None
    top = [entry for entry in into.iterdir() if entry.is_dir()]
    if len(top) != 1:
        raise IndexFailure(
            f"{where} holds {len(top)} top folders instead of one",
            hint="check the URL: a source distribution has one top folder",
        )
    return top[0]


def _stays(member: tarfile.TarInfo) -> bool:
    path = Path(member.name)
    return not path.is_absolute() and ".." not in path.parts and not member.issym() and not member.islnk()
