"""What a lock says of files that several wheels have: from every wheel's RECORD, whatever its name."""

from support.index import Index
from support.machine import Machine
from support.packages import wheel

SPEC = """\
[env]
python = "3.12"
[pip]
dependencies = ["zeta", "acme[more]"]
[targets.a]
platform = "linux-64"
[targets.b]
platform = "linux-64"
pip.dependencies = ["beta"]
"""


def test_the_lock_names_what_is_overwritten(machine: Machine, index: Index) -> None:
    def tool(name: str, *requires: str) -> None:
        files = {"shared/mod.py": name.encode(), "space/__init__.py": b""}
        index.add(wheel(name, "1.0", *requires, files=files, extras=["more"]))

    tool("zeta")
    tool("acme", "zeta", "beta; extra == 'none'")
    tool("beta", "acme")
    lock = machine.locked(spec=SPEC)
    over = {target.name: {pin.name: pin.overwrites for pin in target.pins} for target in lock.targets}
    assert over == {
        "a": {"acme": ("zeta",), "zeta": ()},
        "b": {"acme": ("zeta",), "beta": ("acme", "zeta"), "zeta": ()},
    }
    asks = len(index.paths(r"\.whl$"))
    ran = machine.envspec("lock", "specs/demo.toml", "--dry-run", "--upgrade")
    assert "shared/mod.py is in acme and zeta, with different content: acme's stays" in ran.err
    assert len(index.paths(r"\.whl$")) == asks, "RECORDs are kept"
    text = machine.lock_path().read_text()
    machine.lock_path().write_text(text.replace('  "zeta",\n]\nartifacts', '  "beta",\n  "zeta",\n]\nartifacts'))
    checked = machine.envspec("check")
    assert "acme can't overwrite beta, which isn't installed before it" in checked.out
