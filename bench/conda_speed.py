"""The conda half beside py-rattler called bare: the same channel, the same specs, each side a process of its own.

The channel is the recorded one of tests/data/recorded. Times are those of the solving, from a cold process with a
warm disk; memory is the process's peak. The large channel has 300,000 records: the recorded ones, three older versions
of each, and copies under other names that nothing asks for, as most of conda-forge is to any one environment.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.recorded import unpack

SPECS = ("pytorch ==2.7.1", "torchvision")
RECORDS = 300_000
ROUNDS = 9


def main() -> None:
    """Print the ratios."""
    if len(sys.argv) > 3 and sys.argv[1] == "--side":
        print(json.dumps(_side(sys.argv[2], sys.argv[3])))
        return
    with tempfile.TemporaryDirectory() as folder:
        unpack(Path(folder))
        recorded = Path(folder) / "conda-forge"
        _compare("recorded channel", recorded)
        _compare(f"{RECORDS:,} records", _large(Path(folder), recorded))


def _compare(title: str, channel: Path) -> None:
    taken: dict[str, list[dict[str, float]]] = {"bare": [], "one": [], "four": []}
    for _ in range(ROUNDS):
        for side, runs in taken.items():
            runs.append(_run(side, channel))
    seconds = {side: statistics.median(run["seconds"] for run in runs) for side, runs in taken.items()}
    memory = {side: max(run["megabytes"] for run in runs) for side, runs in taken.items()}
    print(
        f"conda solve, {title}: {seconds['one'] / seconds['bare']:.2f} x bare py-rattler"
        f"   ({seconds['one']:.2f} s, {memory['one']:.0f} MB against {seconds['bare']:.2f} s, {memory['bare']:.0f} MB)"
    )
    print(
        f"conda solve, {title}, four targets: {seconds['four'] / seconds['one']:.2f} x one"
        f"   ({seconds['four']:.2f} s, {memory['four']:.0f} MB)"
    )


def _run(side: str, channel: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.conda_speed", "--side", side, str(channel)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _side(side: str, channel: str) -> dict[str, float]:
    solve = _bare(channel) if side == "bare" else _ours(channel, four=side == "four")
    start = time.perf_counter()
    solve()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "megabytes": _peak()}


def _peak() -> float:
    """The peak of this process's resident memory, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1.024e-3 for line in lines if line.startswith("VmHWM:"))


def _bare(channel: str) -> Callable[[], object]:
    """py-rattler, told everything that envspec finds out by itself."""
    import rattler
    from rattler.package import BuildString

    virtual = (("__archspec", "1", "x86_64"), ("__unix", "0", "0"), ("__linux", "4.18", "0"), ("__glibc", "2.28", "0"))
    cuda = (("__cuda", "12.6", "0"), ("__cuda_arch", "9.0", "0"))
    packages = [
        rattler.GenericVirtualPackage(rattler.PackageName(name), rattler.Version(version), BuildString(build))
        for name, version, build in (*virtual, *cuda)
    ]

    async def solve() -> object:
        return await rattler.solve(
            [Path(channel).as_uri()],
            [rattler.MatchSpec(text) for text in (*SPECS, "python 3.12.*")],
            gateway=rattler.Gateway(),
            platforms=["linux-64", "noarch"],
            virtual_packages=packages,
            constraints=["cuda-version 12.6.*", "pytorch * cuda*"],
        )

    return lambda: asyncio.run(solve())


def _ours(channel: str, *, four: bool) -> Callable[[], object]:
    import rattler

    from envspec.artifacts.conda_channels import ChannelAddress
    from envspec.resolve.conda.request import CondaRequest
    from envspec.resolve.conda.solve import CondaResolver

    def request(cuda: str | None, gpu: str = "sm_90") -> CondaRequest:
        gpus = (gpu,) if cuda else ()
        return CondaRequest("linux-64", "3.12", SPECS, ("conda-forge",), glibc="2.28", cuda=cuda, architectures=gpus)

    resolver = CondaResolver(rattler.Gateway(), (ChannelAddress("conda-forge", Path(channel).as_uri()),))
    requests = {"hopper": request("12.6")}
    if four:
        requests |= {"ampere": request("12.6", "sm_80"), "new": request("12.9"), "cpu": request(None)}
    return lambda: resolver.resolve(requests, {})


def _large(folder: Path, small: Path) -> Path:
    """A channel with RECORDS records, from one with fewer."""
    total = 0
    for subdir, share in (("linux-64", 0.75), ("noarch", 0.25)):
        tables = json.loads((small / subdir / "repodata.json").read_text())
        recorded: dict[str, dict[str, Any]] = tables["packages.conda"]
        wanted, records, copy = int(RECORDS * share), dict(recorded), 0
        while len(records) < wanted:
            copy += 1
            for entry in list(recorded.values())[: wanted - len(records)]:
                older = copy <= 3
                name = entry["name"] if older else f"{entry['name']}-copy{copy}"
                version = f"0.{copy}.{entry['version']}" if older else entry["version"]
                records[f"{name}-{version}-{entry['build']}.conda"] = {**entry, "name": name, "version": version}
        target = folder / "large" / subdir
        target.mkdir(parents=True)
        table = {"info": {"subdir": subdir}, "packages": tables["packages"], "packages.conda": records}
        (target / "repodata.json").write_text(json.dumps(table))
        total += len(records) + len(tables["packages"])
    assert total >= RECORDS
    return folder / "large"


if __name__ == "__main__":
    main()
