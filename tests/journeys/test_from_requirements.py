"""From a folder with nothing but a requirements.txt to a lock that is fresh, in two commands."""

from support.index import Index
from support.machine import Machine
from support.packages import wheel


def test_from_a_requirements_txt_to_a_fresh_lock(machine: Machine, index: Index) -> None:
    index.add(wheel("alpha", "1.0", "beta"), wheel("alpha", "2.0", "beta"), wheel("beta", "1.0"), wheel("beta", "2.0"))
    (machine.folder / "requirements.txt").write_text("-c bounds.txt\nalpha >= 1, < 2\n", encoding="utf-8")
    (machine.folder / "bounds.txt").write_text("beta==1.0\n", encoding="utf-8")
    ran = machine.envspec("lock")
    assert ran.status == 2 and ran.hint == "hint: begin one: envspec init NAME --from requirements.txt"
    machine.envspec("init", "demo", "--from", "requirements.txt", status=0)
    machine.locked()
    assert machine.versions("cpu") == {"alpha": "1.0", "beta": "1.0"}
    assert machine.envspec("check").status == 0
