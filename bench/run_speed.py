"""`envspec run` of a ready environment, beside `envspec --version` and the command alone: whole processes."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import zipfile
from functools import partial
from pathlib import Path

from bench.measure import envspec, run, turns
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.lock.model import Artifact, Lock, LockedTarget, Pin
from envspec.lock.write import dumps
from envspec.spec.parse import load_spec

ROUNDS = 25
BUDGET = 1.5
"""Times `envspec --version`, over the command itself."""
WHEEL = "alpha-1.0-py3-none-any.whl"
SPEC = """\
[env]
name = "bench"
python = "{}"
[pip]
dependencies = ["alpha"]
[targets.cpu]
platform = "linux-64"
glibc = "2.17"
"""


def wheel(folder: Path) -> str:
    """Write a wheel with one empty module; gives its sha256."""
    files = {
        "alpha.py": "",
        "alpha-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: alpha\nVersion: 1.0\n",
        "alpha-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, "alpha-1.0.dist-info/RECORD"))
    with zipfile.ZipFile(folder / WHEEL, "w") as archive:
        for name, text in {**files, "alpha-1.0.dist-info/RECORD": record}.items():
            archive.writestr(name, text)
    return hashlib.sha256((folder / WHEEL).read_bytes()).hexdigest()


def main() -> None:
    """Print the ratio; a line says so where it is over the budget."""
    with tempfile.TemporaryDirectory() as folder:
        made, locked = Path(folder, "specs", "bench.toml"), Path(folder, "locks", "bench", "envspec.lock")
        made.parent.mkdir()
        locked.parent.mkdir(parents=True)
        made.write_text(SPEC.format(f"3.{sys.version_info.minor}"), encoding="utf-8")
        spec = load_spec(made)
        inputs = target_inputs(spec, spec.targets[0])
        pin = Pin("pip", "alpha", "1.0", "pypi", Artifact(WHEEL, wheel(Path(folder)), None), direct=True)
        target = LockedTarget("cpu", inputs, (pin,))
        locked.write_text(dumps(Lock("bench", spec_inputs(spec), (target,))), encoding="utf-8")
        own = {"ENVSPEC_ENVIRONMENTS_DIR": f"{folder}/environments", "ENVSPEC_CACHE_DIR": f"{folder}/cache"}
        own["UV_PYTHON_DOWNLOADS"] = "never"
        env = {**os.environ, **own, "PIP_FIND_LINKS": folder}
        asked = {
            "envspec run -- true": envspec("run", str(made), "--", "true"),
            "envspec --version": envspec("--version"),
            "true": ["true"],
        }
        run(asked["envspec run -- true"], env=env)
        runs = turns({name: partial(run, words, env=env) for name, words in asked.items()}, ROUNDS)
    whole, version, alone = (runs[name].seconds for name in asked)
    ratio = (whole - alone) / version
    over = "" if ratio <= BUDGET else f"   over the budget of {BUDGET}"
    print(
        f"envspec run of a ready environment, over the command itself: {ratio:.2f} x envspec --version   "
        f"({(whole - alone) * 1e3:.0f} ms against {version * 1e3:.0f} ms){over}"
    )


if __name__ == "__main__":
    main()
