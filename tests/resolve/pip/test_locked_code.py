"""The code for GPUs that `lock` read in wheels stands in the lock, and doctor, check and lock ask it again."""

import json

import pytest
from resolutions import targets
from support.cubins import cubin
from support.documents import valid
from support.index import Index
from support.machine import Machine, cpu
from support.packages import Dist, wheel

pytestmark = pytest.mark.e2e

TAG = "cp312-cp312-manylinux_2_28_x86_64"
SPEC = "specs/demo.toml"


def held(*architectures: int) -> Dist:
    """A wheel with machine code for these, the first ones far before the last."""
    first, *rest = architectures
    code = cubin(first, abi=7) * (20 if rest else 1) + b"".join(cubin(one, abi=7) for one in rest)
    return wheel("xformers", "99.0", tag=TAG, files={"xformers/_C.so": b"\x7fELF" + code})


def spec(machine: Machine, *gpus: str) -> str:
    of = {f"t{at}": f"platform = 'linux-64'\ncuda = '12.8'\ngpus = ['{gpu}']" for at, gpu in enumerate(gpus)}
    return machine.spec(cpu("xformers", targets=targets(**of)))


def said(text: str) -> str:
    return " ".join(text.split())


LACKS = "xformers 99.0 has no code for sm_70 (V100): its wheel's code for CUDA 12.8 is for 8.0"


def test_what_lock_warned_of_is_warned_of_again(machine: Machine, index: Index) -> None:
    index.add(held(80))
    ran = machine.envspec("lock", spec(machine, "V100"), status=0)
    assert LACKS in said(ran.err)
    assert 'code = ["sm_80"]\n' in machine.lock_path().read_text()
    index.asked.clear()
    for words in (("doctor", SPEC, "--gpu", "V100"), ("check", SPEC), ("lock", SPEC), ("lock", SPEC, "--dry-run")):
        ran = machine.envspec(*words, "--offline") if words[-1] == "--dry-run" else machine.envspec(*words)
        assert ran.status == 0 and LACKS in said(ran.out + ran.err), (words, ran.out, ran.err)
    assert not index.asked
    (state,) = valid(machine.envspec("check", SPEC, "--json").out, "check")["specs"]
    (reason,) = state["reasons"]
    assert (state["status"], reason["severity"], reason["code"]) == ("fresh", "warning", "wheel-architecture")
    assert reason["targets"] == ["t0"] and reason["message"] == LACKS
    assert "its code for GPUs: envspec doesn't read the wheel again" in said(machine.envspec("verify", SPEC).out)


def test_a_lock_for_another_gpu_says_what_lock_would(machine: Machine, index: Index) -> None:
    index.add(held(80))
    assert machine.envspec("lock", spec(machine, "A100"), status=0).err.count("no code") == 0
    ran = machine.envspec("doctor", SPEC, "--gpu", "V100", "--json")
    (target,) = json.loads(ran.out)["targets"]
    assert ran.status == 0 and target["status"] == "feasible"
    found = [(one["severity"], one["message"]) for one in target["findings"] if one["code"] == "wheel-architecture"]
    assert found == [("warning", LACKS)]
    assert machine.envspec("check", SPEC, status=0).out.count("xformers") == 0
    assert "xformers" not in machine.envspec("doctor", SPEC, "--gpu", "RTX 3090").out
    # what the machine can't do at all is said alone
    assert "xformers" not in machine.envspec("doctor", SPEC, "--gpu", "K80", status=1).out


def test_an_accepted_finding_stays_accepted(machine: Machine, index: Index) -> None:
    index.add(held(80))
    path = spec(machine, "V100")
    machine.spec(cpu("xformers", extra="accept = { wheel-architecture = 'tried' }", targets=targets(
        t0="platform = 'linux-64'\ncuda = '12.8'\ngpus = ['V100']")))  # fmt: skip
    machine.envspec("lock", path, status=0)
    assert "xformers" not in machine.envspec("check", SPEC, status=0).out
    assert "accepted [wheel-architecture]: tried" in machine.envspec("doctor", SPEC, "--gpu", "V100").out


def test_without_inspection_nothing_is_known(machine: Machine, index: Index) -> None:
    index.add(held(80))
    machine.spec(cpu("xformers", extra="inspect = false", targets=targets(
        t0="platform = 'linux-64'\ncuda = '12.8'\ngpus = ['V100']")))  # fmt: skip
    machine.envspec("lock", SPEC, status=0)
    assert "code = " not in machine.lock_path().read_text()
    assert "xformers" not in machine.envspec("check", SPEC, status=0).out


def test_what_was_read_in_part_is_said_to_be(machine: Machine, index: Index) -> None:
    """Of the whole wheel lock asks where the target's GPU needs it: then all targets, and no other lock, say it so."""
    index.add(held(80, 70))
    machine.envspec("lock", spec(machine, "A100"), status=0)
    alone = machine.lock_path().read_bytes()
    assert b'code = ["sm_80", "rest-unread"]\n' in alone
    ran = machine.envspec("doctor", SPEC, "--gpu", "V100")
    assert ran.status == 0 and "warning" in ran.out and "xformers 99.0 may have no code for sm_70" in said(ran.out)
    assert machine.envspec("lock", spec(machine, "A100", "V100"), status=0).err.count("no code") == 0
    assert machine.lock_path().read_text().count('code = ["sm_70", "sm_80"]\n') == 1
    assert machine.envspec("doctor", SPEC, "--gpu", "V100").out.count("xformers") == 0
    # the cache knows all of the wheel now, and the first lock is made again with the same bytes
    machine.lock_path().unlink()
    machine.envspec("lock", spec(machine, "A100"), status=0)
    assert machine.lock_path().read_bytes() == alone


def test_a_target_that_is_locked_later_tells_the_others(machine: Machine, index: Index) -> None:
    index.add(held(80, 70))
    machine.envspec("lock", spec(machine, "A100"), status=0)
    machine.envspec("lock", spec(machine, "A100", "V100"), "--target", "t1", status=0)
    assert {pin.code for target in machine.lock() for pin in target.pins} == {("sm_70", "sm_80")}
    assert machine.envspec("check", SPEC).status == 0


def test_each_cuda_has_the_code_that_it_loads(machine: Machine, index: Index) -> None:
    """bitsandbytes has a library for each CUDA."""
    names = {f"bitsandbytes/libbitsandbytes_cuda{cuda}.so": cubin(sm, abi=7) for cuda, sm in ((128, 70), (130, 90))}
    index.add(wheel("bitsandbytes", "99.0", tag=TAG, files=names))
    of = {f"cu{one}": f"platform = 'linux-64'\ncuda = '{one}.0'\ngpus = ['H100']" for one in (12, 13)}
    machine.spec(cpu("bitsandbytes", targets=targets(**of)))
    ran = machine.envspec("lock", SPEC, status=0)
    assert "has no code for sm_90 (H100" in said(ran.err) and "for CUDA 12.0 is for 7.0" in said(ran.err)
    text = machine.lock_path().read_text()
    assert '{ holds = "sm_70", targets = ["cu12"] }' in text and '{ holds = "sm_90", targets = ["cu13"] }' in text
    assert machine.lock().target("cu12") is not None and text.count('name = "bitsandbytes"') == 1
    assert "for CUDA 12.0 is for 7.0" in said(machine.envspec("check", SPEC, status=0).out)
