"""A lock's environment from what a machine has installed already, and the smoke check in it: no index, no copy by hand.

    python -m bench.installed_lock ask specs/hopper.toml --target cu130-hopper -o target.json      # where an index is
    python3 bench/installed_lock.py check target.json -o check.json                # where the GPU is: no network

`ask` writes what the check is asked with, and beside the lock's slice the digest of each locked wheel's RECORD, which
it reads by ranges. `check` makes a virtual environment of the distributions that the lock names, file by file, from
those that the interpreter has, and runs the whole check there. That check holds each distribution's RECORD to the
locked wheel's, and files to the size and the hash that RECORD has for them: so the environment is the lock's, or it
fails.

`check` asks for nothing but the standard library.
"""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

CHECK = Path(__file__).resolve().parents[1] / "check"


def ask(spec_path: Path, target_name: str | None, output: Path) -> None:
    """Write what the check is asked with. Raises EnvspecError."""
    from envspec.app import inputs
    from envspec.configuration.settings import load_settings
    from envspec.export.target_json import dumps, target_document
    from envspec.lock.conda_files import artifact_of
    from envspec.net.remote_file import open_remote
    from envspec.prove.smoke.run.case import record_digest
    from tools.refresh.__main__ import WHOLE, LiveIndex

    spec, lock = inputs.read_lock(str(spec_path), None)
    (target,) = inputs.locked_targets(lock, [target_name] if target_name else [])
    settings = load_settings(os.environ)
    indexes: dict[str, LiveIndex] = {}
    records = {}
    for pin in target.pins:
        if pin.kind != "pip":
            raise SystemExit(f"error: {pin.name} is conda's: only environments of wheels are made this way")
        wheel = artifact_of(pin)
        index = indexes.setdefault(str(pin.index), LiveIndex(str(pin.index), settings, os.environ))
        (url,) = {one.url for one in index.files_with_addresses(pin.name) if one.sha256 == wheel.sha256}
        with open_remote(index.fetcher, url, WHOLE) as content:
            digest = record_digest(content)
        if digest is None:
            raise SystemExit(f"error: {wheel.file} has no RECORD that can be read")
        records[wheel.sha256] = digest
        print(f"{wheel.file}: {digest}", file=sys.stderr, flush=True)
    output.write_text(dumps({**target_document(spec, lock, target), "records": records}), encoding="utf-8")


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def make(wanted: dict[str, str], wheels: dict[str, Path], prefix: Path) -> None:
    """Make a virtual environment of these distributions (versions by name): of their wheels, or from this
    interpreter's own. Raises SystemExit for one that isn't installed in that version."""
    here: dict[str, importlib.metadata.Distribution] = {}
    for one in importlib.metadata.distributions():
        here.setdefault(normalised(one.metadata["Name"]), one)
    versions = {name: one.version for name, one in here.items()}
    others = {name: version for name, version in wanted.items() if name not in wheels}
    lacking = [f"{name} {version}" for name, version in others.items() if versions.get(name) != version]
    if lacking:
        raise SystemExit(f"error: {sys.executable} doesn't have {', '.join(lacking)}")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    (packages,) = prefix.glob("lib/python*/site-packages")
    for name in others:
        copy(here[name], packages, prefix)
    for wheel in wheels.values():
        unpack(wheel, packages)


def unpack(wheel: Path, packages: Path) -> None:
    """Unpack a wheel that is Python alone. Raises SystemExit for another."""
    with zipfile.ZipFile(wheel) as archive:
        if any(".data/" in name or name.endswith("/entry_points.txt") for name in archive.namelist()):
            raise SystemExit(f"error: {wheel.name} has more than packages: only its installer can install it")
        archive.extractall(packages)


def locked_wheels(folder: Path, pins: Sequence[dict[str, Any]]) -> dict[str, Path]:
    """The wheels of a folder that are these pins' own, by their hashes."""
    found = {sha256(path.read_bytes()).hexdigest(): path for path in folder.glob("*.whl")}
    hashes = {normalised(pin["name"]): pin["artifacts"][0]["sha256"] for pin in pins}
    return {name: found[digest] for name, digest in hashes.items() if digest in found}


def copy(one: importlib.metadata.Distribution, packages: Path, prefix: Path) -> None:
    """Copy a distribution's files. A launcher gets this environment's interpreter, and RECORD what came of it."""
    rows = list(csv.reader((one.read_text("RECORD") or "").splitlines()))
    kept = []
    for row in rows:
        source = Path(str(one.locate_file(row[0])))
        place = Path(os.path.normpath(packages / row[0]))
        if not source.exists() or place.suffix == ".pyc":
            continue
        if not place.is_relative_to(prefix):
            raise SystemExit(f"error: {row[0]} of {one.metadata['Name']} lies outside of an environment")
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_relative_to(prefix / "bin"):
            content = launched_by(source.read_bytes(), prefix / "bin" / "python")
            place.write_bytes(content)
            place.chmod(0o755)
            digest = urlsafe_b64encode(sha256(content).digest()).rstrip(b"=").decode()
            row = [row[0], f"sha256={digest}", str(len(content))]
        else:
            shutil.copy2(source, place)
        kept.append(row)
    (record,) = (row[0] for row in kept if re.fullmatch(r"[^/]+\.dist-info/RECORD", row[0]))
    with (packages / record).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(kept)


def launched_by(script: bytes, python: Path) -> bytes:
    """Give a launcher another interpreter; other programs stay as they are."""
    first, newline, rest = script.partition(b"\n")
    return b"#!" + os.fsencode(python) + newline + rest if first.startswith(b"#!") and b"python" in first else script


def check(config: Path, output: Path, folder_of_wheels: Path | None, words: Sequence[str]) -> int:
    """Make the environment and run the check in it; gives the check's status."""
    asked: dict[str, Any] = json.loads(config.read_text(encoding="utf-8"))
    wanted = {normalised(one["name"]): one["version"].partition("+")[0] for one in asked["lock"]["pip"]}
    wheels = locked_wheels(folder_of_wheels, asked["lock"]["pip"]) if folder_of_wheels else {}
    with tempfile.TemporaryDirectory(prefix="envspec-lock-") as folder:
        prefix, scratch = Path(folder, "environment"), Path(folder, "scratch")
        scratch.mkdir()
        make(wanted, wheels, prefix)
        python = str(prefix / "bin" / "python")
        program = [python, "-I", str(CHECK), "--config", str(config), "--json", str(output), "--scratch", str(scratch)]
        done = subprocess.run([*program, *words], stdin=subprocess.DEVNULL)
        if output.exists():
            text = output.read_text(encoding="utf-8")
            for place, name in (
                (str(prefix), "ENVIRONMENT"),
                (os.path.realpath(sys.executable), "PYTHON"),
                (str(CHECK), "CHECK"),
            ):
                text = text.replace(place, name)
            output.write_text(text, encoding="utf-8")
        return done.returncode


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    asking = verbs.add_parser("ask", help="what the check is asked with")
    asking.add_argument("spec", type=Path)
    asking.add_argument("--target")
    asking.add_argument("-o", "--output", type=Path, required=True)
    checking = verbs.add_parser("check", help="run the check in one; further options are its own")
    checking.add_argument("config", type=Path)
    checking.add_argument("-o", "--output", type=Path, required=True)
    checking.add_argument("--wheels", type=Path, metavar="DIR", help="what is unpacked rather than copied")
    asked, rest = parser.parse_known_args(words)
    if asked.verb == "check":
        return check(asked.config.resolve(), asked.output.resolve(), asked.wheels, rest)
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    ask(asked.spec, asked.target, asked.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
