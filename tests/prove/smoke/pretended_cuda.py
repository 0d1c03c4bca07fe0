"""The smoke check with a CUDA that is none: real torch for CPUs, whose "cuda" devices are the CPU.

    PREFIX/bin/python tests/prove/smoke/pretended_cuda.py CHECK_FOLDER --config target.json …

The check's code for GPUs runs from end to end: which device it asks for, streams, events, NVML, the scaler, its report.
Its report is no evidence: torch's version ends in `+pretended` and the GPU's name says so too, by either of which
`envspec report` and `envspec smoke --compare` refuse it.

What it can't show, since each needs a GPU:
- a kernel's arithmetic: all of it is the CPU's, TF32, fp8, cuDNN's and each attention backend's among it
- the order of streams and events: there is one queue, and everything waits
- what a tensor says of its device: `x.device` and `x.is_cuda` are the CPU's
- memory on a GPU, its fragmentation, what it does when it's full
- NCCL, peers, IPC, CUDA graphs, triton: nothing is loaded
- speed: every figure is the CPU's
- loading: libraries, the driver's version, the architectures in torch
- fp16 before torch 2.3, which has no kernels and no scaler for it on CPUs
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

CAPABILITY = (9, 0)
NAME = "Pretended GPU (no evidence)"
DRIVER = "570.86.15"
CUDA = "12.8"
COUNT = int(os.environ.get("PRETENDED_COUNT", "1"))
"""How many GPUs there are."""
MEMORY = 512 << 20
"""So little that products of matrices are small ones, which a CPU has to do."""


def on_cpu(value: Any, torch: Any) -> Any:
    """A device that an operator is given, as the CPU where it is of CUDA."""
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return "cpu" if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")) else value


def redirection(torch: Any) -> Any:
    """Whatever torch is asked to do on CUDA, it does on the CPU."""
    overrides = importlib.import_module("torch.overrides")

    class Redirect(overrides.TorchFunctionMode):  # type: ignore[misc, name-defined]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = {name: on_cpu(value, torch) for name, value in (kwargs or {}).items()}
            if given.pop("pin_memory", False):
                given["pin_memory"] = False
            if getattr(function, "__name__", "") == "pin_memory":
                return args[0]
            return function(*(on_cpu(value, torch) for value in args), **given)

    return Redirect()


class Stream:
    """A stream of the one queue that there is."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.cuda_stream = 0

    def wait_stream(self, other: Any) -> None:
        """There is nothing to wait for."""

    def wait_event(self, event: Any) -> None:
        """There is nothing to wait for."""

    def synchronize(self) -> None:
        """Everything has ended."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        """Leave it."""


class Event:
    """A moment by the clock."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        """It has happened."""

    def elapsed_time(self, other: Event) -> float:
        return max(1e-3, 1e3 * (other.at - self.at))


class Nvml:
    """NVML with GPUs that are busy."""

    def driver(self) -> str:
        return DRIVER

    def devices(self) -> list[int]:
        return [*range(COUNT)]

    def device_at(self, pci: str) -> int:
        return 0

    def utilisation(self, device: int) -> int:
        return 100


def directly(torch: Any, function: Any, *given: Any, **options: Any) -> Any:
    """Call a function without the redirection, which it would lose an argument to."""
    with torch._C.DisableTorchFunction():
        return function(*given, **options)


def pretend(torch: Any) -> None:
    """Make this process's torch pretend, and what is forked from it."""
    functional: Any = importlib.import_module("torch.nn.functional")
    functional.l1_loss = functools.partial(directly, torch, functional.l1_loss)  # torch 2.13 hands on no `weight`
    torch.__version__ = f"{torch.__version__.partition('+')[0]}+pretended"
    torch.version.cuda = CUDA
    facts = SimpleNamespace(
        name=NAME,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=MEMORY,
        multi_processor_count=132,
        is_integrated=False,
        pci_domain_id=0,
        pci_bus_id=1,
        pci_device_id=0,
    )
    answers: dict[str, Any] = {
        "is_available": True,
        "device_count": COUNT,
        "current_device": 0,
        "is_initialized": True,
        "get_device_capability": CAPABILITY,
        "get_device_name": NAME,
        "get_device_properties": facts,
        "mem_get_info": (MEMORY, MEMORY),
        "is_bf16_supported": True,
        "is_current_stream_capturing": False,
    }
    nothing = ("set_device", "synchronize", "empty_cache", "reset_peak_memory_stats", "init", "_lazy_init")
    counts = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    for name in (*answers, *nothing, *counts):
        value = answers.get(name, 1 << 20 if name in counts else None)
        setattr(torch.cuda, name, functools.partial(lambda value, *_, **__: value, value))
    torch.cuda.Stream, torch.cuda.Event = Stream, Event
    torch.cuda.current_stream = torch.cuda.default_stream = lambda *_: Stream()
    torch.cuda.stream = contextlib.nullcontext
    torch.cuda.get_rng_state, torch.cuda.set_rng_state = torch.get_rng_state, torch.set_rng_state
    torch.cuda.manual_seed = torch.cuda.manual_seed_all = lambda seed: None
    torch._C._cuda_getArchFlags = lambda: "sm_90"
    torch.Tensor.record_stream = lambda self, stream: None
    torch.Tensor.cuda = lambda self, *_, **__: self
    amp = importlib.import_module("torch.amp")
    torch.autocast = torch.amp.autocast = pretended_context(amp.autocast)
    # before torch 2.3 the one scaler was CUDA's
    scalers: Any = amp if hasattr(amp, "GradScaler") else importlib.import_module("torch.cuda.amp")
    scalers.GradScaler = pretended_scaler(scalers.GradScaler, of_devices=scalers is amp)
    distributed: Any = importlib.import_module("torch.distributed")
    begin = distributed.init_process_group
    distributed.init_process_group = lambda backend=None, *args, **given: begin("gloo", *args, **given)
    parallel = torch.nn.parallel.DistributedDataParallel
    torch.nn.parallel.DistributedDataParallel = lambda module, device_ids=None, **given: parallel(module, **given)
    redirection(torch).__enter__()


def pretended_context(real: Any) -> Any:
    class autocast(real):  # type: ignore[misc]
        def __init__(self, device_type: str, *args: Any, **given: Any) -> None:
            super().__init__("cpu", *args, **given)

    return autocast


def pretended_scaler(real: Any, *, of_devices: bool) -> Any:
    class GradScaler(real):  # type: ignore[misc]
        def __init__(self, *args: Any, **given: Any) -> None:
            super().__init__(*(("cpu", *args[1:]) if of_devices else args), **given)

    return GradScaler


@contextlib.contextmanager
def no_libraries() -> Iterator[None]:
    """NVML's stand-in, where the check looks for it."""
    machine = importlib.import_module("envspec_check.machine")
    machine.Nvml = Nvml  # type: ignore[attr-defined]
    yield


def start() -> int:
    folder = os.environ.setdefault("PRETENDED_CHECK", sys.argv[1])
    words = sys.argv[2:] if sys.argv[1] == folder else sys.argv[1:]
    sys.path.insert(0, folder)
    pretend(importlib.import_module("torch"))
    importlib.import_module("envspec_check.checks")
    importlib.import_module("envspec_check.workloads")
    command = importlib.import_module("envspec_check.command")
    with no_libraries():
        return int(command.main(words, program=__file__))


if __name__ == "__main__":
    sys.exit(start())
