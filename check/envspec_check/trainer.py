"""The trainer: one for all workloads."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import math
import os
import random
import resource
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

from envspec_check.interface import REFERENCE_ONLY, WORKLOADS, Fault
from envspec_check.machine import from_ampere
from envspec_check.workloads.base import Batch, number_of, the_torch, warm_up_and_cosine


@dataclass(frozen=True)
class Training:
    """The settings of a training: equal ones, on one machine, are to end bitwise equal."""

    workload: str
    steps: int
    seed: int
    device: str  # "cpu" or "cuda"
    precision: str  # "fp32", "bf16", "fp16"; "pure bf16" has weights in it too; "fp64" is for a reference
    exact: bool = False  # deterministic algorithms only
    dropout: bool = True  # off where two trainings are compared that draw unlike numbers
    clip: Optional[float] = 1.0  # the largest norm of the gradients; None: they stay as they are
    plain: Optional[float] = None  # the learning rate of plain SGD in place of the workload's optimizer and schedule


TYPES = {"bf16": "bfloat16", "fp16": "float16"}
"""What autocast is asked for, by the precision."""


PARTS = ("model", "optimizer", "scheduler", "scaler", "rng", "position", "losses")
"""What a checkpoint holds."""


def fp16_scaler(device: str) -> Any:
    """Return a scaler of gradients for fp16, of whichever class this torch has. None where it has none for the
    device."""
    torch = the_torch()
    # Small and soon growing: short runs lose no step to the search for the scale, and its state changes within them.
    options = {"init_scale": 2.0**10, "growth_interval": 8}
    if hasattr(torch.amp, "GradScaler"):  # from torch 2.3
        return torch.amp.GradScaler(device, **options)
    return torch.cuda.amp.GradScaler(**options) if device == "cuda" else None


@functools.lru_cache(maxsize=None)
def lacks(device: str, precision: str) -> Optional[str]:
    """Explain why this torch can't train in a precision on a device; None when it can."""
    torch = the_torch()
    if precision == "fp32":
        return None
    if device == "cuda":
        # torch's own is_bf16_supported() counts emulation, which has no convolutions and shows nothing of the card.
        return "the GPU has no bf16" if precision == "bf16" and not from_ampere(torch, device) else None
    if precision == "bf16":
        return None
    if fp16_scaler(device) is None:
        return "torch %s has no gradient scaler for a CPU" % torch.__version__
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # an autocast to a dtype that it doesn't know only warns, and does nothing
            with torch.autocast("cpu", dtype=torch.float16):
                layer = torch.nn.Linear(8, 8)
                layer(torch.ones(2, 8)).float().sum().backward()
                result = torch.nn.Conv2d(1, 1, 2)(torch.ones(1, 1, 4, 4))
    except (RuntimeError, UserWarning) as error:
        return "torch %s can't do fp16 on a CPU: %s" % (torch.__version__, str(error).splitlines()[0])
    return None if result.dtype == torch.float16 else "torch %s has no fp16 autocast on a CPU" % torch.__version__


def native_precision(workload: str, device: str) -> str:
    """Choose the precision that a workload is commonly trained in; where that can't be done here bf16, else fp32."""
    preferred = WORKLOADS[workload].native, "bf16", "fp32"
    return next(precision for precision in preferred if lacks(device, precision) is None)


def exact_fp32(torch: Any) -> None:
    """No TF32: its products have 10 bits, and convolutions take it unless they are told not to."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def exactly(tensor: Any) -> Any:
    """Return a tensor in float64, on the CPU."""
    return tensor.detach().to("cpu", the_torch().float64)


def be_exact() -> None:
    """From now on only algorithms that give the same bits for the same input. Before the first use of a GPU."""
    torch = the_torch()
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.use_deterministic_algorithms(True)
    if not torch.are_deterministic_algorithms_enabled():
        raise Fault("use_deterministic_algorithms(True) does nothing", "look for what replaces or patches torch")
    torch.backends.cudnn.benchmark = False
    # Not every version's fused attention has a deterministic backward pass, and not each of those without says so.
    for kind in ("flash", "mem_efficient", "cudnn"):
        getattr(torch.backends.cuda, "enable_%s_sdp" % kind, lambda on: None)(False)


class Trainer:
    """One training, from its start or from a checkpoint. A batch is split into as many `shares` as there are ranks: one
    of them is a rank's, all of them are trained by the one process that several are compared with."""

    def __init__(self, training: Training, shares: Sequence[int] = (0,), ranks: int = 1) -> None:
        torch = the_torch()
        self.training, self.shares, self.ranks = training, shares, ranks
        self.workload = {**WORKLOADS, **REFERENCE_ONLY}[training.workload]()
        # Such small models gain nothing from threads, and lose a lot where others use the CPUs too.
        torch.set_num_threads(1)
        exact_fp32(torch)
        if training.exact:
            be_exact()
        random.seed(training.seed)
        torch.manual_seed(training.seed)  # of all devices
        cuda = training.device == "cuda"
        self.device = torch.device("cuda", torch.cuda.current_device()) if cuda else torch.device("cpu")
        self.count = self.workload.batch * (self.workload.on_gpu if cuda else 1)
        self.wide = training.precision == "fp64"
        self.type = {"fp64": torch.float64, "pure bf16": torch.bfloat16}.get(training.precision)  # of weights and data
        self.model = self.made_model().to(self.device)
        self.called = self.model  # what a step calls: the model itself, or what DDP or DataParallel make of it
        self.optimize()
        self.scaler = fp16_scaler(training.device) if training.precision == "fp16" else None
        self.position = 0
        self.losses: List[float] = []
        self.seconds: List[float] = []
        if ranks > 1:
            torch.manual_seed(number_of(training.seed, "rank", *shares))  # ranks drop out differently

    def optimize(self) -> None:
        """Make the optimizer of the model's weights, and the schedule of its rate."""
        torch, plain = the_torch(), self.training.plain
        if plain is None:
            self.optimizer = self.workload.optimizer(self.model)
        else:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=plain)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, self.share_of_the_rate)

    def made_model(self) -> Any:
        torch = the_torch()
        usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64 if self.wide else usual)  # tables that a model makes are as wide as it
        try:
            model = self.workload.model(self.training.seed)
        finally:
            torch.set_default_dtype(usual)
        if not self.training.dropout:
            for layer in model.modules():
                if isinstance(layer, torch.nn.Dropout):
                    layer.p = 0.0
        return model.to(self.type) if self.type else model

    def share_of_the_rate(self, step: int) -> float:
        return 1.0 if self.training.plain is not None else warm_up_and_cosine(step, self.training.steps)

    def run(self, until: int, pauses: dict[int, Callable[[], None]] | None = None) -> None:
        """Train up to a position; stops at once when a loss isn't finite. `pauses` are called at their positions."""
        training, cuda = self.training, self.training.device == "cuda"
        batches = self.workload.batches(training.seed, self.position, until, self.count, cuda)
        began = time.perf_counter()
        for batch in batches:
            self.losses.append(self.step(batch))
            self.position += 1
            ended = time.perf_counter()
            self.seconds.append(ended - began)
            if not math.isfinite(self.losses[-1]):
                break
            if pauses and self.position in pauses:
                pauses[self.position]()
            began = time.perf_counter()

    def step(self, batch: Batch) -> float:
        loss = self.gradients(batch)
        self.update()
        return float(loss)  # waits for the device, so that the step's time is its own

    def put(self, rows: Any) -> Any:
        """Return a batch's rows on the device, in the type of the model."""
        rows = rows.to(self.device, non_blocking=True)
        return rows.to(self.type) if self.type and rows.is_floating_point() else rows

    def gradients(self, batch: Batch) -> Any:
        """Return the mean loss of this trainer's shares of a batch. Their gradients are left for the optimizer."""
        torch, parts = the_torch(), self.workload.accumulate
        self.optimizer.zero_grad(set_to_none=True)
        losses = []
        for share in self.shares:
            mine = {name: self.put(rows[share :: self.ranks]) for name, rows in batch.items()}
            for part in range(parts):
                # DDP sums the ranks' gradients once a step, not once a part.
                last = part == parts - 1 or self.called is self.model
                with contextlib.nullcontext() if last else no_sync(self.called):
                    with self.autocast():
                        loss = self.workload.loss(self.called, {name: rows[part::parts] for name, rows in mine.items()})
                    losses.append(loss.detach())
                    loss = loss / (parts * len(self.shares))
                    (self.scaler.scale(loss) if self.scaler else loss).backward()
        return torch.stack(losses).mean()

    def update(self) -> None:
        """Take the step, once the gradients are there."""
        if self.scaler:
            self.scaler.unscale_(self.optimizer)
        if self.training.clip is not None:
            the_torch().nn.utils.clip_grad_norm_(self.model.parameters(), self.training.clip)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.scheduler.step()

    def autocast(self) -> Any:
        torch, precision = the_torch(), self.training.precision
        if precision not in TYPES:
            return contextlib.nullcontext()
        return torch.autocast(self.training.device, dtype=getattr(torch, TYPES[precision]))

    def state(self) -> Dict[str, Any]:
        """Return all that the rest of the training depends on; its keys are PARTS."""
        torch, cuda = the_torch(), self.training.device == "cuda"
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict() if self.scaler else {},
            "rng": {
                "python": random.getstate(),
                "cpu": torch.get_rng_state(),
                "cuda": torch.cuda.get_rng_state() if cuda else None,
            },
            "position": self.position,
            "losses": list(self.losses),
        }

    def save(self, path: Path) -> None:
        the_torch().save(self.state(), str(path))

    def load(self, path: Path) -> None:
        """Go on from where a checkpoint was made."""
        torch = the_torch()
        state = torch.load(str(path), map_location="cpu", weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        if self.scaler:
            self.scaler.load_state_dict(state["scaler"])
        self.position, self.losses = state["position"], list(state["losses"])
        random.setstate(state["rng"]["python"])
        torch.set_rng_state(state["rng"]["cpu"])
        if state["rng"]["cuda"] is not None:
            torch.cuda.set_rng_state(state["rng"]["cuda"])


def no_sync(model: Any) -> Any:
    return model.no_sync() if hasattr(model, "no_sync") else contextlib.nullcontext()


def digest(value: Any) -> str:
    """Return a digest of tensors and plain values, nested at will: equal if, and only if, they are equal bit by bit."""
    sha256 = hashlib.sha256()
    for piece in pieces(value):
        sha256.update(b"%d:" % len(piece))
        sha256.update(piece)
    return sha256.hexdigest()


def pieces(value: Any) -> Iterator[bytes]:
    """Yield the bytes for a digest. A mapping's keys are sorted: a saved one may have another order."""
    if hasattr(value, "untyped_storage") or hasattr(value, "data_ptr"):
        held = value.detach().cpu().contiguous()
        yield ("%s %s" % (held.dtype, tuple(held.shape))).encode()
        # Neither numpy, which may be missing, nor a Python number for each byte, which takes seconds.
        yield ctypes.string_at(held.data_ptr(), held.numel() * held.element_size()) if held.numel() else b""
    elif isinstance(value, dict):
        yield b"{%d" % len(value)
        for key in sorted(value, key=repr):
            yield repr(key).encode()
            yield from pieces(value[key])
    elif isinstance(value, (list, tuple)):
        yield b"[%d" % len(value)
        for part in value:
            yield from pieces(part)
    else:
        yield repr(value).encode()  # a float's repr tells it from every other


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest of the values that at least this share of them doesn't exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def peak_memory(device: str) -> int:
    """Return the most memory that was held so far, in bytes: on the GPU by tensors, else by this process."""
    if device == "cuda":
        return int(the_torch().cuda.max_memory_allocated())
    return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) * 1024
