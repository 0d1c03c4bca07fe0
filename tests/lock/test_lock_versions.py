"""A lock of a schema from before the first release is refused by whatever reads it, and `lock` writes it anew."""

import re

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel

from envspec.lock.model import LOCK_VERSION

SPEC = "specs/demo.toml"
SAID = "it was written before envspec's first release"
READERS = [
    ("check", SPEC),
    ("install", SPEC, "--prefix", "p"),
    ("export", SPEC, "--format", "dockerfile", "-o", "out"),
    ("verify", SPEC),
    ("diff", SPEC),
    ("tree", SPEC),
]


@pytest.mark.by_day(2)
@pytest.mark.parametrize("schema", range(1, LOCK_VERSION))
def test_it_is_refused_and_lock_writes_it_anew(machine: Machine, index: Index, schema: int) -> None:
    index.add(wheel("alpha", "1.0"))
    machine.spec(cpu("alpha"))
    machine.locked()
    path = machine.lock_path()
    written = path.read_text("utf-8")
    path.write_text(re.sub("^lock-version = .", f"lock-version = {schema}", written, flags=re.M), "utf-8")
    for words in READERS:
        ran = machine.envspec(*words)
        output = " ".join((ran.out + ran.err).split())
        assert ran.status in (1, 2), (words, output)
        assert f"the lock has schema {schema}: {SAID}" in output and "envspec lock" in output, (words, output)
    machine.envspec("lock", SPEC, status=0)
    assert path.read_text("utf-8") == written
