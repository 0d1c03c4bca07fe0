"""What link knows of wheels that nobody has read here: it comes with envspec."""

from pathlib import Path

import pytest

from envspec.binaries.elf import X86_64, DynamicFacts
from envspec.facts.cuda_stack import TORCH, is_toolkit
from envspec.lock.model import Pin
from envspec.lock.read import load, loads
from envspec.prove.link import store as module
from envspec.prove.link.judge import judge
from envspec.prove.link.model import ElfFile, LinkedPackage, WheelFacts
from envspec.prove.link.store import MACHINES, LinkStore, pack, shipped_facts
from envspec.prove.link.system import System, is_read, runtime_of_glibc

ROOT = Path(__file__).resolve().parents[3]
FACTS = WheelFacts((ElfFile("acme/_C.so", DynamicFacts(needed=("libc10.so",), exported=("PyInit__C",))),))


def pins(name: str, target: str) -> list[Pin]:
    place = ROOT / "locks" / name / "envspec.lock"
    lock = loads(place.read_text(), str(place))
    (chosen,) = (one for one in lock.targets if one.name == target)
    return [pin for pin in chosen.pins if (pin.name in TORCH or is_toolkit(pin.name)) and is_read(pin)]


def packages(name: str, target: str) -> list[LinkedPackage]:
    found = []
    for pin in pins(name, target):
        assert pin.artifact
        facts = shipped_facts(pin.artifact.sha256, X86_64)
        assert facts is not None, pin.artifact.file
        found.append(LinkedPackage(pin.name, pin.version, pin.artifact.file, facts))
    return found


def system() -> System:
    return System((2, 28), runtime_of_glibc((2, 28)), "3.12", driver=True, cuda="12.8", base="debian:bookworm-slim")


def extension(*symbols: str) -> LinkedPackage:
    facts = DynamicFacts(needed=("libtorch_cpu.so",), undefined=symbols, exported=("PyInit__C",))
    return LinkedPackage("acme", "1.0", "acme-1.0.whl", WheelFacts((ElfFile("acme/_C.so", facts),)))


def test_equal_facts_are_equal_bytes(tmp_path: Path) -> None:
    one, other = tmp_path / "one.zip", tmp_path / "other.zip"
    pack({("b" * 64, 62): FACTS, ("a" * 64, 183): WheelFacts()}, one)
    pack({("a" * 64, 183): WheelFacts(), ("b" * 64, 62): FACTS}, other)
    assert one.read_bytes() == other.read_bytes()


def test_the_cache_comes_first_and_what_is_shipped_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack({("b" * 64, 62): FACTS}, tmp_path / "linked.zip")
    monkeypatch.setattr(module, "SHIPPED", tmp_path / "linked.zip")
    store = LinkStore(tmp_path)
    assert store.get("b" * 64, 62) == FACTS
    assert store.get("b" * 64, 183) is None
    store.put("b" * 64, 62, WheelFacts())
    assert store.get("b" * 64, 62) == WheelFacts()


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06" + bytes(18)])
def test_a_damaged_archive_has_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    (tmp_path / "linked.zip").write_bytes(content)
    monkeypatch.setattr(module, "SHIPPED", tmp_path / "linked.zip")
    assert shipped_facts("b" * 64, 62) is None


TORCH_2_1, TORCH_2_6, TORCH_2_9 = ("mm-v2.1", "cu121"), ("deit-v2.6", "cu124"), ("mm-v2.9", "cu128-hopper")


@pytest.mark.by_day(2)
@pytest.mark.parametrize("lock", [TORCH_2_1, TORCH_2_6, TORCH_2_9, ("team-v2.9", "cu128-hopper"), ("cpu-py311", "cpu")])
def test_torch_and_its_cuda_fit_each_other(lock: tuple[str, str]) -> None:
    assert [one for one in judge(packages(*lock), system()) if one.severity == "error"] == []


@pytest.mark.slow
def test_the_page_names_each_target_of_the_shipped_locks_where_it_belongs() -> None:
    """The rows of docs/link.md: of which targets' torch and CUDA wheels nothing has to be read."""
    rows = [line for line in (ROOT / "docs" / "link.md").read_text().splitlines() if line.startswith("| ")]
    for path in sorted(ROOT.glob("locks/*/envspec.lock")):
        for target in load(path).targets:
            found = pins(path.parent.name, target.name)
            facts = [
                shipped_facts(pin.artifact.sha256, MACHINES[target.inputs.platform]) for pin in found if pin.artifact
            ]
            if not {"torch", "pytorch"} & {pin.name for pin in target.pins}:
                continue
            known = bool(found) and all(one is not None for one in facts)
            (row,) = [row for row in rows if _names(row, path.parent.name, target.name)]
            assert row.endswith(("| torch and CUDA |", "| torch |")) == known, row


def _names(row: str, lock: str, target: str) -> bool:
    groups = [part.replace(" and ", " ").replace(",", " ").split() for part in row.split("|")[1].split(";")]
    return any(lock in words and target in words for words in groups)


STABLE, LATER_STABLE = "aoti_torch_empty_strided", "torch_of_a_later_release"
UNSTABLE, GONE = "_ZN3c104warnERKNS_7WarningE", "_ZN3c1015SymbolicShapeV9Ev"
OLD_STRINGS = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("lock", "symbol", "fits"),
    [
        (TORCH_2_1, STABLE, False),
        (TORCH_2_6, STABLE, True),
        (TORCH_2_9, STABLE, True),
        (TORCH_2_9, LATER_STABLE, False),
        (TORCH_2_1, OLD_STRINGS, True),
        (TORCH_2_6, OLD_STRINGS, True),
        (TORCH_2_9, OLD_STRINGS, False),
        (TORCH_2_9, UNSTABLE, True),
        (TORCH_2_9, GONE, False),
    ],
)
def test_an_extension_beside_a_torch_that_was_never_fetched(lock: tuple[str, str], symbol: str, fits: bool) -> None:
    """Symbols judge: what uses the stable ABI alone fits every torch that has it, whatever it was built with."""
    found = judge([*packages(*lock), extension(symbol)], system())
    told = [(one.code, one.evidence.names) for one in found if one.package == "acme"]
    assert told == ([] if fits else [("symbol-missing", (symbol,))])
