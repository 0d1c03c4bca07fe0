"""What a GPU machine shows by itself, in one command: `make gpu-evidence`.

    python bench/gpu_evidence.py -o DIR                    # with the torch of this interpreter: no network, no install
    python bench/gpu_evidence.py -o DIR --lock specs/mm-v2.9.toml:cu128-hopper     # and the lock's own environment

A plan is printed first; `--plan` ends there. The smoke check runs with the torch that is there: all groups but static,
and every workload, one JSON each, within `--minutes`. Beside them lie NVML's figures before and after, the answers of
`envspec inspect` and `envspec doctor`, and `machine.json`, which says what ran and what didn't. Every report is marked
`"evidence": "machine"`: it says how the check and a GPU get on, and proves nothing of a lock; `envspec report` refuses
it. With `--lock`, `envspec smoke` makes the lock's environment first, which needs an index, and its report is evidence:
`envspec smoke --evidence` keeps it.

Only the standard library, so that it runs wherever torch does.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CHECK = ROOT / "check"
WORKLOADS = ("multimodal", "basic", "llm", "deit", "dynamic")
WHOLE = (
    *("device", "operators", "training", "determinism", "compile", "dataloader", "collectives", "stack"),
    *("jax", "tensorflow", "onnxruntime", "cupy", "rapids", "together", "figures"),
)
"""All groups but static, which compares with a lock, and there is none."""
OF_WORKLOAD = ("training", "determinism", "figures")
"""The groups that ask something else of each workload; the first workload has all."""
SMI = 90.0
"""Seconds that NVML, or nvidia-smi, may take: half a minute where no persistence mode keeps the driver awake."""
GRACE = 20.0
"""Seconds that an interrupted check has to write its report."""
FIRST_SHARE = 0.5
"""Of the time for the first workload, which has all groups; what it leaves is the others', in equal parts."""
RESERVE = 25.0 + GRACE
"""Seconds at the end for what follows the checks, and for a last check that has to be interrupted."""
FIGURES: dict[str, tuple[str, tuple[int, ...]]] = {
    "pstate": ("nvmlDeviceGetPerformanceState", ()),
    "persistence mode": ("nvmlDeviceGetPersistenceMode", ()),
    "temperature, C": ("nvmlDeviceGetTemperature", (0,)),
    "power, mW": ("nvmlDeviceGetPowerUsage", ()),
    "power limit, mW": ("nvmlDeviceGetEnforcedPowerLimit", ()),
    "clock of SMs, MHz": ("nvmlDeviceGetClockInfo", (1,)),
    "clock of memory, MHz": ("nvmlDeviceGetClockInfo", (2,)),
    "most of SMs, MHz": ("nvmlDeviceGetMaxClockInfo", (1,)),
    "reasons to throttle": ("nvmlDeviceGetCurrentClocksThrottleReasons", ()),
    "PCIe generation": ("nvmlDeviceGetCurrPcieLinkGeneration", ()),
    "most PCIe generation": ("nvmlDeviceGetMaxPcieLinkGeneration", ()),
    "PCIe lanes": ("nvmlDeviceGetCurrPcieLinkWidth", ()),
    "most PCIe lanes": ("nvmlDeviceGetMaxPcieLinkWidth", ()),
    "uncorrected errors": ("nvmlDeviceGetTotalEccErrors", (1, 0)),
}
"""What NVML is asked of each GPU, by its functions for one number: nothing that names the machine."""
FIELDS = ("name", "driver_version", "pstate", "temperature.gpu", "power.draw", "clocks.sm", "memory.used")
"""What nvidia-smi is asked, once, where Python can't load NVML."""

PROBE = """
import importlib.metadata, json, torch
installed = {one.metadata["Name"]: one.version for one in importlib.metadata.distributions() if one.metadata["Name"]}
gpus = [torch.cuda.get_device_capability(i) for i in range(torch.cuda.device_count())]
names = [torch.cuda.get_device_name(i) for i in range(len(gpus))]
print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, "folder": torch.__path__[0],
                  "architectures": sorted({"sm_%d%d" % one for one in gpus}), "gpus": names, "installed": installed}))
"""

CARDS = """
import json, sys
from envspec.export.target_json import cards
print(json.dumps(cards(tuple(sys.argv[1:]))))
"""
"""What envspec knows of the products of these architectures: the check takes the one that the machine has."""


@dataclass
class Evidence:
    """What is gathered, and the folder that it goes to. `steps` is what ran: a name, seconds, and what came of it."""

    folder: Path
    deadline: float
    steps: list[dict[str, Any]] = field(default_factory=list)

    @property
    def left(self) -> float:
        return self.deadline - time.monotonic()

    def ran(self, name: str, began: float, came: str) -> None:
        seconds = round(time.monotonic() - began, 1)
        self.steps.append({"name": name, "seconds": seconds, "came": came})
        print(f"{seconds:7.1f} s  {name}: {came}", file=sys.stderr, flush=True)

    def write(self, name: str, value: Any) -> None:
        text = value if isinstance(value, str) else json.dumps(value, indent=1) + "\n"
        (self.folder / name).write_text(text, encoding="utf-8")


def probe(python: str) -> dict[str, Any]:
    """Ask an interpreter for its torch. Raises SystemExit where it has none."""
    done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise SystemExit(f"error: {python} has no torch that can be imported: {last}\nhint: name another with --python")
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "cards": cards(python, found["architectures"])}


def own_pythons(python: str) -> list[str]:
    """The interpreters that may have what envspec itself needs, the project's own first."""
    return [one for one in (str(ROOT / ".venv" / "bin" / "python"), python) if shutil.which(one)]


def cards(python: str, architectures: Sequence[str]) -> dict[str, Any]:
    """What the rates of GPUs of these architectures are at most. None where no interpreter can say it."""
    for interpreter in own_pythons(python):
        words = [interpreter, "-c", CARDS, *architectures]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
        if done.returncode == 0:
            found: dict[str, Any] = json.loads(done.stdout)
            return found
    print("figures have no shares of a peak: no interpreter here has what envspec needs", file=sys.stderr)
    return {}


def target_of(torch: dict[str, Any], workload: str) -> dict[str, Any]:
    """Make what the check is asked with: a slice that holds what is installed, under a name that no lock has."""
    packages = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in torch["installed"].items()}
    name = "machine-evidence"
    target = {"platform": f"linux-{platform.machine()}", "python": "{}.{}".format(*platform.python_version_tuple()[:2])}
    if torch["cuda"]:
        target |= {"cuda": torch["cuda"], "architectures": torch["architectures"]}
    lock = {
        "lock-version": 5,
        "env": {"name": name},
        "targets": {"this-machine": target},
        "pip": [{"name": one, "version": packages[one], "index": "unknown"} for one in sorted(packages)],
    }
    canonical = json.dumps(lock, sort_keys=True, separators=(",", ":"))
    return {
        "schema": 2,
        "spec": name,
        "target": "this-machine",
        "lock_digest": f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}",
        "fingerprint": "",
        "workload": workload,
        "steps": 50,
        "references": {},
        "cards": torch["cards"],
        "lock": lock,
    }


def check(evidence: Evidence, python: str, torch: dict[str, Any], workload: str, quick: bool) -> None:
    """Run the smoke check for one workload, and mark its report."""
    began, name = time.monotonic(), f"check-{workload}.json"
    if evidence.left < RESERVE:
        evidence.ran(name, began, "left out: no time was left")
        return
    first, place = workload == WORKLOADS[0], WORKLOADS.index(workload)
    groups = WHOLE if first else OF_WORKLOAD
    limit = (evidence.left - RESERVE) * (FIRST_SHARE if first else 1 / (len(WORKLOADS) - place))
    with tempfile.TemporaryDirectory() as scratch:
        config, report = Path(scratch, "target.json"), Path(scratch, "check.json")
        config.write_text(json.dumps(target_of(torch, workload)), encoding="utf-8")
        words = [python, "-I", str(CHECK), "--config", str(config), "--json", str(report), "--scratch", scratch]
        words += [word for group in groups for word in ("--only", group)] + (["--quick"] if quick else [])
        with (evidence.folder / f"check-{workload}.log").open("wb") as log:
            process = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            try:
                process.wait(max(1.0, limit))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(GRACE)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if not report.exists():
            evidence.ran(name, began, f"no report (status {process.returncode}): see check-{workload}.log")
            return
        found = json.loads(report.read_text(encoding="utf-8"))
    evidence.write(name, {**found, "evidence": "machine"})
    evidence.ran(name, began, found["summary"]["headline"])


def figures() -> list[dict[str, Any]]:
    """What NVML says of each GPU. Raises OSError where there is no NVML."""
    sys.path.insert(0, str(CHECK))
    from envspec_check.nvml import Nvml

    nvml = Nvml()
    rows = []
    for device, (name, capability) in zip(nvml.devices(), nvml.gpus(), strict=False):
        told = {key: nvml.number(function, device, *given) for key, (function, given) in FIGURES.items()}
        rows.append(
            {
                "name": name,
                "capability": capability,
                "driver": nvml.driver(),
                "busy, %": nvml.utilisation(device),
                **told,
            }
        )
    return rows


def tell_figures() -> None:
    """Answer each line of stdin with the figures, as one line of JSON; none where there is no NVML."""
    for _ in sys.stdin:
        try:
            print(json.dumps(figures()), flush=True)
        except (OSError, AttributeError) as error:
            print(json.dumps(str(error)), flush=True)


class Watch:
    """NVML in a process of its own, which holds it open from the first look to the last: so the driver stays awake in
    between, also where there is no persistence mode, and one that hangs ends nothing."""

    def __init__(self) -> None:
        words = [sys.executable, __file__, "--figures"]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.ready = select.poll()  # `select.select` takes no descriptor above 1023
        self.ready.register(self.process.stdout, select.POLLIN)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def look(self) -> list[dict[str, Any]] | str:
        """The figures of each GPU, or why there are none."""
        assert self.process.stdin and self.process.stdout
        line = ""
        with contextlib.suppress(OSError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            if self.ready.poll(SMI * 1000):
                line = self.process.stdout.readline()
        if not line:
            self.process.kill()
        found: list[dict[str, Any]] | str = json.loads(line) if line else f"NVML gave no answer in {SMI:g} s"
        return found


def ask_smi() -> list[dict[str, str]] | str:
    """Start nvidia-smi, once. The figures, or why there are none."""
    if not shutil.which("nvidia-smi"):
        return "there is no nvidia-smi"
    words = ["nvidia-smi", f"--query-gpu={','.join(FIELDS)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SMI)
    except subprocess.TimeoutExpired:
        return f"nvidia-smi gave no answer in {SMI:g} s"
    if done.returncode:
        return (done.stdout + done.stderr).strip().rpartition("\n")[2]
    return [dict(zip(FIELDS, map(str.strip, line.split(",")), strict=False)) for line in done.stdout.splitlines()]


def look(evidence: Evidence, watch: Watch, when: str) -> None:
    """Keep what NVML says of each GPU; before, where Python can't load it, what nvidia-smi says."""
    began, name = time.monotonic(), f"nvml-{when}.json"
    rows: list[dict[str, Any]] | str = watch.look()
    if isinstance(rows, str) and "libnvidia-ml" in rows and when == "before":
        rows = ask_smi()
    if isinstance(rows, str):
        evidence.ran(name, began, f"left out: {rows}")
        return
    evidence.write(name, rows)
    evidence.ran(name, began, f"{len(rows)} GPUs")


def plan(asked: argparse.Namespace, torch: dict[str, Any]) -> Iterator[str]:
    """What runs, with what, for how long, and what is downloaded."""
    gpus = f"{len(torch['gpus'])} GPU: {', '.join(torch['gpus'])}" if torch["gpus"] else "no GPU: on the CPU"
    yield f"plan: torch {torch['torch']} of {asked.python}, {gpus}; nothing is downloaded for it"
    yield f"  {', '.join(WORKLOADS)}: within {asked.minutes:g} min, {FIRST_SHARE:.0%} of it for the first"
    if asked.lock:
        yield f"  then {asked.lock}, without a limit: envspec smoke says what it downloads and how long it took before"


def envspec(evidence: Evidence, python: str, name: str, *words: str) -> None:
    """Keep what a command of this envspec says, by the first interpreter that has what it needs."""
    began = time.monotonic()
    told = "left out: no time was left"
    for interpreter in own_pythons(python):
        if evidence.left < 1:
            break
        try:
            done = subprocess.run(
                [interpreter, "-m", "envspec", *words],
                capture_output=True,
                text=True,
                timeout=max(1.0, evidence.left),
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        except subprocess.TimeoutExpired:
            told = "it gave no answer in time"
            continue
        if done.stdout.lstrip().startswith("{"):
            evidence.write(name, done.stdout)
            told = f"status {done.returncode}"
            break
        told = f"status {done.returncode}: {done.stderr.strip().rpartition(chr(10))[2]}"
    evidence.ran(name, began, told)


def locked(evidence: Evidence, python: str, lock: str, quick: bool) -> bool:
    """Make the lock's own environment and run the check there: that is evidence. Whether it passed."""
    began, (spec, _, target) = time.monotonic(), lock.partition(":")
    own = ROOT / ".venv" / "bin" / "python"
    words = [str(own) if own.exists() else python, "-m", "envspec", "smoke", spec, "-o", str(evidence.folder / "lock")]
    words += (["--target", target] if target else []) + (
        ["--quick"] if quick else ["--evidence", str(ROOT / "docs" / "evidence")]
    )
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)})
    evidence.ran(f"lock {lock}", began, f"status {done.returncode}")
    return done.returncode == 0


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-o", "--output", type=Path, help="the folder that everything goes to")
    parser.add_argument("--plan", action="store_true", help="print the plan and end")
    parser.add_argument("--figures", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has torch")
    parser.add_argument("--minutes", type=float, default=8.0, help="for all but --lock")
    parser.add_argument("--quick", action="store_true", help="shorter checks")
    parser.add_argument("--lock", metavar="SPEC[:TARGET]", help="also the environment of a lock: needs an index")
    asked = parser.parse_args(words)
    if asked.figures:
        tell_figures()
        return 0
    began = time.monotonic()
    torch = probe(asked.python)
    print("\n".join(plan(asked, torch)), file=sys.stderr, flush=True)
    if asked.plan:
        return 0
    if asked.output is None:
        parser.error("-o DIR is missing: the folder that everything goes to")
    asked.output.mkdir(parents=True, exist_ok=True)
    evidence = Evidence(asked.output, began + 60 * asked.minutes)
    with Watch() as watch:
        look(evidence, watch, "before")
        for workload in WORKLOADS:
            check(evidence, asked.python, torch, workload, asked.quick)
        look(evidence, watch, "after")
    envspec(evidence, asked.python, "doctor.json", "doctor", "--json")
    envspec(evidence, asked.python, "inspect.json", "inspect", torch["folder"], "--json")
    proved = not asked.lock or locked(evidence, asked.python, asked.lock, asked.quick)
    reports = [json.loads(path.read_text(encoding="utf-8")) for path in asked.output.glob("check-*.json")]
    complete = sum(one["complete"] for one in reports) == len(WORKLOADS)
    about = {key: torch[key] for key in ("torch", "cuda", "architectures")}
    evidence.write(
        "machine.json",
        {
            "kind": "envspec-machine-evidence",
            "means": "machine evidence, not the lock: the torch that the machine had",
            "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "seconds": round(time.monotonic() - began, 1),
            "torch": about,
            "gpus": bool(torch["architectures"]),
            "complete": complete,
            "steps": evidence.steps,
        },
    )
    if not torch["architectures"]:
        print("no GPU here: these reports say what the check does on a CPU", file=sys.stderr)
    if not complete:
        print("time ran out: --minutes gives more, --quick asks for less", file=sys.stderr)
    return 0 if complete and proved and not any(one["summary"]["failed"] for one in reports) else 1


if __name__ == "__main__":
    sys.exit(main())
