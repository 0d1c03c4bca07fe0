"""The command line."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Sequence

from envspec_check.beside import Beside
from envspec_check.environment import FOLDER
from envspec_check.interface import (
    CHECKS,
    GROUPS,
    INTERNAL,
    QUICK_STEPS,
    STEPS,
    TIMEOUT,
    WORKLOAD_NAMES,
    WORKLOADS,
    Check,
    Context,
    Unreadable,
)
from envspec_check.lock import read_target, slice_digest
from envspec_check.machine import usable_cpus
from envspec_check.process import finite, host, write_whole
from envspec_check.report import Progress, junit
from envspec_check.runner import Runner
from envspec_check.session import Session


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="envspec-check", description="Ask an environment whether it works.")
    parser.add_argument(
        "--config", required=True, metavar="FILE", help="target.json: the target's packages, workload, references"
    )
    parser.add_argument("--workload", choices=WORKLOAD_NAMES, help="what is trained (target.json, else basic)")
    parser.add_argument(
        "--steps", type=whole(1), metavar="N", help="steps of a training (target.json, else %d)" % STEPS
    )
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--quick", action="store_true", help="smaller and fewer")
    parser.add_argument("--deep", action="store_true", help="read every file, however large; compile what has to be")
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="the report; - writes it to stdout")
    parser.add_argument("--junit", metavar="FILE", help="the report as JUnit XML")
    parser.add_argument("--only", action="append", choices=GROUPS, metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--timeout", type=whole(1), default=TIMEOUT, metavar="SECONDS", help="of each check")
    parser.add_argument("--scratch", metavar="DIR", help="where temporary files go")
    return parser.parse_args(words)


def whole(least: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not re.fullmatch(r"\d{1,18}", text) or int(text) < least:
            raise argparse.ArgumentTypeError("%r is no whole number from %d" % (text, least))
        return int(text)

    return number


def load_config(path: str) -> dict[str, Any]:
    """target.json. Raises Unreadable."""
    try:
        config = read_target(path)
    except (OSError, ValueError) as error:
        raise Unreadable("{} can't be read: {}".format(path, getattr(error, "strerror", None) or error)) from None
    if not isinstance(config, dict) or config.get("schema") != 2:
        raise Unreadable(f"{path} is no target.json that this check knows (schema 2)")
    lock, target = config.get("lock"), config.get("target")
    if not isinstance(lock, dict) or lock.get("lock-version") != 5 or target not in (lock.get("targets") or {}):
        raise Unreadable(f"{path} has no slice of a lock that this check knows (lock-version 5)")
    if config.get("lock_digest") != slice_digest(lock):
        raise Unreadable(f"{path} was changed: its slice of the lock has another digest than it says")
    if config.get("workload") not in (None, *WORKLOAD_NAMES):
        raise Unreadable("{} has no workload that this check knows: {}".format(path, config["workload"]))
    if "base" in config:
        packages = config["base"]["packages"]
        # what the base has counts as locked from here on
        lock["provided"] = [{"name": name, "version": packages[name]} for name in sorted(packages)]
    return config


def context_of(options: argparse.Namespace, program: str) -> Context:
    """Return the Context of the command line. Raises Unreadable."""
    config = load_config(options.config)
    workload = options.workload or config.get("workload") or "basic"
    if WORKLOADS and workload not in WORKLOADS:  # tests have tables without any
        here = ", ".join(WORKLOADS)
        raise Unreadable(f"the workload {workload} isn't here: this copy was exported for targets that train {here}")
    steps = options.steps or config.get("steps") or STEPS
    if options.quick and not options.steps:
        steps = min(steps, QUICK_STEPS)
    return Context(
        config=config,
        device=options.device,
        workload=workload,
        steps=steps,
        quick=options.quick,
        deep=options.deep,
        seed=options.seed,
        timeout=options.timeout,
        scratch=Path(),
        program=os.path.abspath(program),
    )


def write_reports(options: argparse.Namespace, report: dict[str, Any]) -> None:
    """Write the reports. Raises OSError."""
    text = json.dumps(finite(report), indent=1) + "\n"
    if options.json == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    elif options.json:
        write_whole(options.json, text)
    if options.junit:
        write_whole(options.junit, junit(report))


def interrupt(*_: object) -> None:
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(name, signal.SIG_IGN)  # Slurm tells twice; the second time would cost the report
    raise KeyboardInterrupt


def main(words: Sequence[str] | None = None, table: dict[str, Check] = CHECKS, program: str = FOLDER) -> int:
    """The program. `table` are the checks and `program` the folder or file that their processes start, which must call
    this."""
    words = sys.argv[1:] if words is None else words
    if words[:1] == ["--internal"]:
        ctx = Context.load(words[2])
        if words[1] == "host":
            return host(ctx, table, words[3] == "torch")
        return INTERNAL[words[1]](ctx, *words[3:])
    options = arguments(words)
    try:
        ctx = context_of(options, program)
    except Unreadable as error:
        sys.stderr.write(f"envspec-check: error: {error}\n")
        return 2
    os.environ.setdefault("OMP_NUM_THREADS", str(min(16, usable_cpus())))
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # threads that spin make a shared machine slower by far
    os.environ.update(TORCHINDUCTOR_COMPILE_THREADS="1", PYTHONFAULTHANDLER="1")
    if options.quick:
        # torch.compile would build and start a program for each instruction set of the CPU, in a new interpreter.
        os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(name, interrupt)
    try:
        folder = Path(tempfile.mkdtemp(prefix="check-", dir=options.scratch and os.path.abspath(options.scratch)))
    except OSError as error:
        sys.stderr.write(f"envspec-check: error: no folder for temporary files: {error}\n")
        return 2
    os.environ.update(TORCHINDUCTOR_CACHE_DIR=str(folder / "inductor"), TRITON_CACHE_DIR=str(folder / "triton"))
    runner, ended = Runner(ctx, folder), True
    beside = None
    if usable_cpus() > 1:
        (folder / "beside").mkdir()
        beside = Beside(Runner(ctx, folder / "beside"))
    session = Session(ctx, table, options.only or (), runner, beside)
    progress = Progress([check.name for check in session.table], sys.stderr)
    if progress.live:
        runner.watch = progress.running
    try:
        session.run(progress)
    except KeyboardInterrupt:
        ended = False
    finally:
        runner.close()
        if beside:
            beside.close()
        shutil.rmtree(str(folder), ignore_errors=True)
    report = session.report(ended)
    try:
        write_reports(options, report)
    except OSError as error:
        sys.stderr.write(f"envspec-check: error: the report can't be written: {error}\n")
        return 2
    sys.stderr.write("{}\n".format(report["summary"]["headline"]))
    if not ended:
        return 130
    return 0 if report["summary"]["verdict"] == "pass" else 1
