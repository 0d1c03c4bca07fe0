"""The conda files read by those they're for: conda-lock's own schema, library and program, and rattler."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from lock_samples import HOST, sample_lock, urls
from msgspec import structs

from envspec.lock.conda_files import conda_pins
from envspec.lock.formats.conda_environment import conda_environment
from envspec.lock.formats.conda_explicit import explicit
from envspec.lock.formats.conda_lock import committed_conda_lock, conda_dependencies, conda_lock
from envspec.lock.model import Artifact, Lock, LockedTarget, Pin

LOCK = sample_lock()
CPU = LOCK.targets[0]
SUBDIRS = ("linux-64", "noarch", "linux-aarch64")


def without_git(target: LockedTarget) -> LockedTarget:
    return structs.replace(target, pins=tuple(pin for pin in target.pins if not pin.git))


def hashed(one: Any) -> tuple[str | None, str | None]:
    return (one.hash.md5, one.hash.sha256)


def locked_hashes(pin: Pin) -> tuple[str | None, str | None]:
    return (pin.artifact.md5, pin.artifact.sha256) if pin.artifact else (None, None)


@pytest.fixture(scope="session")
def conda_lock_library() -> Any:
    return pytest.importorskip(
        "conda_lock.lockfile", reason="conda-lock isn't installed: the extra `interop` brings it"
    )


@pytest.fixture(scope="session")
def rattler() -> Any:
    return pytest.importorskip("rattler", reason="py-rattler isn't installed: the extra `conda` brings it")


FILES: dict[str, tuple[LockedTarget, Callable[[LockedTarget], str]]] = {
    "committed": (CPU, lambda target: committed_conda_lock(LOCK, target)),
    "exported": (CPU, lambda target: conda_lock(LOCK, target, urls(target))),
    "without git": (without_git(CPU), lambda target: conda_lock(LOCK, target, urls(target))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_conda_lock_reads_it(name: str, conda_lock_library: Any, tmp_path: Path) -> None:
    target, render = FILES[name]
    text = render(target)
    schema = Path(conda_lock_library.__file__).parent / "v1" / "conda-lock-v1.schema.json"
    jsonschema.validate(yaml.safe_load(text), json.loads(schema.read_text(encoding="utf-8")))
    path = tmp_path / "conda-lock.yml"
    path.write_text(text, encoding="utf-8")
    read = conda_lock_library.parse_conda_lock_file(path)
    expected = [pin for pin in target.pins if pin.kind == "conda" or name != "committed"]
    assert {(one.manager, one.name, one.version, *hashed(one)) for one in read.package} == {
        (pin.kind, pin.name, pin.version, *locked_hashes(pin)) for pin in expected
    }
    assert [channel.url for channel in read.metadata.channels] == list(LOCK.inputs.channels)
    assert all(one.categories == {"main"} for one in read.package)


@pytest.mark.parametrize("name", ["committed", "without git"])
def test_rattler_reads_it(name: str, rattler: Any, tmp_path: Path) -> None:
    target, render = FILES[name]
    path = tmp_path / "conda-lock.yml"
    path.write_text(render(target), encoding="utf-8")
    environment = rattler.LockFile.from_path(path).default_environment()
    (platform,) = environment.platforms()
    assert platform.name == "linux-64"
    records = environment.conda_repodata_records_for_platform(platform)
    assert {(one.name.normalized, str(one.version), one.md5.hex(), one.sha256.hex()) for one in records} == {
        (pin.name, pin.version, *locked_hashes(pin)) for pin in conda_pins(target)
    }
    pip = environment.pypi_packages_for_platform(platform) if name != "committed" else []
    assert {(one.name, one.version, one.hashes.sha256.hex()) for one in pip} == {
        (pin.name, pin.version, locked_hashes(pin)[1])
        for pin in target.pins
        if pin.kind == "pip" and name != "committed"
    }


@pytest.fixture
def conda_lock_program(conda_lock_library: Any, tmp_path: Path) -> Any:
    """Runs conda-lock's program in `tmp_path` and gives what it printed."""

    def run(*arguments: str, env: Mapping[str, str] | None = None, status: int = 0) -> str:
        # its own processes must find nothing of this machine's conda
        variables = {"HOME": str(tmp_path), "PATH": os.defpath, **(env or {})}
        command = [sys.executable, "-m", "conda_lock", *arguments]
        ran = subprocess.run(
            command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert ran.returncode == status, ran.stdout
        return ran.stdout

    return run


def package_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("http", "# pip "))]


@pytest.mark.slow
@pytest.mark.e2e
def test_conda_lock_puts_in_the_host(conda_lock_program: Any, tmp_path: Path) -> None:
    """`conda-lock render` of the committed file gives the explicit list that `export` writes."""
    (tmp_path / "conda-lock.yml").write_text(committed_conda_lock(LOCK, CPU), encoding="utf-8")
    host = {"CONDA_CHANNEL_HOST": HOST.removeprefix("https://")}
    conda_lock_program("render", "--kind", "explicit", "--platform", "linux-64", "conda-lock.yml", env=host)
    rendered = package_lines((tmp_path / "conda-linux-64.lock").read_text(encoding="utf-8"))
    assert sorted(rendered) == sorted(
        line for line in package_lines(explicit(LOCK, CPU, urls(CPU))) if not line.startswith("#")
    )


@pytest.mark.slow
@pytest.mark.e2e
def test_conda_lock_renders_both_halves_as_export_does(conda_lock_program: Any, tmp_path: Path) -> None:
    (tmp_path / "conda-lock.yml").write_text(conda_lock(LOCK, CPU, urls(CPU)), encoding="utf-8")
    conda_lock_program("render", "--kind", "explicit", "--platform", "linux-64", "conda-lock.yml")
    rendered = package_lines((tmp_path / "conda-linux-64.lock").read_text(encoding="utf-8"))
    assert sorted(rendered) == sorted(package_lines(explicit(LOCK, CPU, urls(CPU))))


@pytest.mark.e2e
@pytest.mark.slow
def test_conda_lock_names_the_missing_host(conda_lock_program: Any, tmp_path: Path) -> None:
    """The install stops before conda is called: `true` stands for it."""
    (tmp_path / "conda-lock.yml").write_text(committed_conda_lock(LOCK, CPU), encoding="utf-8")
    arguments = ["install", "--conda", "/bin/true", "--prefix", "env", "--no-validate-platform", "conda-lock.yml"]
    platform = {"CONDA_SUBDIR": "linux-64"}
    assert "Missing environment variables: CONDA_CHANNEL_HOST" in conda_lock_program(*arguments, env=platform, status=1)


@pytest.mark.slow
def test_conda_reads_the_environment_as_exact_builds(recorded_locks: list[Any], rattler: Any) -> None:
    """By the conda that conda-lock brings along, and by rattler: each line names one version and one build."""
    reason = "conda-lock isn't installed, or brings no conda along"
    match_spec = pytest.importorskip("conda_lock._vendor.conda.models.match_spec", reason=reason)
    lock, target, records = recorded_locks[0]
    few = structs.replace(target, pins=target.pins[::10])
    written = yaml.safe_load(conda_environment(lock, few, {}))
    assert written["channels"] == ["conda-forge", "nodefaults"]
    for line, pin in zip(written["dependencies"], conda_pins(few), strict=True):
        assert pin.artifact
        record = records[pin.artifact.file]
        spec = match_spec.MatchSpec(line)
        assert spec.get_exact_value("name") == record["name"]
        assert spec.get_exact_value("version") == record["version"]
        assert spec.get_exact_value("build") == record["build"]
        parsed = rattler.MatchSpec(line)
        assert (parsed.channel.name, parsed.build) == ("conda-forge", record["build"])
        assert rattler.MatchSpec(f"{pin.name} {parsed.version}").matches(
            rattler.PackageRecord(
                name=pin.name, version=record["version"], build=rattler.BuildString(record["build"]),
                build_number=record["build_number"], subdir=record["subdir"],
            )
        )  # fmt: skip


@pytest.fixture(scope="session")
def recorded_locks(recorded_data: Path) -> list[tuple[Lock, LockedTarget, dict[str, Mapping[str, Any]]]]:
    """Locks of all recorded records, each name once in a lock, with the records by file name."""
    return list(_locks_of(recorded_data / "conda-forge"))


def _locks_of(channel: Path) -> Iterator[tuple[Lock, LockedTarget, dict[str, Mapping[str, Any]]]]:
    batches: list[dict[str, Pin]] = []
    records: list[dict[str, Mapping[str, Any]]] = []
    for subdir in SUBDIRS:
        repodata = json.loads((channel / subdir / "repodata.json").read_text(encoding="utf-8"))
        seen: dict[str, int] = {}
        for file, record in sorted({**repodata["packages"], **repodata["packages.conda"]}.items()):
            nth = seen[record["name"]] = seen.get(record["name"], -1) + 1
            # the first of each subdir is enough for shape; every variant of a name only adds its hashes
            if nth >= 3:
                continue
            slot = nth + 3 * SUBDIRS.index(subdir)
            while len(batches) <= slot:
                batches.append({})
                records.append({})
            batches[slot][record["name"]] = Pin(
                "conda",
                record["name"],
                record["version"],
                f"conda-forge/{subdir}",
                Artifact(file, record["sha256"], record.get("size"), record["md5"]),
                tuple(record["depends"]),
                build=record["build"],
            )
            records[slot][file] = record
    for pins, of_pins in zip(batches, records, strict=True):
        target = structs.replace(CPU, pins=tuple(pins.values()))
        yield structs.replace(LOCK, targets=(target,)), target, of_pins


@pytest.mark.slow
def test_recorded_records_survive(recorded_locks: list[Any], rattler: Any, tmp_path: Path) -> None:
    """Thousands of real records: rattler reads every `depends` of them, and each comes back as it was published."""
    count = 0
    for lock, target, records in recorded_locks:
        path = tmp_path / "conda-lock.yml"
        path.write_text(committed_conda_lock(lock, target), encoding="utf-8")
        environment = rattler.LockFile.from_path(path).default_environment()
        (platform,) = environment.platforms()
        read = environment.conda_repodata_records_for_platform(platform)
        count += len(read)
        assert len(read) == len(records)
        for one in read:
            record = records[one.file_name]
            assert (one.name.source, str(one.version), str(one.build), one.subdir) == (
                record["name"], record["version"], record["build"], record["subdir"]
            )  # fmt: skip
            assert (one.md5.hex(), one.sha256.hex()) == (record["md5"], record["sha256"])
            names = {text.split(" ")[0] for text in record["depends"]}
            assert {text.split(" ")[0] for text in one.depends} == names
    assert count > 5000


@pytest.mark.slow
def test_recorded_dependencies_mean_the_same(recorded_locks: list[Any], rattler: Any) -> None:
    """What is written for a name that a record depends on twice admits a package exactly when both of its lines do."""
    candidates: dict[str, list[Any]] = {}
    doubled: list[tuple[str, list[str], str]] = []
    for _, _, records in recorded_locks:
        for record in records.values():
            candidates.setdefault(record["name"], []).append(record)
            by_name: dict[str, list[str]] = {}
            for text in record["depends"]:
                by_name.setdefault(text.split(" ")[0], []).append(text)
            written = conda_dependencies(record["depends"])
            doubled += [(name, sorted(set(lines)), written[name]) for name, lines in by_name.items() if len(lines) > 1]
    judged = 0
    for name, lines, constraint in {(n, tuple(ls), c): (n, ls, c) for n, ls, c in doubled}.values():
        joined = rattler.MatchSpec(f"{name} {constraint}")
        both = [rattler.MatchSpec(line) for line in lines]
        for record in candidates.get(name, ()):
            made = rattler.PackageRecord(
                name=name, version=record["version"], build=rattler.BuildString(record["build"]),
                build_number=record["build_number"], subdir=record["subdir"],
            )  # fmt: skip
            judged += 1
            assert joined.matches(made) == all(spec.matches(made) for spec in both), (lines, constraint)
    assert judged > 100
