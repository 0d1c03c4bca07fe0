"""A table that is corrected keeps what it said: locks hold it."""

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from envspec.cli.main import run
from envspec.facts import gpus, minimum, toolkits
from envspec.facts.tables import read
from envspec.lock.judge import judge, outdated_facts
from envspec.lock.model import Lock
from envspec.lock.read import load

DERIVED = Path(__file__).parent / "derived.txt"
PLATFORMS = ("linux-64", "linux-aarch64", "win-64")


def derived() -> dict[str, str]:
    """What locks hold of the tables, by what it is of."""
    floors = {
        f"floor {toolkit.version} {platform}": str(toolkits.driver_floor(toolkit.version, platform))
        for toolkit in toolkits.cuda_releases()
        for platform in PLATFORMS
    }
    first = {f"first-driver {name}": str(row.first_driver) for name, row in gpus.capabilities().items()}
    products = {f"architecture {gpu.name}": " ".join(minimum.architectures([gpu.name])) for gpu in gpus.products()}
    return floors | first | products


def test_what_was_released_stands_or_is_kept() -> None:
    """ENVSPEC_UPDATE_GOLDEN=1 adds what is new. What changed stays: give it a row in former.toml."""
    now = derived()
    released = (
        dict(line.rsplit(" = ", 1) for line in DERIVED.read_text("utf-8").splitlines()) if DERIVED.exists() else {}
    )
    if os.environ.get("ENVSPEC_UPDATE_GOLDEN"):
        released = {**now, **released}
        DERIVED.write_text("".join(f"{key} = {value}\n" for key, value in released.items()), "utf-8")
    kept = {row["was"] or "None" for table in ("floors", "architectures", "provides") for row in read("former")[table]}
    changed = {key: value for key, value in released.items() if now.get(key) != value and value not in kept}
    assert changed == {}, "these say something else now, and former.toml doesn't have what they said"
    assert now.keys() == released.keys(), "new rows: ENVSPEC_UPDATE_GOLDEN=1"


def test_each_row_has_a_source() -> None:
    table = read("former")
    rows = [row for name in ("floors", "architectures", "provides") for row in table[name]]
    assert all(row["source"] in table["sources"] and "was" in row for row in rows)


def with_rows(monkeypatch: pytest.MonkeyPatch, **rows: list[dict[str, Any]]) -> None:
    table = {"floors": [], "architectures": [], "provides": [], **rows}
    monkeypatch.setattr(minimum, "read", lambda name: table)


@pytest.fixture
def mm(root: Path) -> Lock:
    return load(root / "locks" / "mm-v2.9" / "envspec.lock")


def at_floor(lock: Lock, floor: str) -> Lock:
    targets = (replace(t, driver_floor=floor) if t.name == "cu130-hopper" else t for t in lock)
    return replace(lock, targets=tuple(targets))


def test_a_floor_of_an_earlier_table_is_sound(mm: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    old = at_floor(mm, "580.50")
    assert [flaw.code for flaw in judge(old)] == ["wrong-driver-floor"]
    with_rows(monkeypatch, floors=[{"cuda": "13.0", "platform": "linux-64", "was": "580.50"}])
    assert judge(old) == ()
    assert outdated_facts(old) == (("cu130-hopper", "the driver floor is 580.65.06, not 580.50"),)
    assert outdated_facts(mm) == ()
    assert judge(at_floor(mm, "580.51")), "nothing else passes for one"
    with_rows(monkeypatch, floors=[{"cuda": "12.8", "was": "580.50"}, {"capability": "12.0", "was": "580.50"}])
    assert judge(old), "nor one of another CUDA, or of other GPUs"


def test_architectures_of_an_earlier_table_are_sound(mm: Lock, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = (replace(t, architectures=("sm_72",)) if t.name == "cu126-volta" else t for t in mm)
    old = replace(mm, targets=tuple(targets))
    assert [flaw.code for flaw in judge(old)] == ["wrong-architectures"]
    product = next(gpu.name for gpu in gpus.find("V100"))
    with_rows(monkeypatch, architectures=[{"gpu": product, "was": "7.2"}])
    assert judge(old) == ()
    assert [target for target, _ in outdated_facts(old)] == ["cu126-volta"]


def test_a_conda_package_that_the_table_did_not_have(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hpc = load(root / "locks" / "hpc-v2.7" / "envspec.lock")

    def provided(names: tuple[str, ...]) -> Lock:
        def changed(pin: Any) -> Any:
            return replace(pin, provides=names) if (pin.kind, pin.name) == ("conda", "pytorch") else pin

        return replace(hpc, targets=tuple(replace(t, pins=tuple(map(changed, t.pins))) for t in hpc))

    assert "wrong-provides" not in {flaw.code for flaw in judge(provided(("pytorch",)))}, "its own name, as before"
    assert "wrong-provides" in {flaw.code for flaw in judge(provided(("libtorch",)))}
    with_rows(monkeypatch, provides=[{"name": "pytorch", "was": "libtorch"}])
    assert "wrong-provides" not in {flaw.code for flaw in judge(provided(("libtorch",)))}


def test_check_is_fresh_and_doctor_tells(
    mm: Lock, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from envspec.lock.store import LockFolder

    with_rows(monkeypatch, floors=[{"cuda": "13.0", "platform": "linux-64", "was": "580.50"}])
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "mm-v2.9.toml").write_bytes((root / "specs" / "mm-v2.9.toml").read_bytes())
    LockFolder(tmp_path / "locks", "mm-v2.9").write(at_floor(mm, "580.50"))
    monkeypatch.chdir(tmp_path)
    assert run(["check"]) == 0
    run(["doctor", "specs/mm-v2.9.toml", "--target", "cu130-hopper", "--driver", "580.65.06"])
    said = capsys.readouterr().out
    assert "[facts-changed]" in said and "the driver floor is 580.65.06, not 580.50" in said
    assert "infeasible" not in said
