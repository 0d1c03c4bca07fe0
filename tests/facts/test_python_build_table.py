"""The builds of Python that images bring: one for each version and platform, named as their publisher names them."""

from __future__ import annotations

import re

from envspec.facts.python_builds import python_build, python_builds


def test_each_row_is_a_build_of_its_version() -> None:
    found = python_builds()
    assert len({(one.python, one.platform) for one in found}) == len(found)
    assert len({one.sha256 for one in found}) == len(found)
    for one in found:
        assert one.version.startswith(f"{one.python}.") and re.fullmatch("[0-9a-f]{64}", one.sha256)
        assert re.fullmatch(r"20\d{6}", one.build)


def test_every_python_that_is_supported_has_a_build_for_each_platform() -> None:
    for minor in range(10, 15):
        for platform in ("linux-64", "linux-aarch64"):
            build = python_build(f"3.{minor}", platform)
            assert build is not None and build.file.endswith("-unknown-linux-gnu-install_only_stripped.tar.gz")
    assert python_build("3.7", "linux-64") is None
