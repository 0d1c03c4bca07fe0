"""Claims asked of the places that a machine knows: conda-forge as recorded, and a mirror of the PyTorch index."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Index
from support.machine import Machine
from support.packages import wheel

from envspec.app.inputs import read_spec
from envspec.lock.model import Artifact, Pin
from envspec.lock.read import load
from envspec.review.verify.ask import ask_all
from envspec.review.verify.claims import claims_of
from envspec.review.verify.indexes import Indexes, ask_channels
from envspec.review.verify.model import Outcome, PinClaim


@pytest.mark.slow
def test_a_shipped_lock_is_what_conda_forge_had(machine: Machine, root: Path, recorded_data: Path) -> None:
    pytest.importorskip("rattler")
    machine.configure(f'conda-forge = "{recorded_data / "conda-forge"}"')
    lock = load(root / "locks" / "hpc-v2.7" / "envspec.lock")
    claims = [claim for claim in claims_of(lock, lock.targets) if claim.pin.kind == "conda"]
    found = ask_channels(claims, read_spec(str(root / "specs" / "hpc-v2.7.toml")), machine.environment())
    assert len(found) == len(claims) > 400
    source = (recorded_data / "conda-forge").as_uri()
    assert set(found.values()) == {Outcome(source)}


@pytest.mark.slow
def test_a_torch_that_the_facts_do_not_have(machine: Machine, root: Path) -> None:
    spec = read_spec(str(root / "specs" / "cpu-py311.toml"))
    torch = wheel("torch", "99.0+cpu", "low")
    pin = Pin("pip", "torch", "99.0+cpu", "pytorch/cpu", Artifact(torch.file, torch.sha256), ("low",), licence="MIT")
    claim = PinClaim(pin, platform="linux-64", python="3.11")
    with Index(prefix="/whl/cpu", form="html") as mirror:
        mirror.add(torch)
        machine.configure(f'pytorch = "{mirror.origin}/whl"')
        indexes = Indexes.of(spec, machine.environment())
        (told,) = ask_all({claim: ("cpu",)}, [pin], indexes, lambda claims: {}, lambda done, total: None)
        assert told.outcome == Outcome(mirror.url)
        forged = replace(claim, pin=replace(pin, dependencies=(), artifact=Artifact(torch.file, torch.sha256, 1)))
        (told,) = ask_all({forged: ("cpu",)}, [pin], indexes, lambda claims: {}, lambda done, total: None)
    assert [one.code for one in told.outcome.differences] == ["other-requirements", "other-size"]
