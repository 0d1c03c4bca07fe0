"""static.distributions: what is installed is what is locked."""

from __future__ import annotations

import csv
import hashlib
import os
import re
import sys
from typing import Any, Iterable, Optional, Sequence

from envspec_check.environment import Installed, conda_records, distributions, own_paths
from envspec_check.interface import Context, Outcome, check, failed, passed, some
from envspec_check.lock import Pin, canonical, pins, same_version

TOOLS = ("pip", "setuptools", "uv", "wheel")
"""What makes environments and may be in them without being locked."""


def compare_distributions(
    locked: Sequence[Pin], installed: Sequence[Installed], by_conda: Iterable[str] = (), project: Optional[str] = None
) -> list[str]:
    """List the differences between the pip half of a lock and the installed distributions. `by_conda`: folders of
    distributions that conda packages brought. `project`: the spec's own, which no lock has, in any version."""
    expected = {pin.name: pin.version for pin in locked if pin.kind == "pip"}
    base = {pin.name: pin.version for pin in locked if pin.kind == "provided"}
    provided = {canonical(name) for pin in locked if pin.kind == "conda" for name in pin.provides}
    conda_folders = set(by_conda)
    wrong: list[str] = []
    seen: dict[str, str] = {}
    for package in installed:
        if package.name is None:
            wrong.append(f"{os.path.basename(package.folder)} has no metadata")
            continue
        if package.name in seen and package.name in base:
            continue  # the base's own, behind what replaces it
        if package.name in seen:
            wrong.append(f"{package.name} is there twice: {seen[package.name]} and {package.version}")
        seen[package.name] = package.version
        if package.name in expected:
            if expected[package.name] and not same_version(expected[package.name], package.version):
                wrong.append(f"{package.name} is {package.version}, locked is {expected[package.name]}")
        elif package.name in base:
            if not same_version(base[package.name], package.version):
                wrong.append(
                    f"the base's {package.name} is {package.version}, and was {base[package.name]} when it was locked"
                )
        elif (
            package.name not in (*provided, *TOOLS, project)
            and package.installer != "conda"
            and package.folder not in conda_folders
        ):
            wrong.append(f"{package.name} {package.version} isn't locked")
    wrong += [f"{name} {version} is missing" for name, version in {**base, **expected}.items() if name not in seen]
    return sorted(wrong)


def targets_of(tags: Iterable[str]) -> tuple[set[str], set[str]]:
    """Return the Pythons with their ABI, and the processors, of a wheel's tags: {"cp311-cp311"} and {"x86_64"}."""
    kinds, targets = ("x86_64", "aarch64", "arm64", "universal2"), (set(), set())  # type: tuple[set[str], set[str]]
    for python, abi, places in (tag.split("-") for tag in tags if tag.count("-") == 2):
        targets[0].update(f"{python_tag}-{abi_tag}" for python_tag in python.split(".") for abi_tag in abi.split("."))
        targets[1].update(next(filter(place.endswith, kinds), "any") for place in places.split("."))
    return targets


def other_wheels(lock: dict[str, Any], installed: Sequence[Installed]) -> list[str]:
    """List the distributions from a wheel for another Python, ABI or processor than the locked file."""
    files, wrong = {pin["name"]: pin["artifacts"][0]["file"] for pin in lock.get("pip", ()) if pin.get("artifacts")}, []
    for package in installed:
        own = re.findall(r"^Tag: *(\S+)", package.distribution.read_text("WHEEL") or "", re.MULTILINE)
        file = files.get(package.name or "", "")
        pairs = zip(targets_of(own), targets_of(["-".join(file[:-4].split("-")[-3:])]))
        if (
            own
            and file.endswith(".whl")
            and package.installer != "conda"
            and not all(mine & right for mine, right in pairs)
        ):
            wrong.append(f"{package.name} is built for {own[0]}, locked is {file}")
    return wrong


def record_digest(text: str) -> str:
    """Return the digest of what a RECORD says of a wheel's files among the packages: what an installer adds isn't the
    wheel's."""
    added = r"\.\./|/|[^/]+\.dist-info/(RECORD|INSTALLER|REQUESTED|direct_url\.json|uv_)"
    rows = [row[:2] for row in csv.reader(text.splitlines()) if len(row) == 3 and row[1].startswith("sha256=")]
    retained = sorted("%s %s\n" % (path, digest) for path, digest in rows if not re.match(added, path))
    return "sha256:" + hashlib.sha256("".join(retained).encode("utf-8", "surrogateescape")).hexdigest()


def other_records(config: dict[str, Any], installed: Sequence[Installed]) -> tuple[int, list[str]]:
    """Count the distributions whose locked wheel's RECORD is known, and list those with another one."""
    known, locked = config.get("records") or {}, config["lock"].get("pip", ())
    right = {pin["name"]: known.get(pin["artifacts"][0]["sha256"]) for pin in locked if pin.get("artifacts")}
    mine = [
        (package, right[package.name])
        for package in installed
        if right.get(package.name) and package.installer != "conda"
    ]
    wrong = [
        package for package, digest in mine if record_digest(package.distribution.read_text("RECORD") or "") != digest
    ]
    return len(mine), [
        f"{package.name} {package.version} is another build than the locked wheel's: RECORD" for package in wrong
    ]


def compare_conda(locked: Sequence[Pin], records: Sequence[dict[str, Any]]) -> list[str]:
    """List the differences between the conda half of a lock and conda-meta."""
    expected = {pin.name: pin for pin in locked if pin.kind == "conda"}
    wrong, seen = [], set()
    for record in records:
        name, version, build = record.get("name", ""), record.get("version", ""), record.get("build")
        seen.add(name)
        pin = expected.get(name)
        if record.get("damaged"):
            wrong.append(f"conda-meta's record of {name} is damaged")
        elif pin is None:
            wrong.append(f"conda's {name} {version} isn't locked")
        elif pin.version != version or (pin.build and build != pin.build):
            wrong.append(
                "conda's {} is {} {}, locked is {} {}".format(name, version, build, pin.version, pin.build or "")
            )
    wrong += [f"conda's {pin.name} {pin.version} is missing" for pin in expected.values() if pin.name not in seen]
    return sorted(wrong)


@check("static.distributions", torch=False)
def static_distributions(ctx: Context) -> Outcome:
    """The installed packages are the locked ones, name by name and version by version."""
    locked = pins(ctx.lock)
    installed, records = distributions(own_paths()), conda_records(sys.prefix)
    folders = {
        os.path.join(sys.prefix, os.path.dirname(name))
        for record in records
        for name in record.get("files", ())
        if name.endswith((".dist-info/METADATA", ".egg-info/PKG-INFO"))
    }
    wrong = compare_distributions(locked, installed, folders, ctx.config.get("project"))
    has_conda = records or any(pin.kind == "conda" for pin in locked)
    wrong += compare_conda(locked, () if "base" in ctx.config else records) if has_conda else []
    compared, other_builds = other_records(ctx.config, installed)
    wrong += other_wheels(ctx.lock, installed) + other_builds
    details = {
        "distributions": len(installed),
        "conda": len(records),
        "locked": len(locked),
        "differences": wrong[:100],
    }
    details["records_compared"] = compared
    if wrong:
        remedy = "install the environment again from its lock: envspec install, or pip install --require-hashes"
        return failed(f"the environment isn't what is locked: {some(wrong)}", remedy, details=details)
    return passed(details=details)
