"""A check: a function from a Context to an Outcome, put into the table by `@check` (CONTRIBUTING.md)."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from envspec_check.environment import BASE
from envspec_check.lock import FRAMEWORKS
from envspec_check.patience import Patience

GROUPS = (
    *("static", "device", "operators", "training", "determinism"),
    *("compile", "dataloader", "collectives", "stack"),
    *("jax", "tensorflow", "onnxruntime", "cupy", "rapids", "together"),
    "figures",
)

WORKLOAD_NAMES = ("basic", "multimodal", "llm", "deit", "dynamic")

STEPS, QUICK_STEPS = 50, 20

TIMEOUT = 180.0
"""Seconds that one check may take, unless --timeout says otherwise; on a busy machine more (`Patience`)."""

MIB = 1 << 20


class Fault(Exception):
    """Fails the check that it comes out of."""

    def __init__(self, reason: str, remedy: str | None = None, **more: Any) -> None:
        super().__init__(reason)
        self.outcome = failed(reason, remedy, **more)


class Skip(Exception):
    """Skips the check that it comes out of."""

    def __init__(self, reason: str, **more: Any) -> None:
        super().__init__(reason)
        self.outcome = skipped(reason, **more)


class Outcome(NamedTuple):
    """The outcome of a check. `figures` are (name, value, unit); `curves` have the loss of each step."""

    status: str
    reason: Optional[str] = None
    remedy: Optional[str] = None
    details: Dict[str, Any] = {}
    figures: Sequence[Tuple[str, float, str]] = ()
    curves: Dict[str, List[float]] = {}
    slow: Sequence[str] = ()


def passed(**more: Any) -> Outcome:
    return Outcome("pass", **more)


def failed(reason: str, remedy: str | None = None, **more: Any) -> Outcome:
    return Outcome("fail", reason, remedy, **more)


def skipped(reason: str, **more: Any) -> Outcome:
    return Outcome("skip", reason, **more)


class Ended(NamedTuple):
    """The end of a process: its exit status, negative for a signal, and its output."""

    code: int
    output: str


def start(
    command: Sequence[str],
    env: Mapping[str, str],
    folder: str,
    *,
    stdin: int = subprocess.DEVNULL,
    stderr: Any,
    session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program, as every one of the check's is: in a folder of the check's own, or at the root."""
    return subprocess.Popen(
        command, env=env, cwd=folder, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, start_new_session=session
    )


def run_program(
    command: Sequence[str],
    env: Mapping[str, str],
    folder: str,
    timeout: float | None,
    late: Exception,
    stderr: int = subprocess.STDOUT,
) -> Ended:
    """Start a program and wait for it. Raises `late` when it takes longer than `timeout` seconds (see `Patience`)."""
    with start(command, env, folder, stderr=stderr) as process:
        patience = Patience(process.pid, timeout or math.inf)
        while True:
            try:
                output, _ = process.communicate(timeout=min(1.0, timeout or 1.0))
                break
            except subprocess.TimeoutExpired as error:
                if patience.over():
                    process.kill()
                    print((error.stdout or b"").decode("utf-8", "replace"))
                    raise late from None
            except BaseException:
                process.kill()
                raise
    return Ended(process.returncode, output.decode("utf-8", "replace"))


@dataclass(frozen=True)
class Context:
    """The case of a check.

    config   what target.json says; `lock` is the target's slice of envspec.lock in it, `target` its table of the target
    scratch  a folder of this check's own, empty at its start and gone afterwards
    gpus     how many GPUs torch sees and the checks may use; 0 on a CPU
    timeout  seconds that the check has
    program  the folder or file that new processes start
    deep     whether it may take minutes: every file is read, and what has to be compiled is
    """

    config: dict[str, Any]
    device: str
    workload: str
    steps: int
    quick: bool
    seed: int
    timeout: float
    scratch: Path
    program: str
    gpus: int = 0
    deep: bool = False

    def __post_init__(self) -> None:
        BASE[:] = [self.config["base"]["root"]] if "base" in self.config else []

    @property
    def target_name(self) -> str:
        return str(self.config["target"])

    @property
    def lock(self) -> dict[str, Any]:
        lock: dict[str, Any] = self.config["lock"]
        return lock

    @property
    def target(self) -> dict[str, Any]:
        """The target's table in the lock, with the stricter GPUs and driver that the facts gave when this was
        exported."""
        table: dict[str, Any] = self.lock["targets"][self.target_name]
        stricter = {"architectures": self.config.get("architectures"), "driver-floor": self.config.get("driver_floor")}
        return {**table, **{key: value for key, value in stricter.items() if value}}

    @property
    def torch(self) -> Any:
        return importlib.import_module("torch")

    @property
    def torch_device(self) -> Any:
        return self.torch.device(self.device)

    def synchronize(self) -> None:
        """Wait until the GPU has done what it was given."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def again(self, name: str, *args: str) -> list[str]:
        """Return the command line that runs an internal command with the same Context."""
        path = self.scratch / (f"context-{uuid.uuid4().hex[:8]}.json")
        path.write_text(json.dumps(self.as_json()), encoding="utf-8")
        return [sys.executable, self.program, "--internal", name, str(path), *args]

    def run_again(
        self, name: str, *args: str, env: dict[str, str] | None = None, timeout: float | None = None
    ) -> Ended:
        """Run an internal command in a new process and wait for it. `env` comes over this process's environment.

        Raises Fault when it takes longer than `timeout` seconds.
        """
        late = Fault(f"a new process ({name}) hadn't ended after {timeout or 0:g} s")
        return run_program(self.again(name, *args), {**os.environ, **(env or {})}, str(self.scratch), timeout, late)

    def as_json(self) -> dict[str, Any]:
        return {**self.__dict__, "scratch": str(self.scratch)}

    @classmethod
    def load(cls, path: str) -> Context:
        values = json.loads(Path(path).read_text(encoding="utf-8"))
        return cls(**{**values, "scratch": Path(values["scratch"])})


class Check(NamedTuple):
    """A line of the table. `needs`: "gpu", "driver" or None."""

    name: str
    run: Callable[[Context], Outcome]
    needs: Optional[str]
    torch: bool

    @property
    def group(self) -> str:
        return self.name.partition(".")[0]

    @property
    def framework(self) -> Optional[str]:
        """The framework that it's of, or `together`. None: it needs none of them."""
        return self.group if self.group in (*FRAMEWORKS, "together") else "torch" if self.torch else None


CHECKS: Dict[str, Check] = {}

INTERNAL: Dict[str, Callable[..., int]] = {}

WORKLOADS: Dict[str, Any] = {}

REFERENCE_ONLY: Dict[str, Any] = {}
"""What is trained by `training.reference` alone."""


def check(
    name: str, needs: str | None = None, torch: bool = True, table: dict[str, Check] = CHECKS
) -> Callable[[Callable[[Context], Outcome]], Callable[[Context], Outcome]]:
    """Put a check into the table."""

    def put(function: Callable[[Context], Outcome]) -> Callable[[Context], Outcome]:
        table[name] = Check(name, function, needs, torch)
        return function

    return put


def internal(name: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Make a function something that `Context.run_again` can start."""

    def put(function: Callable[..., int]) -> Callable[..., int]:
        INTERNAL[name] = function
        return function

    return put


def workload(name: str, table: dict[str, Any] = WORKLOADS) -> Callable[[Any], Any]:
    """Put a workload into a table."""

    def put(made: Any) -> Any:
        table[name] = made
        return made

    return put


class Unreadable(Exception):
    """An input that can't be used: exit status 2."""


def some(texts: Sequence[str], limit: int = 5) -> str:
    """Return the first few of many, on one line."""
    more = len(texts) - limit
    return "; ".join(texts[:limit]) + ("; and %d more" % more if more > 0 else "")
