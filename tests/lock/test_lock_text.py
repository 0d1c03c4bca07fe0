"""The lock's format: golden text, round trips, and what reading refuses."""

import hashlib
import random
import re
from pathlib import Path

import pytest
import tomli
from hypothesis import given, strategies as st
from lock_samples import artifact, inputs, sample_lock, wheel
from lock_strategies import locks, texts
from msgspec import structs

from envspec.base.errors import InternalError, LockError, StorageError
from envspec.lock.judge import judge
from envspec.lock.model import Lock, LockedImage, LockedTarget, Pin, SpecInputs
from envspec.lock.read import load, loads
from envspec.lock.toml_text import inline_strings, key, string
from envspec.lock.write import HEADER, dumps

GOLDEN = Path(__file__).parent / "golden"
SAMPLE = dumps(sample_lock())


def changed(old: str, new: str) -> str:
    assert old in SAMPLE
    return SAMPLE.replace(old, new, 1)


def one_target(*pins: Pin) -> Lock:
    return Lock("one", SpecInputs(), (LockedTarget("cpu", inputs(), pins),))


def test_golden() -> None:
    assert (GOLDEN / "sample.lock").read_text(encoding="utf-8") == SAMPLE


@given(locks())
def test_reading_gives_back_what_was_written(lock: Lock) -> None:
    text = dumps(lock)
    assert loads(text, "x") == lock
    assert dumps(loads(text, "x")) == text


@pytest.mark.slow
@given(locks(), st.randoms(use_true_random=False))
def test_order_does_not_matter(lock: Lock, shuffle: random.Random) -> None:
    def mixed(values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(shuffle.sample(values, len(values)))

    def mixed_pin(pin: Pin) -> Pin:
        return structs.replace(pin, dependencies=mixed(pin.dependencies))

    targets = [
        structs.replace(
            target,
            pins=tuple(mixed_pin(pin) for pin in shuffle.sample(target.pins, len(target.pins))),
            inputs=structs.replace(target.inputs, requirements=target.inputs.requirements),
        )
        for target in lock
    ]
    shuffle.shuffle(targets)
    assert dumps(structs.replace(lock, targets=tuple(targets))) == dumps(lock)


@given(texts)
def test_strings_come_back_and_hide_nothing(text: str) -> None:
    written = f"{key(text)} = {string(text)}\nmany = {inline_strings([text, text])}\n"
    if text != "many":
        assert tomli.loads(written) == {text: text, "many": [text, text]}
    assert len(written.splitlines()) == 2
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]", written)


def test_a_bump_in_every_target_is_one_hunk() -> None:
    def at(version: str) -> list[str]:
        pins = (wheel("aaa", "1"), wheel("numpy", version), wheel("zzz", "1"))
        targets = tuple(LockedTarget(f"t{n}", inputs("numpy"), pins) for n in range(6))
        return dumps(Lock("six", SpecInputs(), targets)).splitlines()

    old, new = at("2.3.1"), at("2.3.2")
    differing = [number for number, (one, two) in enumerate(zip(old, new, strict=True), 1) if one != two]
    assert [old[number - 1].split(" = ")[0] for number in differing] == ["version", "  { file"]
    assert differing[-1] - differing[0] <= 5


def test_images_are_one_a_line_and_cost_a_lock_without_them_nothing() -> None:
    names = ("debian:bookworm-slim", "a/b:1")
    digests = {name: f"sha256:{hashlib.sha256(name.encode()).hexdigest()}" for name in names}
    lock = structs.replace(sample_lock(), images=tuple(LockedImage(*item) for item in digests.items()))
    added = [line for line in dumps(lock).splitlines() if line not in SAMPLE.splitlines()]
    assert added == [
        "[images]",
        f'"a/b:1" = "{digests["a/b:1"]}"',
        f'"debian:bookworm-slim" = "{digests["debian:bookworm-slim"]}"',
    ]
    with pytest.raises(InternalError, match="an image twice"):
        dumps(structs.replace(lock, images=(*lock.images, lock.images[0])))


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ("images = 3\n", "must be a table"),
        ('images."a b" = "x"\n', "can't name an image"),
        ('images."a@sha256:b" = "x"\n', "can't name an image"),
        ('images."a\\nRUN b" = "x"\n', "a key in images contains"),
        ('images.a = "sha256:12"\n', "64 hexadecimal digits, not 'sha256:12'"),
        ("images.a = 7\n", "64 hexadecimal digits, not 7"),
        (f'images.a = "sha256:{"0" * 64}"\n', "not as envspec writes it"),
    ],
)
def test_images_that_no_recipe_may_have(images: str, message: str) -> None:
    with pytest.raises(LockError, match=re.escape(message)):
        loads(HEADER + images + SAMPLE.removeprefix(HEADER), "x")


def test_what_differs_between_targets_is_said_in_place() -> None:
    def numpy(tag: str, *requires: str, direct: bool) -> Pin:
        return structs.replace(wheel("numpy", "2.3.1", *requires, direct=direct), artifact=artifact(tag))

    pins = {
        "a": numpy("x.whl", "all", "only-a", direct=True),
        "b": numpy("y.whl", "all", direct=False),
        "c": numpy("y.whl", "all", direct=False),
    }
    lock = Lock("x", SpecInputs(), tuple(LockedTarget(name, inputs(), (pin,)) for name, pin in pins.items()))
    text = dumps(lock)
    assert text.count("[[pip]]") == 1
    assert '\ndirect = ["a"]\n' in text
    assert '  { requires = "only-a", targets = ["a"] },\n' in text
    assert '  "all",\n' in text
    assert re.search(r'  { file = "y.whl", .* targets = \["b", "c"\] },\n', text)
    assert loads(text, "x") == lock


def test_what_a_file_can_not_hold_is_refused() -> None:
    for lock in (
        Lock("none", SpecInputs(), ()),
        one_target(wheel("numpy", "1"), wheel("numpy", "2")),
        one_target(wheel("numpy", "1", licence="\ud800")),
    ):
        with pytest.raises(InternalError):
            dumps(lock)


@given(st.integers(0, len(SAMPLE.encode()) - 1), st.integers(1, 255))
def test_a_changed_byte_is_refused_or_another_lock(position: int, difference: int) -> None:
    content = bytearray(SAMPLE.encode())
    content[position] ^= difference
    try:
        lock = loads(content.decode(), "x")
    except (LockError, UnicodeDecodeError):
        return
    assert dumps(lock).encode() == content, "it says what its text says; whether that can be right, the judge says"
    assert lock != sample_lock()


@given(st.integers(0, len(SAMPLE) - 1))
def test_a_cut_is_refused_or_lacks_what_the_judge_misses(length: int) -> None:
    try:
        lock = loads(SAMPLE[:length], "locks/x/envspec.lock")
    except LockError:
        return
    assert "requirement-missing" in {flaw.code for flaw in judge(lock)}


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        ("", "empty", 0),
        (" \n", "empty", 0),
        (SAMPLE.replace("\n", "\r\n"), "Windows line ends", 0),
        (SAMPLE.replace("lock-version = 5", "lock-version = 6"), "schema 6", 0),
        (SAMPLE.replace("lock-version = 5", "lock-version = 0"), "doesn't begin with its `lock-version`", 0),
        (SAMPLE.replace("lock-version = 5\n", ""), "doesn't begin with its `lock-version`", 0),
        (SAMPLE.replace("[env]", "<<<<<<< HEAD\n[env]"), "merge conflict", 5),
        (SAMPLE + "\n", "not as envspec writes it", SAMPLE.count("\n") + 1),
        (SAMPLE.replace("Not for editing", "Not for  editing"), "not as envspec writes it", 1),
    ],
)
def test_what_is_not_whole(text: str, message: str, line: int) -> None:
    with pytest.raises(LockError, match=message) as caught:
        loads(text, "locks/x/envspec.lock")
    assert caught.value.hint
    assert caught.value.place
    assert caught.value.place.line == line


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "clip"', 'naem = "clip"', r'\[\[pip\]\]: unknown key "naem"'),
        ('name = "clip"\n', "", r"\[\[pip\]\]: name is missing"),
        ('name = "clip"', "name = 3", r"name must be a string, not 3"),
        ('name = "clip"', 'name = "../clip"', r"name must be a package's name"),
        ("size = 1000", "size = true", r"size must be an integer, not True"),
        ("direct = true", "direct = false", r"direct is true or a list of targets"),
        ('targets = ["cpu"]', 'targets = ["gpu"]', r'"gpu" is not one of the targets'),
        ('targets = ["cpu"]', "targets = []", r"an empty list of targets"),
        ('name = "sample"', 'name = "Sample"', r"name can't be 'Sample'"),
        ('index = "pypi"', 'index = "pypi\\n"', r"pip\.deepspeed\.index contains the invisible character '\\n'"),
        ('index = "pypi"', 'index = "pypi/../../x"', r"index must be the name of an index"),
        ('commit = "0123', 'commit = "v123', r"commit must be a full commit"),
        ("sha256 = ", "sha512 = ", r'unknown key "sha512"'),
        ('platform = "linux-64"\n', "", r"platform is missing"),
        ('[targets."cu128.hopper"]', '[targets."../hopper"]', r'"../hopper" can\'t name a target'),
        ('name = "sample"', 'name = "../sample"', r"name must be a package's name, not '../sample'"),
        ("[env.sources]", "[env.source]", r'\[env\]: unknown key "source"'),
        (
            'acme-models = "internal"',
            'acme-models = "pypi/../../x"',
            r"acme-models must be the name of an index, not 'pypi/\.\./\.\./x'",
        ),
        ('acme-models = "internal"', 'acme-models = ["internal"]', r"acme-models must be the name of an index"),
        ('acme-models = "internal"', '"a/b" = "internal"', r"a/b must be a package's name"),
        ("[env]", "[evn]", r'unknown table "evn"'),
        ('python = "3.12"', "python = 2026-11-01", r"python must be"),
        ('glibc = "2.28"', 'fingerprint = "sha256:0"', r'unknown key "fingerprint"'),
        ("{ file = ", "{ yanked = true, file = ", r'\[\[conda\]\]: unknown key "yanked"'),
        ("[[pip]]", "[[pip", r"not TOML"),
        ('index = "pypi"', 'index  =  "pypi"', r"not as envspec writes it"),
    ],
)
def test_what_is_not_allowed(old: str, new: str, message: str) -> None:
    text = changed(old, new)
    with pytest.raises(LockError, match=message) as caught:
        loads(text, "x")
    assert caught.value.place
    assert caught.value.place.line
    assert message != "not TOML" or caught.value.place.column
    # The line is that of the value, or that of its table's header.
    line = text.splitlines()[caught.value.place.line - 1]
    assert line.startswith((caught.value.message.split(": ")[0], new.split(" ")[0], "  {", "git = {"))


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "envspec.lock"
    with pytest.raises(LockError, match="there is no lock here"):
        load(path)
    with pytest.raises(LockError, match="a folder"):
        load(tmp_path)
    path.write_bytes(SAMPLE.encode() + b"\n\xff")
    with pytest.raises(LockError, match="not UTF-8") as caught:
        load(path)
    assert caught.value.place
    assert caught.value.place.line == SAMPLE.count("\n") + 2
    path.write_bytes(SAMPLE.encode())
    assert load(path) == sample_lock()
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(StorageError):
        load(loop)
