"""What the wheels of solved pins are asked, and what follows from their answers."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from msgspec.structs import replace

from envspec.artifacts import wheel_inspector as inspector
from envspec.artifacts.wheel_inspector import About, Heard
from envspec.artifacts.wheel_reader import Question, Unread, WheelSays
from envspec.binaries.build_notes import BuildNotes, NumpyAbi
from envspec.binaries.import_time import ImportTime
from envspec.lock.model import Artifact, LockedCorrection, Pin

LINUX = "manylinux_2_17_x86_64"


def pin(name: str, version: str, *needs: str, tag: str = f"cp312-cp312-{LINUX}", index: str = "pypi") -> Pin:
    file = f"{name.replace('-', '_')}-{version}-{tag}.whl"
    return Pin("pip", name, version, index, Artifact(file, f"{name:0<64}"), needs)


def pure(name: str, version: str, *needs: str) -> Pin:
    return pin(name, version, *needs, tag="py3-none-any")


NUMPY_2, NUMPY_1 = pin("numpy", "2.1.0"), pin("numpy", "1.26.4")
SETUPTOOLS, OLD_SETUPTOOLS = pure("setuptools", "84.0.0"), pure("setuptools", "81.0.0")
PANDAS = pin("pandas", "2.0.3", "numpy>=1.21")
BOARD = pure("tensorboard", "2.20.0", "numpy>=1.12", "setuptools>=41")

ANSWERS = {
    "pandas": WheelSays(numpy=NumpyAbi(1, "pandas/_libs/lib.so")),
    "tensorboard": WheelSays(pkg_resources=ImportTime(("tensorboard.default",))),
}


def read(pin: Pin, questions: frozenset[Question]) -> WheelSays | Unread:
    return ANSWERS.get(pin.name, WheelSays(NumpyAbi(), ImportTime(), BuildNotes()))


def what_wheels_say(
    pins: Sequence[Pin],
    read: Callable[[Pin, frozenset[Question]], WheelSays | Unread],
    *,
    uploaded: Mapping[str, str] | None = None,
    about: About = (),
) -> Heard:
    """Ask wheels that `read` stands for."""

    def ask(questions: Mapping[Pin, frozenset[Question]]) -> dict[Pin, WheelSays | Unread]:
        return {pin: read(pin, own) for pin, own in questions.items()}

    return inspector.what_wheels_say(pins, ask, uploaded=uploaded, about=about)


def questions_for(
    asked: Pin, pins: tuple[Pin, ...], uploaded: Mapping[str, str], about: About = ()
) -> frozenset[Question]:
    """What the wheel of a pin is asked among these."""
    found: dict[Pin, frozenset[Question]] = {}

    def note(pin: Pin, questions: frozenset[Question]) -> Unread:
        found[pin] = questions
        return Unread(pin.name, "only asked")

    what_wheels_say(pins, note, uploaded=uploaded, about=about)
    return found.get(asked, frozenset())


@pytest.mark.parametrize(
    ("asked", "among", "expected"),
    [
        (PANDAS, (NUMPY_2, OLD_SETUPTOOLS), {"numpy"}),
        (PANDAS, (NUMPY_2, SETUPTOOLS), {"numpy", "pkg_resources"}),
        (PANDAS, (NUMPY_1, OLD_SETUPTOOLS), set()),
        (PANDAS, (OLD_SETUPTOOLS,), set()),
        (PANDAS, (), {"pkg_resources"}),
        (NUMPY_2, (OLD_SETUPTOOLS,), set()),
        (pin("lxml", "5.0"), (NUMPY_2, OLD_SETUPTOOLS), set()),
        (pin("pandas", "2.0.3", "numpy", tag=f"cp313-cp313-{LINUX}"), (NUMPY_2, OLD_SETUPTOOLS), set()),
        (pin("opencv-python", "4.5.5.64", "numpy", tag=f"cp36-abi3-{LINUX}"), (NUMPY_2, OLD_SETUPTOOLS), {"numpy"}),
        (pin("torchvision", "0.29.0+cu130", "numpy", index="pytorch/cu130"), (NUMPY_2, SETUPTOOLS), set()),
        (SETUPTOOLS, (NUMPY_2,), set()),
        (pin("nvidia-nccl-cu12", "2.28"), (), set()),
        (pin("onnxruntime-gpu", "1.22.0", "numpy"), (NUMPY_1, OLD_SETUPTOOLS), set()),
    ],
)  # fmt: skip
def test_only_what_could_matter_is_asked(asked: Pin, among: tuple[Pin, ...], expected: set[str]) -> None:
    assert questions_for(asked, (asked, *among), {}) == expected


def test_a_wheel_younger_than_setuptools_82_isnt_asked_for_pkg_resources() -> None:
    assert BOARD.artifact
    uploaded = {BOARD.artifact.sha256: "2026-09-01T00:00:00Z"}
    assert questions_for(BOARD, (BOARD, SETUPTOOLS), uploaded) == set()
    assert questions_for(BOARD, (BOARD, SETUPTOOLS), {BOARD.artifact.sha256: "2025-07-17T00:00:00Z"})


@pytest.mark.parametrize(("day", "asked"), [("2023-06-28", True), ("2025-07-01", False)])
def test_a_wheel_of_a_year_after_numpy_2_isnt_asked_for_its_numpy(day: str, asked: bool) -> None:
    """Nor is what an earlier lock found out of it taken."""
    assert PANDAS.artifact
    pins, uploaded = (PANDAS, NUMPY_2, SETUPTOOLS), {PANDAS.artifact.sha256: f"{day}T00:00:00Z"}
    assert ("numpy" in questions_for(PANDAS, pins, uploaded)) == asked
    assert bool(what_wheels_say(pins, read, uploaded=uploaded).corrections) == asked


@pytest.mark.parametrize(("day", "asked"), [("2022-06-27", True), ("2025-07-17", False)])
def test_a_wheel_that_requires_no_setuptools_is_asked_if_it_is_older_than_python_3_12(day: str, asked: bool) -> None:
    librosa = pure("librosa", "0.9.2", "numpy")
    assert librosa.artifact
    uploaded = {librosa.artifact.sha256: f"{day}T00:00:00Z"}
    assert bool(questions_for(librosa, (librosa, SETUPTOOLS), uploaded)) == asked


def test_a_wheel_for_numpy_1_beside_numpy_2() -> None:
    heard = what_wheels_say((PANDAS, NUMPY_2, OLD_SETUPTOOLS), read)
    reason = "pandas 2.0.3 is compiled for NumPy 1 (lib.so), and its METADATA doesn't say so"
    assert PANDAS.artifact
    file, sha256 = PANDAS.artifact.file, PANDAS.artifact.sha256
    row = LockedCorrection("pandas", "2.0.3", file, sha256, "numpy<2", reason)
    assert heard.corrections == (row,)
    assert what_wheels_say((PANDAS, NUMPY_1, OLD_SETUPTOOLS), read).corrections == ()
    in_any_case = {("pandas", "numpy<2"), ("tensorboard", "setuptools<82"), ("absent", "numpy<2")}
    assert what_wheels_say((PANDAS, NUMPY_1, OLD_SETUPTOOLS), read, about=in_any_case).corrections == (row,)


def test_what_a_bound_is_asked_of_must_be_able_to_say_it() -> None:
    asked = pure("pandas", "2.0.3", "numpy")
    assert questions_for(asked, (asked, NUMPY_1, OLD_SETUPTOOLS), {}, {("pandas", "numpy<2")}) == set()


def test_the_name_of_a_module_steers_no_terminal() -> None:
    says = WheelSays(numpy=NumpyAbi(1, f"pandas/\x1b[2J\u202e{'x' * 300}.so"))
    (row,) = what_wheels_say((PANDAS, NUMPY_2, OLD_SETUPTOOLS), lambda pin, questions: says).corrections
    assert row.reason.isprintable() and len(row.reason) < 250


@pytest.mark.parametrize("others", [(SETUPTOOLS,), ()])
def test_pkg_resources_without_a_setuptools_that_has_it(others: tuple[Pin, ...]) -> None:
    (correction,) = what_wheels_say((BOARD, *others), read).corrections
    assert correction.constraint == "setuptools<82"
    assert "imports pkg_resources (tensorboard.default)" in correction.reason
    assert what_wheels_say((BOARD, OLD_SETUPTOOLS), read).corrections == ()


def test_condas_setuptools_counts() -> None:
    conda = Pin("conda", "setuptools", "84.0.0", "conda-forge/noarch", None, provides=("setuptools",))
    assert what_wheels_say((BOARD, conda), read).corrections
    assert not what_wheels_say((BOARD, replace(conda, version="81.0.0")), read).corrections


def test_a_wheel_that_cant_be_read_is_a_value() -> None:
    unread = Unread("pandas-2.0.3.whl", "the index is gone")
    heard = what_wheels_say((PANDAS, NUMPY_2, OLD_SETUPTOOLS), lambda pin, questions: unread)
    assert (heard.corrections, heard.unread) == ((), ((PANDAS, unread),))
