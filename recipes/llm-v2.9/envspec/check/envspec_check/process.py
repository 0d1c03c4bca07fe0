"""The processes that checks run in.

The parent never imports torch. It starts a host, which imports torch once and forks a process for each check: torch's
import costs seconds, a fork milliseconds, and a process forked from one that only imported is as good as new.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import json
import math
import os
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from envspec_check.interface import Check, Context, Fault, Outcome, Skip, failed
from envspec_check.machine import SHM_REMEDY, probe

PRELOADED = ("torch.distributed", "torch._dynamo", "sympy")
"""What torch imports late, at the first optimizer or gradient: seconds that every check would pay anew."""

LAST_LINES, LAST_CHARACTERS = 40, 6000

KILLED = "give it more memory (sbatch --mem, docker run --memory), or see what else uses the machine's"


class Leaving(contextlib.AbstractContextManager):  # type: ignore[type-arg]
    """The end of a forked process: it never returns to what its parent would go on with."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        code = 0
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else int(error.code is not None)
        elif error is not None:
            traceback.print_exception(type(error), error, error.__traceback__)
            code = 1
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def die_with_parent() -> None:
    """The kernel ends this process when its parent is gone."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)


def finite(value: Any) -> Any:
    """A value that JSON can hold: NaN and the infinities become None, what JSON doesn't know its text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def write_whole(path: str, text: str) -> None:
    """Write a file whole or not at all. Raises OSError."""
    staged = "%s.%d" % (path, os.getpid())
    with open(staged, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    os.replace(staged, path)


def ending(status: int) -> str:
    """How a process ended, by what wait gave."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = "signal %d" % number
        said = {
            "SIGSEGV": "crashed",
            "SIGBUS": "crashed",
            "SIGABRT": "aborted",
            "SIGFPE": "crashed",
            "SIGILL": "crashed",
        }
        return "{} ({})".format(said.get(name, "was killed"), name)
    return "ended with status %d" % os.WEXITSTATUS(status)


def last_words(text: str) -> str | None:
    """The end of what a process said."""
    return "\n".join(text.splitlines()[-LAST_LINES:])[-LAST_CHARACTERS:].strip() or None


def outcome_of(status: int | None, answer: Any, limit: float, stuck: bool = False) -> Outcome:
    """What a process found, by how it ended (None: it was ended after its time; `stuck`: it couldn't be) and the answer
    that it left."""
    if stuck:
        remedy = "dmesg may name the GPU, the disk or the network file system that it waits for in the kernel"
        return failed(f"it hadn't ended after {limit:g} s, and can't be killed", remedy)
    if status is None:
        remedy = "the end of its output says where it hung; --timeout gives it longer"
        return failed(f"it hadn't ended after {limit:g} s, and was ended with all its processes", remedy)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGKILL:
            return failed("it was killed (SIGKILL): most likely memory ran out", KILLED)
        says = "the end of its output says where; run it under gdb for more"
        remedy = SHM_REMEDY if number == signal.SIGBUS else says
        return failed(f"it {ending(status)}", remedy)
    if isinstance(answer, dict) and "error" in answer:
        error = answer["error"]
        out_of = "MemoryError" in error or "out of memory" in error or "can't allocate memory" in error
        return failed(error, KILLED if out_of else None)
    if isinstance(answer, dict) and not status:
        figures = [(str(name), value, str(unit)) for name, value, unit in answer["figures"]]
        return Outcome(**{**answer, "figures": figures})
    if not status:
        return failed("it ended without an answer", "the check called exit")
    return failed(f"it {ending(status)}, without an answer", "the end of its output may say why")


def run_check(one: Check, ctx: Context) -> None:
    """Run a check in this process and leave its answer in its scratch folder."""
    answer: dict[str, Any]
    try:
        outcome = one.run(ctx)
        answer = outcome._asdict()
    except (Fault, Skip) as found:
        answer = found.outcome._asdict()
    except Exception as error:  # noqa: BLE001, whatever it is, it is this check's
        text = " ".join(str(error).strip().split("\n")[:1])
        answer = {"error": f"{type(error).__name__}: {text}" if text else type(error).__name__}
        traceback.print_exc()
    write_whole(str(ctx.scratch / "answer.json"), json.dumps(finite(answer)))


def host(ctx: Context, checks: dict[str, Check], with_torch: bool) -> int:
    """Import torch, then fork a process for each job that stdin asks for; tell its end on stdout. One JSON a line."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    die_with_parent()
    if with_torch:
        ctx.torch  # noqa: B018, imports it
        for name in PRELOADED:
            with contextlib.suppress(Exception):  # not every build has it; who needs it says so
                importlib.import_module(name)
    _reply(replies, ready=True)
    for line in sys.stdin:
        job = json.loads(line)
        pid = os.fork()
        if pid == 0:
            with Leaving():
                _run_job(ctx, checks, job)
        _reply(replies, pid=pid)
        _, status, usage = os.wait4(pid, 0)
        _reply(replies, status=status, memory=usage.ru_maxrss * 1024)
    return 0


def _reply(replies: Any, **values: Any) -> None:
    replies.write(json.dumps(values) + "\n")
    replies.flush()


def _run_job(ctx: Context, checks: dict[str, Check], job: dict[str, Any]) -> None:
    os.setsid()
    die_with_parent()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory runs out, this is what should go
    scratch = Path(job["scratch"])
    output = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(number, target)
    faulthandler.enable()
    os.chdir(str(scratch))
    one = checks[job["name"]] if job["name"] in checks else Check("probe", probe, None, True)
    run_check(one, replace(ctx, scratch=scratch, device=job["device"], gpus=job["gpus"]))
