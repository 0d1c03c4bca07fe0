"""The real index gives what results.toml says: as many packages, and the same differences from uv's answer."""

from pathlib import Path

import pytest

from envspec.net.index_proxy.server import open_proxy
from stacks.__main__ import CACHES
from stacks.answers import envspec_answer, uv_answer
from stacks.flat_pages import flat_page
from stacks.projects import Project, projects
from stacks.results import read_results, result_of

RESULTS = read_results()
pytestmark = [pytest.mark.network, pytest.mark.nightly]


@pytest.mark.parametrize(
    "project", [one for one in projects().values() if one.name in RESULTS], ids=lambda one: one.name
)
def test_what_the_table_says(project: Project, tmp_path: Path) -> None:
    with open_proxy() as proxy, flat_page(project) as page:
        ours = envspec_answer(project.spec_path, CACHES / "envspec", tmp_path, page=page)
        theirs = uv_answer(project.spec(), CACHES / "uv", tmp_path, proxy, page=page)
    found, known = result_of(ours, theirs), RESULTS[project.name]
    assert (found.packages, found.differs) == (known.packages, known.differs), found.told or found.uv_told
