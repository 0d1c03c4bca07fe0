"""Rows of the tables made again from the binaries of PyPI's wheels, read by ranges: 10 MB of each 400 to 900."""

import pytest

from envspec.facts import torch_builds
from tools.refresh.__main__ import _pypi
from tools.refresh.published import wheels
from tools.refresh.torch_table import read_wheel

pytestmark = [pytest.mark.network, pytest.mark.nightly]


@pytest.mark.parametrize("release", ["2.4.1", "2.9.1", "2.12.1", "2.14.1"])
def test_a_row_says_what_its_wheel_says(release: str) -> None:
    index = _pypi()
    named = [one for one in wheels(index.files("torch")) if (one.version, one.platform) == (release, "linux-64")]
    known = torch_builds.release(release)
    assert known
    (row,) = torch_builds.builds(release, platform="linux-64", variant=known.pypi["linux-64"])
    assert {one.python for one in named} == set(row.pythons)
    found = read_wheel(named[0], index)
    assert found.flags is not None and found.cuda is not None
    assert (row.variant, row.sm, row.ptx) == (torch_builds.variant_of(found.cuda), found.flags.sm, found.flags.ptx)
    declared = found.declared
    assert (row.cudnn, row.nccl, row.triton) == (declared.cudnn, declared.nccl, declared.triton)
