"""One check after the other, each in its process, and the end of whatever they leave."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any, Callable

from envspec_check.import_failures import import_remedy
from envspec_check.interface import TIMEOUT, Check, Context, Outcome, failed, start
from envspec_check.patience import Patience
from envspec_check.process import LAST_CHARACTERS, ending, last_words, outcome_of

TOKEN = "ENVSPEC_CHECK_TOKEN"
"""In the environment of all processes of a run, so that those which left their session are found too."""

PATIENCE = 30.0
"""Seconds in which a host answers, or its end is waited for. What waits in the kernel for a GPU, a disk or a network
file system ends by no signal."""


TOLD_EACH = 1.0
"""Seconds between two looks at what a check says, where a terminal shows it."""


class Gone(Exception):
    """The host is gone or doesn't answer."""


class Host:
    """A process that forks one for each check."""

    def __init__(self, context: Path, with_torch: bool, program: str, log: Path, token: str) -> None:
        command = [sys.executable, program, "--internal", "host", str(context), "torch" if with_torch else "plain"]
        with open(str(log), "wb") as errors:
            env = {**os.environ, TOKEN: token}
            self.process = start(command, env, "/", stdin=subprocess.PIPE, stderr=errors, session=True)
        self.ready = select.poll()  # `select.select` takes no descriptor above 1023
        self.ready.register(self.process.stdout, select.POLLIN)
        self.buffer = b""

    def start(self, timeout: float) -> None:
        """Wait until it can fork. Raises Gone when it can't."""
        if not self.read(Patience(self.process.pid, timeout)).get("ready"):
            raise Gone(f"hadn't started after {timeout:g} s")

    def read(self, patience: Patience, meanwhile: Callable[[], None] | None = None) -> dict[str, Any]:
        """Return the next reply; an empty one when there is none in time. `meanwhile` is called now and then. Raises
        Gone."""
        assert self.process.stdout
        while b"\n" not in self.buffer:
            ready = self.ready.poll(min(TOLD_EACH, patience.limit) * 1000)
            if not ready and patience.over():
                return {}
            if not ready:
                if meanwhile:
                    meanwhile()
                continue
            read = os.read(self.process.stdout.fileno(), 65536)
            if not read:
                status = self.process.wait()
                raise Gone(ending(-status if status < 0 else status << 8))
            self.buffer += read
        line, _, self.buffer = self.buffer.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def send(self, **job: Any) -> None:
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            raise Gone(ending(self.process.wait())) from None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if stream:
                    stream.close()


class Runner:
    """Runs checks one after the other, each in its process, and ends whatever they leave."""

    def __init__(self, ctx: Context, folder: Path) -> None:
        self.ctx, self.folder = ctx, folder
        self.watch: Callable[[str, str], None] | None = None
        self.token = uuid.uuid4().hex
        self.hosts: dict[bool, Host] = {}
        self.running: int | None = None
        self.log = folder / "host.log"
        self.context = folder / "context.json"
        self.context.write_text(json.dumps(ctx.as_json()), encoding="utf-8")

    def run(self, check: Check, device: str, gpus: int) -> tuple[Outcome, str | None, int | None]:
        """Run a check. Gives its outcome, the end of its output if it failed, and its peak memory in bytes."""
        scratch, output = self.folder / check.name, self.folder / (check.name + ".log")
        scratch.mkdir()
        status, memory, answer, stuck = None, None, None, False
        limit = self.ctx.timeout
        try:
            at_work = self.host(check.torch)
            at_work.send(name=check.name, scratch=str(scratch), output=str(output), device=device, gpus=gpus)
            self.running = at_work.read(Patience(at_work.process.pid, PATIENCE)).get("pid")
            if self.running is None:
                raise Gone(f"gave no process for {PATIENCE:g} s")
            patience = Patience(self.running, limit)
            ended = at_work.read(patience, self.watch and functools.partial(self.tell, check.name, output))
            if ended:
                status, memory, answer = ended["status"], ended["memory"], ended["answer"]
            else:
                self.end_running()
                ended = at_work.read(Patience(at_work.process.pid, PATIENCE))
                memory, stuck = ended.get("memory"), not ended
            if stuck:  # the host waits for that process, so the next check gets another
                self.hosts.pop(check.torch).close()
        except Gone as gone:
            words = self.log.read_text(encoding="utf-8", errors="replace")
            self.hosts.pop(check.torch).close()
            reason = f"the process that checks are forked from {gone}"
            return failed(reason, "the end of its output may say why"), words, None
        finally:
            self.end_running()
        outcome = outcome_of(status, answer, limit, stuck)
        words = output.read_bytes()[-4 * LAST_CHARACTERS :].decode("utf-8", "replace") if output.exists() else ""
        shutil.rmtree(str(scratch), ignore_errors=True)
        return outcome, last_words(words) if outcome.status == "fail" else None, memory

    def tell(self, name: str, output: Path) -> None:
        """Hand on the last line of the check that runs."""
        words = output.read_bytes()[-LAST_CHARACTERS:].decode("utf-8", "replace") if output.exists() else ""
        if self.watch and words.strip():
            self.watch(name, words.strip().splitlines()[-1])

    def host(self, with_torch: bool) -> Host:
        """Return the host of a kind, started where there is none. Raises Gone when it can't be."""
        if with_torch not in self.hosts:
            self.hosts[with_torch] = Host(self.context, with_torch, self.ctx.program, self.log, self.token)
            self.hosts[with_torch].start(max(self.ctx.timeout, TIMEOUT))
        return self.hosts[with_torch]

    def import_torch(self) -> tuple[Outcome, str | None] | None:
        """Start the host that imports torch. What is wrong, with the end of its output, when it can't."""
        try:
            self.host(True)
        except Gone as gone:
            self.hosts.pop(True).close()
            self.sweep()
            words = last_words(self.log.read_text(encoding="utf-8", errors="replace"))
            named = re.findall(r"^[\w.]+(?:Error|Exception)\b.*", words or "", re.MULTILINE)
            why = named[-1] if named else f"the process that imports it {gone}"
            remedy = "see whether static.files and static.library_path tell why; else install torch again"
            return failed(f"torch can't be imported: {why}", import_remedy(why) or remedy), words
        return None

    def end_running(self) -> None:
        """End the check that runs, its session, and what left that."""
        if self.running is not None:
            for end in (os.killpg, os.kill):
                with contextlib.suppress(OSError):
                    end(self.running, signal.SIGKILL)
            self.running = None
            self.sweep()

    def sweep(self) -> None:
        """End all processes of this run but the hosts."""
        own = {os.getpid(), *(host.process.pid for host in self.hosts.values())}
        mark = (f"{TOKEN}={self.token}").encode()
        for name in filter(str.isdigit, os.listdir("/proc")):
            if int(name) not in own:
                with contextlib.suppress(OSError):
                    with open(f"/proc/{name}/environ", "rb") as file:
                        ours = mark in file.read()
                    if ours:
                        os.kill(int(name), signal.SIGKILL)

    def close(self) -> None:
        self.end_running()
        for host in self.hosts.values():
            host.close()
        self.hosts.clear()
        self.sweep()
