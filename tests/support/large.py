"""Tests that download several GB, one after the other on a machine with room for one."""

import shutil
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def own_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """uv's, pip's and envspec's caches for one file of tests, gone after it."""
    folder = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("UV_CACHE_DIR", "PIP_CACHE_DIR", "ENVSPEC_CACHE_DIR"):
            patch.setenv(name, str(folder / name))
        yield
    shutil.rmtree(folder)


def drop_files(item: pytest.Item) -> None:
    """Remove the folder of a test that is over, whose environments pytest would keep for three runs."""
    if item.get_closest_marker("huge") and (folder := getattr(item, "funcargs", {}).get("tmp_path")):
        shutil.rmtree(folder, ignore_errors=True)
