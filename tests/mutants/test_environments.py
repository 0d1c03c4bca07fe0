"""Environments that are broken in one place: the check that should say so does, in the words that it should."""

import base64
import hashlib
import json
import py_compile
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from envspec_check.checks.installed import record_digest
from envspec_check.environment import distributions
from envspec_check.lock import read_target
from support.smoke_env import CONFIG, copied, run_check, site_packages, with_code

pytestmark = [pytest.mark.nightly, pytest.mark.network, pytest.mark.e2e]

DATA = Path(__file__).with_name("environments.toml")
MUTANTS = tomlkit.parse(DATA.read_text(encoding="utf-8")).unwrap()["mutant"]


def broken(smoke_env: Path, folder: Path, mutant: dict[str, Any]) -> Path:
    """The environment of a mutant."""
    if "file" in mutant:
        return with_code(smoke_env, folder, mutant["file"], "\n" + mutant["code"] + "\n")
    prefix = copied(smoke_env, folder / "env")
    packages = site_packages(prefix)
    if "new" in mutant:
        path = packages / mutant["new"]
        path.parent.mkdir(exist_ok=True)
        path.write_text(mutant["code"] + "\n", encoding="utf-8")
    if "library" in mutant:
        path = packages / mutant["library"]
        content = bytearray(path.read_bytes())
        middle = len(content) // 2
        content[middle : middle + 4096] = bytes(255 - byte for byte in content[middle : middle + 4096])
        path.unlink()  # it may be a link to the file of the environment that was copied
        path.write_bytes(content)
    if "link" in mutant:
        (packages / mutant["link"]).symlink_to(folder)
    if "planted" in mutant:
        plant(packages / mutant["module"], mutant["planted"], folder)
    if "gone" in mutant:
        next(packages.glob(mutant["gone"])).unlink()
    if "rebuilt" in mutant:
        rebuild(packages, mutant["rebuilt"])
    return prefix


def plant(module: Path, code: str, folder: Path) -> None:
    """Compile other code for a module, and say in it that it is of the module's time and size."""
    other = folder / "other.py"
    other.write_text(code, encoding="utf-8")
    cached = Path(cache_from_source(str(module)))
    made = Path(str(py_compile.compile(str(other), cfile=str(folder / "other.pyc")))).read_bytes()
    about = module.stat()
    head = made[:8] + int(about.st_mtime).to_bytes(4, "little") + about.st_size.to_bytes(4, "little")
    cached.parent.mkdir(exist_ok=True)
    cached.unlink(missing_ok=True)
    cached.write_bytes(head + made[16:])


def rebuild(packages: Path, name: str) -> None:
    """Make a package that of another build: its first module has more in it, and its RECORD says so."""
    record, module = next(packages.glob(f"{name}-*.dist-info/RECORD")), packages / name / "__init__.py"
    content = module.read_bytes() + b"# built again\n"
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    rows = [row for row in record.read_text().splitlines() if not row.startswith(f"{name}/__init__.py,")]
    text = "\n".join([*rows, f"{name}/__init__.py,sha256={digest},{len(content)}", ""])
    for path, changed in ((module, content), (record, text.encode())):
        path.unlink()
        path.write_bytes(changed)


def seen_config(smoke_env: Path, folder: Path) -> Path:
    """That target.json with what the wheels say of their files, as `envspec smoke` writes it where they were seen."""
    document = read_target(str(CONFIG))
    there = {one.name: one for one in distributions([str(site_packages(smoke_env))])}
    document["records"] = {
        package["artifacts"][0]["sha256"]: record_digest(there[package["name"]].distribution.read_text("RECORD"))
        for package in document["lock"]["pip"]
    }
    path = folder / "target.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one["broken"])
def test_a_broken_environment_is_told(smoke_env: Path, tmp_path: Path, mutant: dict[str, Any]) -> None:
    prefix = broken(smoke_env, tmp_path, mutant)
    words = ("--device", "cpu", "--only", mutant["group"], *mutant.get("options", ("--quick",)))
    words = ("--config", str(seen_config(smoke_env, tmp_path)), *words)
    done = run_check(prefix, tmp_path, *words, env=mutant.get("variables"))
    assert done.status == 1
    assert mutant["check"] in done.failed, done.said
    assert mutant["words"] in done.check(mutant["check"])["reason"]
