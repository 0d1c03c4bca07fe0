"""The wheels of a solved target, asked what their METADATA leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from envspec.base.errors import IndexFailure
from envspec.facts import neighbours, torch_builds
from envspec.facts.cuda_stack import of_both_majors, stack_of
from envspec.facts.torch_builds import is_own_build
from envspec.facts.wheel_bounds import WHEEL_BOUNDS
from envspec.lock.model import LockedCorrection, Pin
from envspec.packages.build_label import label_of
from envspec.packages.names import requirement_name
from envspec.packages.variant_name import read_name
from envspec.resolve.pip.reading import Counting
from envspec.resolve.wheels.asked import ask
from envspec.resolve.wheels.model import Question, Unread, WheelSays
from envspec.resolve.wheels.places import WheelPlaces
from envspec.resolve.wheels.reader import WheelReader
from envspec.resolve.wheels.say import About, correction_of, questions_for, what_wheels_say
from envspec.rules.wheel_code import WheelBuild

_COMPILED = frozenset(
    (
        *("bitsandbytes", "causal-conv1d", "ctranslate2", "deepspeed", "dgl", "flash-attn", "mamba-ssm"),
        *("onnxruntime-gpu", "pyg-lib", "tensorflow", "torch-cluster", "torch-scatter", "torch-sparse"),
        *("torch-spline-conv", "torchao", "torchcodec", "vllm", "xformers"),
    )
)
"""Packages whose wheels hold code for GPUs, and that don't show it by their names."""

_FOR_TORCH = ("dgl",)
"""Packages that have libraries for some releases of torch, and say so: that counts on a CPU too."""

_NAMED = re.compile(r"[\w-]+-cu(?:da)?\d\d\d?x?(?:-[\w-]+)?")
"""cupy-cuda12x, jax-cuda12-plugin, transformer-engine-cu12."""


def build_questions(pin: Pin, cuda: str | None, platform: str) -> frozenset[Question]:
    """Choose what to ask of a pin's wheel in a target of this CUDA. torch is asked where no table knows its build,
    others where they could hold code for GPUs."""
    if pin.kind != "pip" or not pin.is_wheel or pin.artifact is None:
        return frozenset()
    if read_name(pin.artifact.file).plain.endswith("-any.whl"):
        return frozenset()
    if cuda is None:
        known = pin.index == "pypi" and neighbours.of_release(pin.name, pin.version)
        return frozenset(("notes",)) if pin.name in _FOR_TORCH and not known else frozenset()
    asked = _no_table_knows(pin, platform) if pin.name == "torch" else _may_hold_code(pin, pin.artifact.file)
    return frozenset(("notes", "code")) if asked else frozenset()


def _no_table_knows(torch: Pin, platform: str) -> bool:
    public, _, local = torch.version.partition("+")
    if is_own_build(torch.version, torch.index):
        return True
    variant = local or torch_builds.pypi_variant(public, platform)
    return variant is None or not torch_builds.builds(public, variant=variant, platform=platform)


def _may_hold_code(pin: Pin, file: str) -> bool:
    # torch's companions and NVIDIA's libraries have tables of their own
    if stack_of(pin.name) is not None:
        return False
    if pin.name in _COMPILED or _NAMED.fullmatch(pin.name):
        return True
    needs_torch = any(requirement_name(line) == "torch" for line in pin.dependencies)
    return pin.index != "pypi" and (needs_torch or label_of(pin.version, file) is not None)


@dataclass(frozen=True)
class WheelInspector:
    """Asks the wheels that a resolver chose. `counting` counts those that have to be read."""

    reader: WheelReader
    places: WheelPlaces
    counting: Counting

    def recalls(self, one: LockedCorrection, pin: Pin) -> bool:
        """Say whether a lock's row is what is known of a pin's wheel. Nothing is fetched: it may just not be known."""
        bound = WHEEL_BOUNDS.get(one.constraint)
        if bound is None or pin.artifact is None:
            return False
        says = self.reader.recall(pin.artifact.file, pin.artifact.sha256, self.places.origin(pin))
        return correction_of(bound, pin, says) == one

    def read(self, pins: Sequence[Pin], about: About = ()) -> Sequence[LockedCorrection]:
        """Give what the wheels of a target's pins say against them, and what holds of the bounds in `about`.

        Raises IndexFailure for a wheel that can't be read.
        """
        uploaded = self._uploaded(pins)
        heard = what_wheels_say(pins, self._asked, recall=self._recalled, uploaded=uploaded, about=about)
        for pin, unread in heard.unread:
            raise _failure(pin, unread, "what its METADATA leaves out")
        return heard.corrections

    def builds(self, pins: Sequence[Pin], cuda: str | None, platform: str) -> Mapping[str, WheelBuild]:
        """Give what the wheels of a target of this CUDA are built for, by package, where that could matter.

        One that could be had only whole, and is too large for that, says nothing. Raises IndexFailure for others that
        can't be read.
        """
        asked = {pin: questions for pin in pins if (questions := build_questions(pin, cuda, platform))}
        both = of_both_majors({pin.name: pin.dependencies for pin in pins}, cuda.partition(".")[0]) if cuda else {}
        for pin in pins:
            if pin.name in {*both, *both.values()} and pin.is_wheel:
                asked[pin] = asked.get(pin, frozenset()) | {"paths"}
        paths: frozenset[Question] = frozenset({"paths"})
        uploaded = self._uploaded(pins)
        read = (pin for pin in pins if pin in asked or questions_for(pin, pins, uploaded))
        alike = {pin: asked.get(pin, frozenset()) | paths for pin in (*_alike(pins), *read)}
        found = {}
        for pin, says in ask({**asked, **alike}, self._asked, self._recalled).items():
            if isinstance(says, WheelSays):
                # what else the cache knows isn't of this target
                own = asked.get(pin, frozenset())
                code = says.code if "code" in own else None
                found[pin.name] = WheelBuild(says.notes if "notes" in own else None, code, says.paths)
            elif not says.whole and pin in asked:
                raise _failure(pin, says, "for which GPUs and which CUDA it is built")
        return found

    def _uploaded(self, pins: Sequence[Pin]) -> Mapping[str, str]:
        files = (file for pin in pins if (file := self.places.file(pin)) is not None)
        return {str(file.sha256): file.uploaded for file in files if file.uploaded}

    def _recalled(self, pin: Pin, questions: frozenset[Question]) -> WheelSays | None:
        file = self.places.file(pin)
        if file is None:
            return None
        known = self.reader.recall(file.file, str(file.sha256), self.places.origin(pin))
        return known if questions <= known.answered else None

    def _asked(self, pin: Pin, questions: frozenset[Question]) -> WheelSays | Unread:
        file, origin = self.places.file(pin), self.places.origin(pin)
        if file is None:
            return Unread(pin.artifact.file if pin.artifact else pin.name, "its address isn't known")
        with self.counting.one(f"looking into {file.file}"):
            return self.reader.ask(file, origin, questions)


def _alike(pins: Sequence[Pin]) -> Iterator[Pin]:
    """Choose the wheels that are read for their paths alone: another one has a name with the same first word, as builds
    of one project have. Reading all of them would cost a range of each; their names decide nothing else."""
    words = [pin.name.partition("-")[0] for pin in pins if pin.is_wheel]
    for pin in pins:
        if pin.is_wheel and stack_of(pin.name) is None and words.count(pin.name.partition("-")[0]) > 1:
            yield pin


def _failure(pin: Pin, unread: Unread, why: str) -> IndexFailure:
    return IndexFailure(
        f"{unread.file} of the index {pin.index} can't be read, to see {why}: {unread.reason}",
        hint=f"{unread.hint or 'report this to whoever runs the index'}; or do without what wheels say: "
        "add inspect = false to [pip]",
    )
