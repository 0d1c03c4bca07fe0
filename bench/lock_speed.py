"""`envspec lock` beside uv: the same targets, resolved by plain `uv pip compile` runs one after another.

Peers are given the same wheel indexes (PyPI, and the torch family's through the same loopback proxy) and caches in the
same state: "cold" starts with none, "warm" with those of the run before. "uv, same cache rules" tells uv to trust its
cache for as long as envspec does, which matters where a mirror passes no cache headers on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench.measure import Run, envspec, run, turns
from envspec.cli.inputs import read_spec
from envspec.lock.inputs import spec_inputs, target_inputs
from envspec.net.index_proxy.server import IndexProxy, open_proxy
from envspec.resolve.pip.request import Request, request_for
from envspec.resolve.torch_index import choice as torch_index
from envspec.uv.default_index import uvs_default_index
from envspec.uv.program import find_uv

SPEC = Path("specs/mm-v2.9.toml")
FOUR = ("cu128-hopper", "cu126-volta", "cu130-hopper", "cpu")
ROUNDS = 5


def main() -> None:
    """Print the ratios."""
    for title, targets in (("four targets", FOUR), ("one target", FOUR[:1])):
        for state in ("warm", "cold"):
            for name, ratio, mine, theirs in compare(targets, cold=state == "cold"):
                print(
                    f"lock {title}, {state}: {ratio:.2f} x {name}   "
                    f"({mine.seconds:.2f} s, {mine.megabytes:.0f} MB against "
                    f"{theirs.seconds:.2f} s, {theirs.megabytes:.0f} MB)"
                )


def compare(targets: tuple[str, ...], *, cold: bool) -> list[tuple[str, float, Run, Run]]:
    """(peer, ratio of wall times, envspec's run, the peer's run) for these targets."""
    spec = read_spec(str(SPEC))
    shared = spec_inputs(spec)
    requests = [request_for(shared, target_inputs(spec, target)) for target in spec.targets if target.name in targets]
    with tempfile.TemporaryDirectory() as folder, open_proxy() as proxy:
        base = Path(folder)
        sides: dict[str, Callable[[], Run]] = {
            "envspec": lambda: _envspec(base / "envspec", targets, cold),
            "uv": lambda: _uv(base / "uv", requests, proxy, cold=cold, rules=False),
            "uv, same cache rules": lambda: _uv(base / "uv-rules", requests, proxy, cold=cold, rules=True),
        }
        if not cold:
            for side in sides.values():
                side()
        runs = turns(sides, 3 if cold else ROUNDS)
    mine = runs.pop("envspec")
    return [(name, mine.seconds / theirs.seconds, mine, theirs) for name, theirs in runs.items()]


def _environment(folder: Path, *, cold: bool) -> dict[str, str]:
    if cold:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    return {
        **os.environ,
        "XDG_CACHE_HOME": str(folder / "cache"),
        "UV_CACHE_DIR": str(folder / "uv"),
        "UV_PYTHON_DOWNLOADS": "never",
    }


def _envspec(folder: Path, targets: tuple[str, ...], cold: bool) -> Run:
    env = _environment(folder, cold=cold)
    chosen = [word for target in targets for word in ("--target", target)]
    locks = folder / "locks"
    shutil.rmtree(locks, ignore_errors=True)
    return run(envspec("lock", str(SPEC), *chosen, "--locks-dir", str(locks)), env=env)


def _uv(folder: Path, requests: list[Request], proxy: IndexProxy, *, cold: bool, rules: bool) -> Run:
    env = _environment(folder, cold=cold)
    uv = find_uv(os.environ)
    total = Run(0, 0)
    for number, request in enumerate(requests):
        source = folder / f"{number}.in"
        source.write_text("\n".join(request.requirements) + "\n")
        command = [
            uv.executable, "pip", "compile", str(source), "--quiet", "--upgrade", "--generate-hashes",
            "--output-file", str(folder / f"{number}.txt"), "--only-binary", ":all:",
            "--python-version", request.python, "--python-platform", request.uv_platform,
            *(f"--no-binary={name}" for name in request.allow_source),
        ]  # fmt: skip
        index = torch_index.choose(request)
        if index.variant:
            command += ["--index", proxy.url(index.variant)]
        if rules:
            configuration = folder / "uv.toml"
            configuration.write_text(
                f'[[index]]\nname = "pypi"\nurl = "{uvs_default_index(uv, folder)}"\ndefault = true\n'
                'cache-control = { api = "max-age=600", files = "max-age=365000000, immutable" }\n'
            )
            command += ["--config-file", str(configuration)]
        one = run(command, env=env)
        total = Run(total.seconds + one.seconds, max(total.megabytes, one.megabytes))
    return total


if __name__ == "__main__":
    main()
