"""A lock's knowledge of its wheels' code: its own field or the table of wheels gives the findings that `lock` gave."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from envspec.app.inputs import read_spec
from envspec.base.errors import LockError
from envspec.binaries.build_notes import BuildNotes
from envspec.binaries.device_code import CompiledLibrary, DeviceCode, published_code
from envspec.facts.tables import read
from envspec.lock.model import Artifact, Lock, LockedTarget, Pin, TargetInputs
from envspec.lock.pinned import judge_by_gpus, warnings_of, with_fullest_code
from envspec.lock.read import load, loads
from envspec.lock.slice import slice_digest, slice_of
from envspec.lock.write import dumps
from envspec.review.git.merge import merge
from envspec.rules.pins import PinnedVersions, judge_pins
from envspec.rules.wheel_code import WheelBuild, build_of, locked_code
from envspec.spec.parse import parse_spec

GPUS = ("P100", "V100", "T4", "A100", "RTX 4090", "H100", "B200", "B300", "RTX 5090")
SPEC = """\
[env]
python = "3.12"
[pip]
dependencies = ["acme"]
[targets.t]
platform = "linux-64"
cuda = "{}"
gpus = ["{}"]
driver = "{}"
"""


def by_gpus(build: WheelBuild, cuda: str, gpu: str, driver: str) -> set[tuple[str, str, str]]:
    spec = parse_spec(SPEC.format(cuda, gpu, driver), "specs/demo.toml")
    pinned = PinnedVersions({"acme": "1.0"}, read={"acme": build})
    found = judge_pins(spec, spec.targets[0], pinned, by_gpus_alone=True)
    return {(one.severity, one.code, one.message) for one in found}


@pytest.mark.slow
@pytest.mark.parametrize(("cuda", "driver"), [("11.8", "525.85.12"), ("12.8", "570.86.15"), ("13.0", "580.105.08")])
def test_the_locked_code_of_each_published_wheel_gives_the_findings_of_its_libraries(cuda: str, driver: str) -> None:
    told = set()
    for row in read("wheel_code")["wheels"][::3]:
        known = published_code(row["sha256"])
        assert known is not None
        build = WheelBuild(known.notes, known.code)
        code = locked_code(build, cuda)
        assert not code or locked_code(build_of(code), cuda) == code, row["file"]
        for gpu in GPUS if code else ():
            found = by_gpus(build, cuda, gpu, driver)
            assert by_gpus(build_of(code), cuda, gpu, driver) == found, (row["file"], gpu)
            told |= {kind for _, kind, _ in found}
    assert {"wheel-architecture", "ptx-only"} <= told


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("said", [True, False])
def test_what_a_wheel_notes_and_how_it_was_read_is_kept(said: bool, complete: bool) -> None:
    one = CompiledLibrary("a.so", ("9.0a", "10.0f", "7.5"), ("9.0",), "12")
    build = WheelBuild(BuildNotes("12.8", member="b.py"), DeviceCode((one,), listed=said, complete=complete, read=9))
    code = locked_code(build, "12.8")
    words = ("listed",) * said + ("rest-unread",) * (not complete)
    assert code == ("cuda_12.8", "sm_75", "sm_90a", "sm_100f", "compute_90", *words)
    again = build_of(code)
    assert (again.cuda, again.code and again.code.listed) == ("12.8", said)
    assert locked_code(WheelBuild(code=replace(again.code or DeviceCode(), libraries=())), "12.8") == ()
    # the driver compiles none of CUDA 12.8's PTX; of what is read in part, nothing is certain
    found = by_gpus(again, "12.8", "RTX 5090", "570.26")
    assert by_gpus(build, "12.8", "RTX 5090", "570.26") == found and bool(found) is complete
    assert locked_code(WheelBuild(code=DeviceCode((one, replace(one, compiler="11")))), "12.8")[0] == "sm_75"


def test_a_lock_without_code_is_judged_by_the_table_of_wheels(root: Path) -> None:
    spec, lock = read_spec(str(root / "specs/rapids-v26.10.toml")), load(root / "locks/rapids-v26.10/envspec.lock")
    (target,), locked = spec.targets, lock.targets[0]
    assert not any(pin.code for one in lock for pin in one.pins) and not warnings_of(spec, lock)
    found = judge_by_gpus(spec, replace(target, gpus=("P100",)), locked)
    lacking = [one.message for one in found if one.code == "wheel-architecture"]
    assert any(one.startswith("libcudf-cu13 26.10.2 has no code for sm_60 (P100)") for one in lacking)
    # one that moved to another CUDA or platform isn't that target any more
    assert judge_by_gpus(spec, replace(target, gpus=("P100",), cuda="12.6"), locked) == ()
    unread = replace(locked, inputs=replace(locked.inputs, inspect=False))
    assert not any(one.code == "wheel-architecture" for one in judge_by_gpus(spec, target, unread))


def test_of_wheels_for_another_gpu_the_tables_libraries_are_asked_too(root: Path) -> None:
    """No torch decides jax's cuDNN, whose code is a table's."""
    spec, lock = read_spec(str(root / "specs/jax-v0.12.toml")), load(root / "locks/jax-v0.12/envspec.lock")
    target = next(one for one in spec.targets if one.name == "cu12-ampere")
    locked = lock.target("cu12-ampere")
    assert locked is not None
    found = judge_by_gpus(spec, replace(target, gpus=("V100",)), locked)
    assert [(one.severity, one.code) for one in found] == [("error", "library-architecture")]
    assert found[0].remedy == 'write "nvidia-cudnn-cu12<9.11.0.98"'


def with_code(lock: Lock, *code: str, only: str | None = None) -> Lock:
    """A lock whose first pip package has this code, in all targets or one."""
    name = next(pin.name for pin in lock.targets[0].pins if pin.kind == "pip")

    def pins(target: str, old: tuple[Pin, ...]) -> tuple[Pin, ...]:
        here = only in (None, target)
        return tuple(replace(one, code=code) if here and one.name == name else one for one in old)

    return replace(lock, targets=tuple(replace(one, pins=pins(one.name, one.pins)) for one in lock))


@pytest.fixture
def lock(root: Path) -> Lock:
    return load(root / "locks/deit-v2.6/envspec.lock")


def test_the_field_takes_one_line(lock: Lock) -> None:
    locked = with_code(lock, "cuda_12.4", "sm_70", "sm_100f", "compute_90")
    text = dumps(locked)
    assert '\ncode = ["cuda_12.4", "sm_70", "sm_100f", "compute_90"]\n' in text
    assert set(text.splitlines()) - set(dumps(lock).splitlines()) == {
        'code = ["cuda_12.4", "sm_70", "sm_100f", "compute_90"]'
    }
    assert loads(text, "x") == locked
    for wrong, why in (
        (text.replace('"sm_70"', '"sm_70; rm"'), "holds must be"),
        (text.replace('"sm_70", "sm_100f"', '"sm_100f", "sm_70"'), "not as envspec writes it"),
    ):
        with pytest.raises(LockError, match=why):
            loads(wrong, "x")


def test_a_target_with_other_code_says_so_in_place(lock: Lock) -> None:
    one = lock.targets[0].name
    locked = with_code(lock, "sm_70", "sm_90", only=one)
    assert f'code = [\n  {{ holds = "sm_70", targets = ["{one}"] }},\n' in dumps(locked)
    assert loads(dumps(locked), "x") == locked


def test_no_record_loses_its_target_by_the_field(lock: Lock) -> None:
    """The digest of a slice is what the records of docs/evidence name."""
    for old, new in zip(lock, with_code(lock, "sm_70"), strict=True):
        assert slice_digest(slice_of(with_code(lock, "sm_70"), new)) == slice_digest(slice_of(lock, old))


def test_targets_that_load_the_same_of_a_wheel_know_the_same_of_it() -> None:
    wheel = Pin("pip", "acme", "1.0", "pypi", Artifact("acme-1.0-cp312-cp312-linux_x86_64.whl", "a" * 64))
    base = LockedTarget("one", TargetInputs("linux-64", "3.12", None), (wheel,))
    made = {
        name: replace(base, name=name, inputs=replace(base.inputs, cuda=cuda), pins=(replace(wheel, code=code),))
        for name, cuda, code in (
            ("part", "12.8", ("sm_80", "rest-unread")),
            ("whole", "12.8", ("sm_70", "sm_80")),
            ("other", "13.0", ("sm_80", "rest-unread")),
            ("unread", "12.8", ()),
        )
    }
    found = {one.name: one.pins[0].code for one in with_fullest_code(tuple(made.values()))}
    whole = made["whole"].pins[0].code
    assert found == {"part": whole, "whole": whole, "other": made["other"].pins[0].code, "unread": ()}


def test_a_merge_takes_what_is_known_of_more_of_the_wheel(lock: Lock) -> None:
    part, whole = with_code(lock, "sm_80", "rest-unread"), with_code(lock, "sm_70", "sm_80")
    for ours, theirs in ((part, whole), (whole, part)):
        merged = merge(lock, ours, theirs)
        assert merged.lock == whole and not merged.conflicts
    assert merge(whole, lock, whole).lock == lock
