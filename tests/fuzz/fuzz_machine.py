"""What lies on a machine: settings, environments, unpacked packages, and what Slurm, the kernel and NVML say."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

from fuzz_given import parts, text
from fuzz_guard import Parser

from envspec.artifacts.conda_channels import channel_addresses, load_conda_config
from envspec.configuration.settings import load_settings
from envspec.export.leftovers import leftovers
from envspec.export.plan import SLICE, SpecPlan
from envspec.install.conda_paths import Unpacked, entries_of, refuse_unsafe, refuse_unsafe_records, site_packages_of
from envspec.install.installed import read_packages, recorded_files
from envspec.install.prefix import claim
from envspec.net.fetch import Fetcher
from envspec.net.registry import Registries, image_address, login_for
from envspec.prove.doctor.gather import ask_nvml, read_nvidia
from envspec.prove.doctor.machine import Machine, Pythons
from envspec.prove.doctor.nvidia import devices, driver, nvml
from envspec.prove.smoke.run.jobs import _read_end, ask_states, find_job, read_scontrol, read_submission
from envspec.prove.smoke.run.process import FinishedProgram
from envspec.resolve.uv.program import _user_settings

URL = "https://packages.example.org/simple/lib9/"
NOBODY = {"UV_CONFIG_FILE": os.devnull, "PIP_CONFIG_FILE": os.devnull}


def settings(data: bytes, folder: Path) -> object:
    """envspec's own configuration, and who asks an index, a registry or a channel by it."""
    _put(folder / ".config/envspec/config.toml", data)
    found = load_settings({"HOME": str(folder), **NOBODY})
    channel_addresses(["conda-forge", "https://packages.example.org/mine"], found, load_conda_config({"HOME": "/"}))
    return Registries(cast(Any, None), found.mirrors, {"HOME": str(folder)}).asks("debian:12")


def other_settings(data: bytes, folder: Path) -> object:
    """Those of uv and pip, which are theirs to report where they are broken."""
    uv, pip = parts(data, 2)
    (folder / "uv.toml").write_bytes(uv.encode("utf-8", "surrogateescape"))
    (folder / "pip.conf").write_bytes(pip.encode("utf-8", "surrogateescape"))
    env = {"HOME": str(folder), "UV_CONFIG_FILE": str(folder / "uv.toml"), "PIP_CONFIG_FILE": str(folder / "pip.conf")}
    _user_settings(env)
    return load_settings(env)


def condarc(data: bytes, folder: Path) -> object:
    _put(folder / ".condarc", data)
    env = {"HOME": str(folder)}
    return channel_addresses(["conda-forge"], load_settings({**env, **NOBODY}), load_conda_config(env))


def logins(data: bytes, folder: Path) -> object:
    """netrc and Docker's file, and the header of a request with what they say."""
    netrc, docker = parts(data, 2)
    _put(folder / ".netrc", netrc.encode("utf-8", "surrogateescape"))
    _put(folder / ".docker/config.json", docker.encode("utf-8", "surrogateescape"))
    env = {"HOME": str(folder)}
    found = login_for(image_address("registry.example.org/a/b:1"), env)
    fetcher = Fetcher(credentials={}, env=env)
    return fetcher._authorization(URL, None), found and fetcher._authorization(URL, found)


def environment(data: bytes, folder: Path) -> object:
    """RECORD and METADATA of a pip package and two records of conda packages in an environment."""
    record, one, other = (part.encode("utf-8", "surrogateescape") for part in parts(data, 3))
    info = folder / "lib/python3.12/site-packages/lib9-1.0.dist-info"
    _put(info / "RECORD", record)
    _put(info / "METADATA", b"Name: lib9\nVersion: 1.0\n")
    for name, content in (("one", one), ("other", other)):
        _put(folder / f"conda-meta/{name}.json", content)
    found = read_packages(folder, "3.12")
    refuse_unsafe_records(found.records, folder)
    return recorded_files(info)


def state(data: bytes, folder: Path) -> object:
    """The note of an environment, what was handed to Slurm, how a job ended, a slice of a lock in a recipe."""
    _put(folder / "etc/envspec/install.json", data)
    (folder / "done.json").write_bytes(data)
    (folder / "state.json").write_bytes(data)
    _read_end(folder / "done.json")
    plan = SpecPlan("a", "", ())
    list(leftovers(plan, {}, [f"gone/{SLICE}", "gone/Dockerfile"], lambda path: text(data)))
    submitted = None
    if b'"jobs"' in data:
        submitted = read_submission(folder)
        tasks = [task for job in submitted.jobs if (task := job.task(0))]
        ask_states(tasks, lambda argv: FinishedProgram(0, ""))
    return claim(folder, "specs/a.toml"), submitted


def conda_package(data: bytes, folder: Path) -> object:
    """paths.json, index.json and link.json of an unpacked package."""
    paths, index, link = (part.encode("utf-8", "surrogateescape") for part in parts(data, 3))
    _put(folder / "package/info/paths.json", paths)
    _put(folder / "package/info/index.json", index)
    if link:
        _put(folder / "package/info/link.json", link)
    for name in ("bin/lib9", "lib/lib9.so", "site-packages/lib9.py"):
        _put(folder / "package" / name, b"x")
    package = Unpacked("lib9", folder / "package")
    site_packages_of(package)
    entries = entries_of(package, ["lib/python3.12/site-packages"])
    (folder / "prefix").mkdir()
    refuse_unsafe({package: entries}, folder / "prefix", "osx-arm64")
    return entries


def slurm(data: bytes, folder: Path) -> object:
    """Answers of squeue (twice), sacct and scontrol."""
    queue, account, job, name = parts(data, 4)
    said = {"squeue": queue, "sacct": account, "scontrol": job}
    states = ask_states(["12_0", "12_1", "13"], lambda argv: FinishedProgram(0, said[argv[0]]))
    number = find_job("envspec-x-0", lambda argv: FinishedProgram(0, name))
    if number is not None:
        ask_states([number], lambda argv: FinishedProgram(0, queue))
    return states, read_scontrol(job)


def nvidia(data: bytes, folder: Path) -> object:
    """The kernel's files and NVML's strings, to the checks of them."""
    version, model, name, told, error = parts(data, 5)
    _put(folder / "proc/driver/nvidia/version", version.encode("utf-8", "surrogateescape"))
    _put(folder / "proc/driver/nvidia/gpus/0000:01:00.0/information", model.encode("utf-8", "surrogateescape"))
    _put(folder / "sys/bus/pci/devices/0000:01:00.0/vendor", model.encode("utf-8", "surrogateescape"))
    _put(folder / "sys/bus/pci/devices/0000:01:00.0/class", b"0x030000")
    with mock.patch.dict("sys.modules", pynvml=_nvml(name, told, error)):
        found = read_nvidia(folder, version, ask_nvml)
    machine = Machine("linux-64", "2.28", Pythons("3.12", "/usr/bin/python3"), found)
    return [check(machine) for check in (driver, nvml, devices)]


def _nvml(name: str, told: str, error: str) -> object:
    """NVML as a library that says this."""

    class NVMLError(Exception):
        pass

    def refuse(*arguments: object) -> object:
        raise NVMLError(error)

    def nothing(*arguments: object) -> None:
        return None

    said: dict[str, Callable[..., object] | object] = {
        "NVMLError": NVMLError,
        "NVML_ERROR_LIBRARY_NOT_FOUND": 12,
        "nvmlInit": nothing,
        "nvmlShutdown": nothing,
        "nvmlDeviceGetCount": lambda: 1,
        "nvmlDeviceGetHandleByIndex": nothing,
        "nvmlSystemGetDriverVersion": lambda: told,
        "nvmlDeviceGetName": lambda handle: name.encode("utf-8", "surrogateescape"),
        "nvmlDeviceGetCudaComputeCapability": refuse if error else lambda handle: (9, 0),
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=80 << 30),
        "nvmlDeviceGetMigMode": refuse,
    }
    return SimpleNamespace(**said)


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


MACHINE = (
    Parser("settings", settings, (2,)),
    Parser("settings-of-others", other_settings, (2,)),
    Parser("condarc", condarc, (2,)),
    Parser("logins", logins),
    Parser("environment", environment, (2,), (ValueError,)),
    Parser("state", state, (2,)),
    Parser("conda-package", conda_package, (3,)),
    Parser("slurm", slurm),
    Parser("nvidia", nvidia),
)
