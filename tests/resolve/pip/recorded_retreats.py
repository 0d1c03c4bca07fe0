"""Which older release is an answer: real packages, and pages of them as they were on one day.

    PYTHONPATH=tests:tests/resolve/pip python tests/resolve/pip/recorded_retreats.py     # record anew

Of pages the files for Linux on x86_64 are kept, of METADATA the edges in `EDGES` alone: the rest of what these packages
need has no part in their answers, and is a thousand times as much.
"""

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stacks.packed import Row
from stacks.recording import Recorder, Recording
from support.machine import Machine

from envspec.base.errors import AnswerNo, Infeasible, InfeasibleTargets
from envspec.base.finding import Finding
from envspec.base.progress import Progress
from envspec.packages.requirement import canonical_name, head_of
from envspec.resolve.pip.setup import pip_resolver
from envspec.resolve.pip.sources_needed import SourcesNeeded
from envspec.resolve.workflow.relock import RelockRequest, relock
from envspec.resolve.workflow.solve import Resolvers
from envspec.spec.parse import load_spec

RECORDED = Path(__file__).resolve().parents[2] / "data" / "retreats" / "recorded"
DATE = "2026-11-24"
EDGES = {
    "vllm": {"torch", "llguidance"},
    "schnetpack": {"torch", "sympy"},
    "unsloth": {"torch", "xformers"},
    "xformers": {"torch"},
    "torchvision": {"torch"},
    "torchaudio": {"torch"},
    "ydata-profiling": {"numpy"},
    "funasr": {"transformers"},
    "transformers": {"huggingface-hub", "tokenizers", "safetensors"},
    "tokenizers": {"huggingface-hub"},
}
EXTRAS = {"transformers": "torch>="}
"""Of these the edges of an extra that begin so, too."""
WHOLE = ("torch", "cuda-toolkit")
"""Of these all edges: they say which CUDA a torch is for."""


@dataclass(frozen=True)
class Case:
    """A case: what a spec asks for on which target, and what is right: versions of the lock, or "refuse", "source" and
    "unsatisfiable". `said` stands in the warnings, the refusal or its hint."""

    asks: tuple[str, ...]
    python: str
    right: Mapping[str, str] | str
    said: tuple[str, ...] = ()
    cuda: str | None = None
    glibc: str = "2.28"

    @property
    def spec(self) -> str:
        listed = ", ".join(f"'{one}'" for one in self.asks)
        cuda = f"cuda = '{self.cuda}'" if self.cuda else ""
        return (
            f"[env]\npython = '{self.python}'\nexclude-newer = '{DATE}'\n[pip]\ndependencies = [{listed}]\n"
            f"[targets.t]\nplatform = 'linux-64'\nglibc = '{self.glibc}'\n{cuda}\n"
        )


def case(*asks: str, python: str, right: Mapping[str, str] | str, said: tuple[str, ...] = (), **more: str) -> Case:
    return Case(asks, python, right, said, **more)


CASES = {
    "numpy": case("numpy", python="3.9", right={"numpy": "2.0.2"}),
    "scipy": case("scipy", python="3.10", right={"scipy": "1.15.3"}),
    "pandas": case("pandas", python="3.10", right={"pandas": "2.3.3"}),
    "transformers": case("transformers", python="3.10", right={"transformers": "5.20.2"}),
    "rembg": case("rembg", python="3.10", right={"rembg": "2.0.69"}),
    "vllm, by Python": case("vllm", python="3.10", right={"vllm": "0.31.0"}, cuda="13.0", glibc="2.35"),
    "onnxruntime": case("onnxruntime", python="3.9", right={"onnxruntime": "1.19.2"}),
    "torch, CUDA 11.8": case("torch", python="3.11", right={"torch": "2.7.1+cu118"}, cuda="11.8"),
    "torch, CUDA 12.1": case("torch", python="3.11", right={"torch": "2.5.1+cu121"}, cuda="12.1"),
    "torchvision": case(
        "torch==2.9.*", "torchvision", python="3.12", right={"torchvision": "0.24.1+cu130"}, cuda="13.0"
    ),
    "torchaudio": case("torch==2.9.*", "torchaudio", python="3.12", right={"torchaudio": "2.9.1+cu130"}, cuda="13.0"),
    "vllm, by glibc": case(
        "vllm", python="3.12", right={"vllm": "0.21.0"}, cuda="13.0",
        said=("vllm 0.21.0 is locked, not 0.3", "llguidance", "wants glibc 2.31", 'glibc = "2.31"'),
    ),
    "xformers": case("xformers", python="3.12", right="refuse", said=("CUDA 12",), cuda="13.0"),
    "unsloth": case("unsloth", python="3.12", right="refuse", said=("xformers",), cuda="13.0"),
    "schnetpack": case(
        "schnetpack", python="3.11", right="refuse", cuda="13.0",
        # three ways are tried, and the older release would be the fourth
        said=("schnetpack 2.1.1", "2.0.4", 'python = "3.12"'),
    ),
    "mlserver": case("mlserver", python="3.13", right="refuse", said=("<3.13", 'python = "3.12"', "mlserver<=1.3.5")),
    "pandasai": case("pandasai", python="3.12", right="refuse", said=("pandasai<=2.3.2", 'python = "3.11"')),
    "open-interpreter": case(
        "open-interpreter<0.2.5", python="3.12", right="refuse", said=("open-interpreter==0.2.5",)
    ),
    "great-expectations": case(
        "great-expectations<1.7", python="3.13", right="refuse", said=("great-expectations<=0.18.22",)
    ),
    "kfp": case("kfp<2.10.1", python="3.13", right="refuse", said=("kfp==2.10.1",)),
    "whisperx": case("whisperx<3.7", python="3.13", right="refuse", said=("whisperx==3.7",)),
    "autogluon": case("autogluon", python="3.14", right="refuse", said=('python = "3.13"',)),
    "blis": case("blis<1.3", python="3.13", right={"blis": "1.1.0"}),
    "numpy<2": case("numpy<2", python="3.13", right="source", said=("numpy 1.26.4",)),
    "huggingface-hub": case(
        "torch<=2.3", "huggingface-hub", "funasr>=1.1.3", python="3.10", cuda="12.1",
        right={"huggingface-hub": "1.33.0", "transformers": "5.0.0", "tokenizers": "0.22.2"},
    ),
    "ydata-profiling": case("ydata-profiling", "numpy>=2.5", python="3.13", right="unsatisfiable"),
}  # fmt: skip


@dataclass(frozen=True)
class Said:
    """What came of a case, and all that was said of it."""

    came: Mapping[str, str] | str
    text: str
    told: tuple[Finding, ...] = ()


def answer(one: Case, machine: Machine) -> Said:
    """Lock a case as its user would."""
    machine.spec(one.spec)
    machine.introduce()
    spec = load_spec(str(machine.folder / "specs" / "demo.toml"))
    try:
        with pip_resolver(spec, machine.environment(), offline=False, refresh=False, progress=Progress()) as pip:
            (target,), findings = relock(RelockRequest(spec), Resolvers(pip, findings=pip.findings))
    except AnswerNo as no:
        came = (
            "source" if isinstance(no, SourcesNeeded) else "refuse" if isinstance(no, Infeasible) else "unsatisfiable"
        )
        every = no.errors if isinstance(no, InfeasibleTargets) else (no,)
        return Said(came, "\n".join(f"{each.message}\n{each.hint}" for each in every), no.findings)
    text = "\n".join(f"{each.severity}: {each.text} {each.remedy or ''}" for each in findings)
    return Said({pin.name: pin.version for pin in target.pins}, text, findings)


class _Recorder(Recorder):
    """The real index, cut."""

    def _fetched(self, project: str) -> list[Row]:
        return [row for row in super()._fetched(project) if _counts(row[0])]

    def text(self, wheel: str) -> str | None:
        if wheel in self.recording.metadata or (text := super().text(wheel)) is None:
            return self.recording.metadata.get(wheel)
        name = canonical_name(wheel.partition("-")[0])
        lines = [
            line
            for line in text.splitlines(keepends=True)
            if name in WHOLE
            or _stays(line, EDGES.get(name, set()))
            or (name in EXTRAS and line.startswith(f"Requires-Dist: {EXTRAS[name]}"))
        ]
        self.recording.metadata[wheel] = "".join(lines)
        return self.recording.metadata[wheel]


def _stays(line: str, kept: set[str]) -> bool:
    required = re.match(r"Requires-Dist: (.*)", line)
    return required is None or (head_of(required[1]).name in kept and "extra ==" not in line)


def _counts(file: str) -> bool:
    return (
        not file.endswith(".whl") or ("x86_64.whl" in file and "linux" in file and "musl" not in file) or "any" in file
    )


def record() -> None:
    with tempfile.TemporaryDirectory() as folder:
        upstream = os.environ.get("UV_DEFAULT_INDEX") or _default()
        index = _Recorder(recording=Recording(), upstream=upstream, cache=Path(folder) / "cache")
        with index:
            for name, one in CASES.items():
                answer(one, Machine(Path(folder) / re.sub(r"\W+", "-", name), default=index.url))
        index.recording.save(RECORDED)


def _default() -> str:
    from envspec.resolve.uv.program import find_uv, uvs_default_index

    return str(uvs_default_index(find_uv(os.environ), Path(tempfile.gettempdir())))


if __name__ == "__main__":
    record()
