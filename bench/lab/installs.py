"""Locked environments made: by pip and by uv from the rendered requirements, and by envspec, where all is imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from stacks.answers import request_of

from bench.lab.answers import Bench, python_of
from bench.lab.shrink import plain, told_names
from envspec.packages.requirement import canonical_name
from envspec.resolve.uv.program import find_uv

SECONDS = 900
COPIES = 5
"""Of the wheels' bytes: two caches, and three environments that share files with them or not."""

IMPORTS = """
import importlib.metadata, json, re, subprocess, sys
failed, count = {}, 0
for dist in importlib.metadata.distributions():
    names = set()
    for file in dist.files or ():
        first, *rest = file.parts
        module = re.fullmatch(r"([A-Za-z]\\w*)(\\.py|\\.cpython-\\S+\\.so|\\.abi3\\.so)", first)
        if module and not rest:
            names.add(module[1])
        elif rest and re.fullmatch(r"__init__(\\.py|\\.cpython-\\S+\\.so)", rest[0]) and first.isidentifier():
            names.add(first)
    for name in sorted(names):
        count += 1
        ended = subprocess.run([sys.executable, "-I", "-c", f"import {name}"], capture_output=True, text=True)
        if ended.returncode:
            lines = ended.stderr.strip().splitlines() or [f"exit {ended.returncode}"]
            failed[f"{dist.name}: {name}"] = lines[-1][:200]
print(json.dumps({"modules": count, "failed": failed}))
"""
"""Imports each top-level module of each distribution in a process of its own."""


def installed(bench: Bench, told: str, gigabytes: float) -> dict[str, Any]:
    """Install a locked case three ways and import it; the row says what failed."""
    target, request = bench.locked, request_of(bench.spec)
    wanted = COPIES * sum(pin.artifact.size or 0 for pin in target.pins if pin.artifact)
    if wanted > 1e9 * gigabytes:
        return {"what": "too large", "told": f"{wanted / 1e9:.1f} GB wanted"}
    python = python_of(request.python)
    if python is None:
        return {"what": "no Python", "told": f"no Python {request.python} here"}
    listed = bench.folder / bench.case.name / target.name / "requirements.txt"
    env = {**os.environ, **bench.more, "UV_CACHE_DIR": str(bench.caches / "uv"), "UV_PYTHON_DOWNLOADS": "never",
           "PIP_CACHE_DIR": str(bench.caches / "pip"), "XDG_CACHE_HOME": str(bench.caches / "envspec")}  # fmt: skip
    uv, pip = str(find_uv(os.environ).executable), [sys.executable, "-m", "pip"]
    flat = _run([*pip, "config", "get", "global.find-links"], env)[1].strip()
    pips, uvs, ours = (bench.folder / name for name in ("pips", "uvs", "ours"))
    steps = {
        "pip install": (
            [python, "-m", "venv", str(pips), "--without-pip"],
            [*pip, "--python", str(pips), "install", "--quiet", "--require-hashes", "--no-deps", "-r", str(listed)],
        ),
        "uv pip sync": (
            [uv, "venv", "--quiet", "--no-config", "--python", python, str(uvs)],
            [uv, "pip", "sync", "--quiet", "--no-config", "--python", str(uvs / "bin" / "python"), str(listed),
             *(("--find-links", flat) if flat else ())],
        ),
        "envspec install": (
            [sys.executable, "-m", "envspec", "install", str(bench.spec_path), "--target", target.name,
             "--prefix", str(ours), "--locks-dir", str(bench.folder)],
        ),
        "pip check": ([*pip, "--python", str(ours), "check"],),
    }  # fmt: skip
    failed = {name: said for name, commands in steps.items() if (said := _first_failure(commands, env))}
    row = {"packages": len(target.pins), "python": _run([python, "--version"], env)[1].split()[-1]}
    ended, out = _run([str(ours / "bin" / "python"), "-I", "-c", IMPORTS], env)
    modules, imports = (0, {}) if ended else json.loads(out).values()
    if ended:
        failed["imports"] = plain(out)[-300:] or f"exit {ended}"
    return {**row, "modules": modules, **judged(failed, imports, told, bench.case.expected)}


def judged(
    failed: Mapping[str, str], imports: Mapping[str, str], told: str, expected: Mapping[str, str]
) -> dict[str, Any]:
    """Judge what failed: an import that fails is right where lock `told` of its package, or it is `expected`."""
    packages = {name: canonical_name(name.partition(":")[0]) for name in imports}
    untold = [one for one in packages.values() if one not in expected and not told_names([f"{one} - -"], told)]
    shown = {
        name: f"{why} ({expected[packages[name]]})" if packages[name] in expected else why
        for name, why in imports.items()
    }
    what = "fails" if failed else "imports fail" if untold else "works"
    return {"failed": failed, "imports": shown, "what": what}


def _first_failure(commands: Sequence[Sequence[str]], env: Mapping[str, str]) -> str:
    """Run commands one after another; give the end of what the first that fails says."""
    for command in commands:
        ended, out = _run(command, env)
        if ended:
            return plain("\n".join(out.strip().splitlines()[-3:]))[:600] or f"exit {ended}"
    return ""


def _run(command: Sequence[str], env: Mapping[str, str]) -> tuple[int, str]:
    try:
        ended = subprocess.run(
            command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=SECONDS
        )
    except (subprocess.TimeoutExpired, FileNotFoundError) as error:
        return 1, str(error)
    return ended.returncode, ended.stdout
