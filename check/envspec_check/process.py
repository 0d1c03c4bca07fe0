"""The processes that checks run in.

The parent never imports torch. It starts a host, which imports torch once and forks a process for each check: torch's
import costs seconds, a fork milliseconds, and a process forked from one that only imported is as good as new.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import functools
import importlib
import json
import math
import mmap
import os
import signal
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Iterator, Tuple

from envspec_check.failures import KILLED, explain, in_words, root_cause
from envspec_check.interface import Check, Context, Fault, Outcome, Skip, failed
from envspec_check.machine import SHM_REMEDY, probe

PRELOADED = ("torch.distributed", "torch._dynamo", "sympy")
"""What torch imports late, at the first optimizer or gradient: seconds that every check would pay anew."""

LAST_LINES, LAST_CHARACTERS = 40, 6000

ANSWER_BYTES = 64 << 20


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


def die_with_parent(parent: int | None = None) -> None:
    """The kernel ends this process when its parent is gone. `parent` is who forked it, and may be gone already."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if parent is not None and os.getppid() != parent:
        os._exit(1)


class Answer:
    """The answer of a forked process to its parent, in memory that both have, since a disk may be full."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, ANSWER_BYTES)  # takes no more than what is written to it

    def leave(self, value: Any) -> None:
        text = json.dumps(value).encode()
        if len(text) > ANSWER_BYTES - 8:
            text = json.dumps({"error": "its answer has %d bytes: ask for fewer steps" % len(text)}).encode()
        self.memory[8 : 8 + len(text)] = text
        self.memory[:8] = len(text).to_bytes(8, "big")

    def take(self) -> dict[str, Any]:
        """Return the answer that was left; empty without one."""
        size = int.from_bytes(self.memory[:8], "big")
        left: dict[str, Any] = json.loads(self.memory[8 : 8 + size]) if size else {}
        self.memory.close()
        return left


def fork(work: Callable[[], Any]) -> Tuple[int, Answer]:
    """Begin a piece of work in a process forked from this one, which ends with it. Its number, and where it answers
    with {"value": what the work gave} or {"error": why it gave nothing, "cause": what that began with}."""
    parent, answer = os.getpid(), Answer()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        with Leaving():
            die_with_parent(parent)
            try:
                answer.leave({"value": work()})
            except Exception as error:
                answer.leave({"error": in_words(error), "cause": root_cause(error)})
                raise
    return pid, answer


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """No handler hears of children that end in here: for giving some up, which is to kill them and wait for them.

    torch's DataLoader has a handler of SIGCHLD that raises, in the middle of whatever runs, that a worker was killed:
    that would be told in the place of why it was given up.
    """
    heard = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, heard)


def give_up(pid: int) -> None:
    """Kill a forked process that was waited for long enough."""
    with unheard():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def finite(value: Any) -> Any:
    """Return a value that JSON can hold: NaN and the infinities become None, what JSON doesn't know its text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): finite(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(part) for part in value]
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def write_whole(path: str, text: str) -> None:
    """Write a file whole or not at all. Raises OSError."""
    staged = "%s.%d" % (path, os.getpid())
    with open(staged, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(text)
    os.replace(staged, path)


def ending(status: int) -> str:
    """Describe the end of a process by its wait status."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        try:
            name = signal.Signals(number).name
        except ValueError:
            name = "signal %d" % number
        words = {**dict.fromkeys(("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"), "crashed"), "SIGABRT": "aborted"}
        return "{} ({})".format(words.get(name, "was killed"), name)
    return "ended with status %d" % os.WEXITSTATUS(status)


def last_words(text: str) -> str | None:
    """Return the end of a process's output."""
    return "\n".join(text.splitlines()[-LAST_LINES:])[-LAST_CHARACTERS:].strip() or None


def outcome_of(status: int | None, answer: Any, limit: float, stuck: bool = False) -> Outcome:
    """Return a process's outcome, by its end (None: it was ended after its time; `stuck`: it couldn't be) and by the
    answer that it left."""
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
        return failed(*explain(answer["error"]))
    if isinstance(answer, dict) and not status:
        figures = [(str(name), value, str(unit)) for name, value, unit in answer["figures"]]
        return Outcome(**{**answer, "figures": figures})
    if not status:
        return failed("it ended without an answer", "the check called exit")
    return failed(f"it {ending(status)}, without an answer", "the end of its output may say why")


def run_check(check: Check, ctx: Context) -> Any:
    """Run a check in this process. Gives its outcome, as JSON can hold it, or {"error": why there is none}."""
    try:
        outcome = check.run(ctx)
    except (Fault, Skip) as raised:
        outcome = raised.outcome
    except Exception as error:  # noqa: BLE001, whatever it is, it is this check's
        with contextlib.suppress(OSError):  # what it prints may go to a full disk
            traceback.print_exc()
        return {"error": in_words(error)}
    return finite(outcome._asdict())


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
        pid, answer = fork(functools.partial(_run_job, ctx, checks, job))
        _reply(replies, pid=pid)
        _, status, usage = os.wait4(pid, 0)
        _reply(replies, status=status, memory=usage.ru_maxrss * 1024, answer=answer.take().get("value"))
    return 0


def _reply(replies: Any, **values: Any) -> None:
    replies.write(json.dumps(values) + "\n")
    replies.flush()


def _run_job(ctx: Context, checks: dict[str, Check], job: dict[str, Any]) -> Any:
    os.setsid()
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # where memory runs out, this is what should go
    scratch = Path(job["scratch"])
    output = os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for number, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(number, target)
    faulthandler.enable()
    os.chdir(str(scratch))
    check = checks[job["name"]] if job["name"] in checks else Check("probe", probe, None, True)
    return run_check(check, replace(ctx, scratch=scratch, device=job["device"], gpus=job["gpus"]))
