"""What the tests of `envspec lock` share: an index with two packages."""

import pytest
from support.index import Index
from support.packages import wheel


@pytest.fixture
def packages(index: Index) -> Index:
    return index.add(wheel("alpha", "1.0", "beta"), wheel("beta", "1.0"))
