"""A spec gets a base, loses it or gets another one after it was locked: one error, in each command that makes anything
of the lock, since that holds what comes on top of the base that it was made for."""

import pytest
from support.installs import SPEC, pip_pin, write_lock
from support.machine import Machine
from support.packages import wheel

from envspec.app.export.render import CHOICES

pytestmark = pytest.mark.e2e

COMMANDS = [
    *(("export", SPEC, "--format", name, "-o", "out") for name in CHOICES),
    *(("bundle", SPEC, "-o", "x.tar"), ("install", SPEC, "--prefix", "env"), ("image", SPEC, "-o", "x")),
    *(("smoke", SPEC), ("link", SPEC), ("verify", SPEC)),
]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", ["prefix", "image", "sif"])
def test_a_base_that_was_added(machine: Machine, kind: str) -> None:
    """`export` and `bundle` ended with `KeyError: 'linux-64'`."""
    write_lock(machine, [pip_pin(wheel("alpha", "1.0"))])
    path = machine.folder / SPEC
    place = {"prefix": "/opt/own", "image": "acme/base:1", "sif": "own.sif"}[kind]
    text = path.read_text().replace("[conda]\nchannels = []\ndependencies = []\n", "")
    path.write_text(f'{text}[base]\n{kind} = "{place}"\n')
    for words in COMMANDS:
        ran = machine.envspec(*words)
        assert ran.status == 2 and ran.err.count("error: ") == 1, (words, ran.err)
        said = f"the lock was made for no base, and the spec has {kind} {place}"
        assert said in ran.err or "doesn't know [base]" in ran.err, (words, ran.err)
        assert "warning: " not in ran.err, ran.err
    ran = machine.envspec("run", SPEC, "--", "true", spawn=True)
    assert ran.status == 1 and f"the base was set to {kind} {place}" in ran.err, ran.err
    assert machine.envspec("check", SPEC).status == 1
