"""Several nodes at once: collectives and DDP between them. torch, the standard library, Python 3.8, and beside it
the folder of the check.

Run by torchrun, one process a rank; rank 0 writes a report as the check does.

    torchrun --nnodes N --nproc-per-node G --node-rank I --master-addr ADDRESS --master-port PORT multi_node.py \\
        --config target.json --device auto|cuda|cpu --json check.json
"""

# ruff: noqa: UP006, UP035, UP045 -- Python 3.8 has no newer way

from __future__ import annotations

import argparse
import datetime
import functools
import importlib
import json
import os
import pathlib
import platform
import socket
import sys
import tempfile
import time
from typing import Any, Dict, Optional, Sequence, Tuple

SIZES = (4096, 1 << 20, 1 << 24)
"""Bytes that the all-reduces move."""
STEPS = 8
TIMEOUT = datetime.timedelta(minutes=5)

Outcome = Tuple[Optional[str], Dict[str, Any]]
"""Why it is wrong, None when it isn't, and details."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Collectives and DDP between the nodes of a torchrun.")
    parser.add_argument("--config", required=True)
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--json", required=True)
    options = parser.parse_args(argv)
    started, begin = datetime.datetime.now(datetime.timezone.utc), time.monotonic()
    torch: Any = importlib.import_module("torch")
    dist: Any = importlib.import_module("torch.distributed")
    collectives = the_check()

    with open(options.config, encoding="utf-8") as file:
        config = json.load(file)
    cuda = options.device == "cuda" or (options.device == "auto" and bool(config["cuda"]) and torch.cuda.is_available())
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
    logs = tempfile.TemporaryDirectory()
    if cuda:
        torch.cuda.set_device(device)
        the_fabric().listen(pathlib.Path(logs.name))
    dist.init_process_group("nccl" if cuda else "gloo", timeout=TIMEOUT)
    rank, world = dist.get_rank(), dist.get_world_size()
    nodes: list[Any] = [None] * world
    dist.all_gather_object(nodes, socket.gethostname())
    group_ranks: list[Any] = [None] * world
    dist.all_gather_object(group_ranks, int(os.environ["GROUP_RANK"]))
    checks: list[Any] = []
    figures: list[Any] = []
    details = {"ranks": world, "nodes": sorted(set(nodes)), "groups": len(set(group_ranks))}
    this_rank = importlib.import_module("envspec_check.ranks").Rank(torch, dist, rank, world, device.type)
    tests: Any = (("all_reduce", all_reduce), ("exchange", exchange), ("ddp", ddp))
    if cuda:
        tests = (*tests, ("fabric", lambda _: fabric(config, pathlib.Path(logs.name))))
    for name, function in tests:
        since = time.monotonic()
        reason, more = function(this_rank)
        every: list[Any] = [None] * world
        dist.all_gather_object(every, reason)
        failed = [f"rank {at}: {reason}" for at, reason in enumerate(every) if reason]
        needs_gpu = cuda or bool(config["cuda"])
        checks.append(check(name, needs_gpu, "; ".join(failed), time.monotonic() - since, dict(details, **more)))
    times, late = collectives.stragglers(collectives.own_seconds(this_rank))
    checks[0]["details"].update(times)
    checks[0]["slow"] = late if cuda or len(set(nodes)) > 1 else []  # on one CPU the ranks hold each other up
    card = card_here(torch, config) if cuda else None
    figure = functools.partial(reports().figure, references=config.get("references") or {}, card=card)
    for size, seconds in collectives.timed_all_reduce(this_rank, SIZES).items():
        figures.append(figure(f"multi_node.all_reduce_us.{size}", seconds * 1e6, "us"))
        figures.append(figure(f"multi_node.bus_gb_s.{size}", collectives.bus_gb_s(world, int(size), seconds), "GB/s"))
    if rank == 0:
        write(options.json, report(torch, config, cuda, started, time.monotonic() - begin, checks, figures))
    dist.barrier()
    dist.destroy_process_group()
    return 1 if any(result["status"] == "fail" for result in checks) else 0


def the_check() -> Any:
    """Import the check of collectives on one machine: its folder lies beside this file."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check")
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return importlib.import_module("envspec_check.checks.collectives")


def check_digest() -> str:
    digest: str = importlib.import_module("envspec_check.environment").check_digest()
    return digest


def reports() -> Any:
    return importlib.import_module("envspec_check.report")


def card_here(torch: Any, config: dict[str, Any]) -> Any:
    """The facts of this rank's card; None where the target knows none of its name."""
    facts = torch.cuda.get_device_properties(torch.cuda.current_device())
    card_of = importlib.import_module("envspec_check.machine").card_of
    return card_of(config.get("cards") or {}, facts.name, f"{facts.major}.{facts.minor}")


def the_fabric() -> Any:
    the_check()
    return importlib.import_module("envspec_check.fabric")


def fabric(config: dict[str, Any], logs: pathlib.Path) -> Outcome:
    """NCCL uses the InfiniBand or RoCE ports of this rank's node, where any are up."""
    outcome = the_fabric().judge(config, the_fabric().ports(), the_fabric().network_of(logs))
    message = ": ".join(filter(None, (outcome.reason, outcome.remedy)))
    return (message if outcome.status == "fail" else None), {**outcome.details, "told": message or None}


def all_reduce(rank: Any) -> Outcome:
    """Sums of integers are exact, whatever the order."""
    return the_check().all_reduce_exact(rank), {}


def exchange(rank: Any) -> Outcome:
    """Floats arrive as they were sent, by every collective, and are summed as they should be."""
    faults = the_check().exchange(rank)
    return "; ".join(faults["wrong"]) or None, {"without": faults["without"]}


def ddp(rank: Any) -> Outcome:
    """Ranks that train on data of their own end with the weights of one process with all of it, and a smaller loss."""
    results: list[Any] = [None] * rank.world
    rank.dist.all_gather_object(results, the_check().ddp_steps(rank))
    more = {
        "first_loss": results[0]["first"],
        "last_loss": results[0]["last"],
        "apart": max(each["apart"] for each in results),
    }
    return the_check().wrong_ddp(results), more


def check(name: str, needs_gpu: bool, reason: str, seconds: float, details: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": f"collectives.multi_node_{name}", "group": "collectives", "needs_gpu": needs_gpu,
        "status": "fail" if reason else "pass", "reason": reason or None, "remedy": None,
        "seconds": round(seconds, 3), "details": details, "slow": [], "output": None,
    }  # fmt: skip


def report(
    torch: Any,
    config: dict[str, Any],
    cuda: bool,
    started: datetime.datetime,
    seconds: float,
    checks: list[Any],
    figures: list[Any],
) -> dict[str, Any]:
    gpus = []
    for index in range(torch.cuda.device_count() if cuda else 0):
        facts = torch.cuda.get_device_properties(index)
        gpus.append(
            {"name": facts.name, "capability": f"{facts.major}.{facts.minor}", "memory_bytes": facts.total_memory}
        )
    slow = reports().slow_words(checks, figures)
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if cuda else None
    cudnn = torch.backends.cudnn.version() if cuda else None
    return {
        "schema": 1, "kind": "envspec-check", "spec": config["spec"], "target": config["target"],
        "lock_digest": config["lock_digest"], "fingerprint": config["fingerprint"], "workload": "multi-node",
        "check_digest": check_digest(),
        "steps": STEPS, "device": "cuda" if cuda else "cpu", "cuda": config["cuda"], "quick": False, "seed": 0,
        "complete": True,
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"), "seconds": round(seconds, 3),
        "machine": {
            "python": platform.python_version(), "system": platform.platform(), "glibc": platform.libc_ver()[1] or None,
            "cpus": os.cpu_count(), "memory_bytes": None, "shm_bytes": None, "driver": None, "gpus": gpus,
        },
        "torch": {
            "version": torch.__version__, "cuda": torch.version.cuda, "cudnn": str(cudnn) if cudnn else None,
            "nccl": nccl, "architectures": torch.cuda.get_arch_list() if cuda else [],
        },
        "checks": checks, "figures": figures, "curves": {},
        "summary": reports().summary(checks, blind=bool(config["cuda"]) and not cuda, slow=slow),
    }  # fmt: skip


def write(path: str, document: dict[str, Any]) -> None:
    """Whole or not at all."""
    staged = f"{path}.{os.getpid()}"
    with open(staged, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.replace(staged, path)


if __name__ == "__main__":
    sys.exit(main())
