"""One version across targets: three ways to get it, for one set of requirements on four platforms.

    apart        every target solved by itself, as if there were no others: what sharing is measured against
    preferred    what envspec does: one solve, whose versions the others prefer
    universal    `uv pip compile --universal`: one solve for all platforms, which holds one CUDA version of a package

Printed: wall time, packages, and how many of them have more than one version.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

from bench.measure import envspec, run
from envspec.lock.read import load
from envspec.resolve.uv.program import find_uv

PLATFORMS = ("linux-64", "linux-aarch64", "osx-arm64", "win-64")
REQUIREMENTS = (
    "transformers>=4.40,<5",
    "datasets",
    "pandas",
    "matplotlib",
    "jupyterlab",
    "tensorboard",
    "scikit-learn",
    "onnxruntime",
    "tensorflow",
    "ray",
)
PYTHON = "3.10"


def main() -> None:
    """Print one line a way."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        _universal(base)
        _locked(base, "warm", PLATFORMS)
        seconds, versions = _universal(base)
        _tell("universal", seconds, versions)
        seconds, versions = _locked(base, "preferred", PLATFORMS)
        _tell("preferred", seconds, versions)
        start = time.perf_counter()
        apart: dict[str, set[str]] = {}
        for platform in PLATFORMS:
            for name, found in _locked(base, f"apart-{platform}", (platform,))[1].items():
                apart.setdefault(name, set()).update(found)
        _tell("apart", time.perf_counter() - start, apart)


def _tell(way: str, seconds: float, versions: dict[str, set[str]]) -> None:
    several = sorted(name for name, found in versions.items() if len(found) > 1)
    counts = f"{len(versions)} packages, {len(several)} in several versions"
    print(f"sharing, {way}: {seconds:.2f} s, {counts} {' '.join(several)}")


def _locked(base: Path, name: str, platforms: tuple[str, ...]) -> tuple[float, dict[str, set[str]]]:
    spec = base / "specs" / f"{name}.toml"
    spec.parent.mkdir(exist_ok=True)
    dependencies = ", ".join(f'"{text}"' for text in REQUIREMENTS)
    targets = "".join(f'[targets.{platform}]\nplatform = "{platform}"\n' for platform in platforms)
    spec.write_text(f'[env]\npython = "{PYTHON}"\n[pip]\ndependencies = [{dependencies}]\n{targets}')
    done = run(envspec("lock", str(spec), "--upgrade"))
    versions: dict[str, set[str]] = {}
    for target in load(base / "locks" / name / "envspec.lock"):
        for pin in target.pins:
            versions.setdefault(pin.name, set()).add(pin.version)
    return done.seconds, versions


def _universal(base: Path) -> tuple[float, dict[str, set[str]]]:
    (base / "in.txt").write_text("\n".join(REQUIREMENTS) + "\n")
    out = base / "universal.txt"
    done = run(
        [
            find_uv(os.environ).executable, "pip", "compile", str(base / "in.txt"), "--universal",
            "--python-version", PYTHON, "--only-binary", ":all:",
            "--no-annotate", "--no-header", "--quiet", "--upgrade", "-o", str(out),
        ],
        env={**os.environ, "UV_PYTHON_DOWNLOADS": "never"},
    )  # fmt: skip
    versions: dict[str, set[str]] = {}
    for line in out.read_text().splitlines():
        name, _, rest = line.partition("==")
        versions.setdefault(name, set()).add(rest.split(";")[0].strip())
    return done.seconds, versions


if __name__ == "__main__":
    main()
