"""Checks of Python's side: the interpreter, what leaks into every environment, conda's settings, a C compiler."""

from __future__ import annotations

from collections.abc import Iterator

from envspec.base.finding import Finding
from envspec.prove.doctor.machine import Conda, Machine, Result


def interpreter(machine: Machine) -> Result:
    """Describe the Python that runs envspec, and those on PATH."""
    pythons = machine.pythons
    others = [version for version in pythons.found if version != _minor(pythons.version)]
    more = f"; on PATH too: {', '.join(others)}" if others else ""
    return Result("Python", "ok", f"{pythons.version} ({pythons.executable}){more}")


def leaks(machine: Machine) -> Result:
    """Check for packages from outside that every environment imports: ~/.local and PYTHONPATH (site, PEP 370)."""
    pythons = machine.pythons
    findings = []
    for site in pythons.user_sites:
        if pythons.no_user_site:
            break
        shown = ", ".join(site.packages[:5]) + (f" and {len(site.packages) - 5} more" if len(site.packages) > 5 else "")
        message = f"{site.path} holds {shown}: every Python {site.python} without its own copy imports them"
        remedy = f"export PYTHONNOUSERSITE=1 (envspec's images do), or remove {site.path}"
        findings.append(Finding("warning", "user-site", message, remedy=remedy))
    if pythons.path:
        message = f"PYTHONPATH is set ({pythons.path}): its modules come before those of every environment"
        findings.append(Finding("warning", "pythonpath", message, remedy="unset PYTHONPATH"))
    told = "PYTHONNOUSERSITE is set" if pythons.no_user_site else "nothing leaks into environments"
    return Result("leaks", "ok", f"{len(findings)} found" if findings else told, tuple(findings))


def compiler(machine: Machine) -> Result:
    """Check the C compiler that torch.compile (Triton) needs when it first runs a kernel, and Python's headers."""
    if machine.compiler is None:
        finding = Finding(
            "warning",
            "no-compiler",
            "this machine has no C compiler (cc, gcc, clang): torch.compile fails where it needs Triton",
            remedy='install gcc (apt install gcc), or add "gcc" to [conda] dependencies',
        )
        return Result("C compiler", "none", "not found", (finding,))
    tool = machine.compiler
    return Result("C compiler", "ok", f"{tool.version or tool.name} ({tool.path})", tuple(_headers(machine)))


def _headers(machine: Machine) -> Iterator[Finding]:
    if machine.pythons.headers:
        return
    minor = _minor(machine.pythons.version)
    yield Finding(
        "info",
        "no-python-headers",
        f"Python {minor} has no Python.h here: Triton can't build its launcher with this interpreter",
        remedy=f"install python{minor}-dev, or use a Python of uv or conda, which has the file",
    )


def conda(machine: Machine) -> Result:
    """Check conda's settings that change an environment's packages, and whether two environments are active at once."""
    settings = machine.conda
    findings = tuple(findings_about_conda(settings))
    if settings.prefix is None and not (settings.channels or settings.priority or settings.unread):
        return Result("conda", "none", "no active environment and no configuration")
    told = f"active: {settings.prefix}" if settings.prefix else "no environment is active"
    return Result("conda", "ok", told, findings)


def findings_about_conda(settings: Conda) -> Iterator[Finding]:
    """Find two environments at once, settings that swap builds, and files that can't be read."""
    if settings.prefix and settings.virtualenv:
        yield Finding(
            "warning",
            "two-environments",
            f"a conda environment ({settings.prefix}) and a virtual one ({settings.virtualenv}) are active at once",
            remedy="run `conda deactivate` or `deactivate`: PATH finds programs of both",
        )
    for file, reason in settings.unread.items():
        yield Finding(
            "info",
            "condarc-unread",
            f"envspec can't read {file}: {reason}",
            remedy="correct the file",
        )
    for file, channels in settings.channels.items():
        if "conda-forge" in channels and "defaults" in channels:
            yield Finding(
                "warning",
                "mixed-channels",
                f"{file} mixes conda-forge with defaults: their builds don't fit together",
                remedy="conda config --remove channels defaults, and add nodefaults",
            )
    for file, priority in settings.priority.items():
        if priority in ("disabled", "false"):
            yield Finding(
                "warning",
                "channel-priority",
                f"{file} has channel_priority {priority}: a newer build of any channel replaces the wanted one",
                remedy="conda config --set channel_priority strict",
            )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
