"""What multi_node.py reports. Its torch is a stand-in here; `tests/e2e/test_smoke_slurm.py` runs it between nodes."""

import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.documents import validator

import envspec.prove.smoke
from envspec.carried import multi_node
from envspec.prove.smoke.report.read import report_of

SCHEMA = Path(envspec.prove.smoke.__file__).parent / "check.schema.json"
STARTED = datetime.datetime(2026, 11, 21, tzinfo=datetime.timezone.utc)
CONFIG = {"spec": "demo", "target": "t", "lock_digest": "", "fingerprint": "", "cuda": None}


class StandInTorch:
    """As far as the report asks it; its GPUs are none."""

    __version__ = "2.9.1"
    version = SimpleNamespace(cuda=None)
    cuda = SimpleNamespace(
        device_count=lambda: 0, nccl=SimpleNamespace(version=lambda: (2, 27, 5)), get_arch_list=lambda: ["sm_80"]
    )
    backends = SimpleNamespace(cudnn=SimpleNamespace(version=lambda: 91002))


@pytest.mark.parametrize(
    ("cuda", "on_gpus", "headline"),
    [
        ("12.8", False, "no GPU check ran: 1 passed, 1 failed, 0 skipped"),
        ("12.8", True, "1 passed, 1 failed, 0 skipped"),
        (None, False, "1 passed, 1 failed, 0 skipped"),
    ],
)
def test_the_report_says_where_it_ran(cuda: str | None, on_gpus: bool, headline: str) -> None:
    needs_gpu = cuda is not None
    checks = [multi_node.check(name, needs_gpu, why, 0.1, {}) for name, why in (("all_reduce", ""), ("ddp", "bad"))]
    torch: Any = StandInTorch
    made = multi_node.report(torch, {**CONFIG, "cuda": cuda}, on_gpus, STARTED, 1.0, checks, [])
    validator(SCHEMA).validate(made)
    read = report_of(made, "x")
    assert made["summary"]["headline"] == read.headline == headline
    assert (made["summary"]["gpu_total"], made["summary"]["gpu_skipped"]) == (read.gpu_total, read.gpu_skipped)
    assert read.without_gpu == (needs_gpu and not on_gpus)
