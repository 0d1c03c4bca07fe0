"""Which worker runs what: pytest-xdist's own way, without its look at all that is done after each test."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped]
from xdist.workermanage import WorkerController  # type: ignore[import-untyped]


def put_into(item: pytest.Item, group: str) -> None:
    """Say in a worker that a test is of a group, by the end of its id, where the scheduler looks.

    pytest-xdist 3.8 writes it where pytest 9.1 and older had a test's id: with newer ones, no group stays together.
    """
    if hasattr(item, "_id"):
        from _pytest.nodeid import coerce_node_id

        item._id = coerce_node_id(f"{item.nodeid}@{group}")


class Forgetful(LoadGroupScheduling):  # type: ignore[misc]
    """Forgets what is finished. The original counts through it after each test, a twentieth of the run's time."""

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(work[scope].values()):
            del work[scope]
