"""`envspec lock` beside `uv pip compile --generate-hashes`, given the same indexes, requirements and cache rules.

"Cold" starts with no caches, "warm" with those of the run before. Both get PyPI's own rules for their caches, as a
mirror may pass no cache headers on, and uv the torch family from the same loopback proxy. Registries of images aren't
asked: uv has no images. lock_speed.txt beside this file is one run of `python -m bench lock_speed`, with what was
expected of it.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.measure import Run, envspec, run, turns
from envspec.app.inputs import read_spec
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.net.index_proxy.server import IndexProxy, open_proxy
from envspec.resolve.pip.request import Request, request_for
from envspec.resolve.torch_index import choice as torch_index
from envspec.resolve.uv.program import find_uv, uvs_default_index

SPEC = Path("specs/mm-v2.9.toml")
TARGET = "cu128-hopper"
ROUNDS = 5


def main() -> None:
    """Print the ratios. `ENVSPEC_BENCH_WARM=1` leaves the cold one out, which downloads some 30 MB ten times."""
    six = tuple(target.name for target in read_spec(str(SPEC)).targets)
    kinds = [("one target, warm", (TARGET,), False, _as_it_is), (f"{len(six)} targets, warm", six, False, _as_it_is)]
    if not os.environ.get("ENVSPEC_BENCH_WARM"):
        kinds += [
            ("one target, cold", (TARGET,), True, _as_it_is),
            ("one target reading no wheel, cold", (TARGET,), True, _without_reading),
        ]
    for title, targets, cold, change in kinds:
        mine, theirs = compare(targets, cold=cold, change=change)
        print(
            f"lock {title}: {mine.seconds / theirs.seconds:.2f} x one uv pip compile; of processor time "
            f"{mine.processor / theirs.processor:.2f} x   "
            f"({mine.seconds:.2f} s, {mine.processor:.2f} s, {mine.megabytes:.0f} MB against "
            f"{theirs.seconds:.2f} s, {theirs.processor:.2f} s, {theirs.megabytes:.0f} MB)"
        )


def _as_it_is(text: str) -> str:
    return text


def _without_reading(text: str) -> str:
    """Leave the wheels unread, of which uv reads none."""
    return text.replace("[pip]\n", "[pip]\ninspect = false\n")


def compare(targets: tuple[str, ...], *, cold: bool, change: Callable[[str], str] = _as_it_is) -> tuple[Run, Run]:
    """Run envspec for these targets of the spec with a change, and uv for one of them, in turn."""
    with tempfile.TemporaryDirectory() as folder, open_proxy() as proxy:
        base = Path(folder)
        # without [image], no registry is asked
        text = re.sub(r"(?ms)^\[image\].*?(?=^\[|\Z)", "", SPEC.read_text())
        spec = base / "specs" / SPEC.name
        spec.parent.mkdir()
        spec.write_text(change(text))
        sides: dict[str, Callable[[], Run]] = {
            "envspec": lambda: _envspec(base / "envspec", spec, targets, cold),
            "uv": lambda: _uv(base / "uv", _request(spec), proxy, cold),
        }
        if not cold:
            for side in sides.values():
                side()
        runs = turns(sides, ROUNDS)
    return runs["envspec"], runs["uv"]


def _request(path: Path) -> Request:
    spec = read_spec(str(path))
    target = next(target for target in spec.targets if target.name == TARGET)
    return request_for(spec_inputs(spec), target_inputs(spec, target))


def _environment(folder: Path, *, cold: bool) -> dict[str, str]:
    if cold:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return {
        **{name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
        "XDG_CACHE_HOME": str(folder / "cache"),
        "UV_CACHE_DIR": str(folder / "uv"),
        "UV_PYTHON_DOWNLOADS": "never",
    }


def _envspec(folder: Path, spec: Path, targets: tuple[str, ...], cold: bool) -> Run:
    env = _environment(folder, cold=cold)
    chosen = [word for target in targets for word in ("--target", target)]
    locks = folder / "locks"
    shutil.rmtree(locks, ignore_errors=True)
    return run(envspec("lock", str(spec), *chosen, "--locks-dir", str(locks)), env=env)


def _uv(folder: Path, request: Request, proxy: IndexProxy, cold: bool) -> Run:
    env = _environment(folder, cold=cold)
    uv = find_uv(os.environ)
    source, configuration = folder / "requirements.in", folder / "uv.toml"
    source.write_text("\n".join(request.requirements) + "\n")
    configuration.write_text(
        f'[[index]]\nname = "pypi"\nurl = "{uvs_default_index(uv, folder)}"\ndefault = true\n'
        'cache-control = { api = "max-age=600", files = "max-age=365000000, immutable" }\n'
    )
    command = [
        uv.executable, "pip", "compile", str(source), "--quiet", "--upgrade", "--generate-hashes",
        "--output-file", str(folder / "requirements.txt"), "--only-binary", ":all:",
        "--python-version", request.python, "--python-platform", request.uv_platform,
        *(f"--no-binary={name}" for name in request.allow_source), "--config-file", str(configuration),
    ]  # fmt: skip
    index = torch_index.choose(request)
    if index.variant:
        command += ["--index", proxy.with_login(proxy.url(index.variant))]
    return run(command, env=env)


if __name__ == "__main__":
    main()
