"""The files that `lock` downloads whole say their bytes with --verbose, and nothing in --json."""

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import sdist, wheel


@pytest.mark.parametrize("options", [("--verbose",), (), ("--verbose", "--json")])
def test_downloads_are_told(options: tuple[str, ...], machine: Machine, index: Index) -> None:
    index.ranges = index.sidecars = False
    whole, source = wheel("whole", "1.0", padding=1 << 17), sdist("source", "1.0")
    index.add(whole, source)
    machine.spec(cpu("whole", "source", extra="allow-source = ['source']"))
    ran = machine.envspec("lock", *options)
    told = [line.split(":")[0] for line in ran.err.splitlines() if line.startswith("fetched ")]
    assert ran.status == 0, ran.err
    if options == ("--verbose",):
        assert {f"fetched {whole.file}", f"fetched {source.file}"} <= set(told)
        assert f"fetched {source.file}: {len(source.content)} B in" in ran.err
    else:
        assert told == []
