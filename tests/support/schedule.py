"""Which worker runs what: pytest-xdist's own way, without its look at all that is done after each test, and without
its telling of each begin and end that went well."""

from typing import Any

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


def tell_less(config: pytest.Config) -> None:
    """Have a worker send no event that changes nothing: that a test begins, that its fixtures were made and ended. Of
    the four events of a test that passes, the controller then has two to read: its outcome and its end."""
    if config.getoption("durations") is not None or config.getoption("xmlpath") or config.getoption("verbose") > 0:
        return
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugin.sendevent = _without_what_passed(plugin.sendevent)


def _without_what_passed(send: Any) -> Any:
    def send_some(name: str, **values: Any) -> None:
        report = values.get("data") or {}
        around = name == "testreport" and report["when"] != "call" and report["outcome"] == "passed"
        if name != "logstart" and not around:
            send(name, **values)

    return send_some


class Forgetful(LoadGroupScheduling):  # type: ignore[misc]
    """Forgets what is finished, knows each test's place, and hands out some units at once while many are left. The
    original looks through all tests for each of these, and sends a message for each unit."""

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        super().mark_test_complete(node, item_index, duration)
        work = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(work[scope].values()):
            del work[scope]

    def _assign_work_unit(self, node: WorkerController) -> None:
        places = self._places(self.registered_collections[node])
        wanted: list[int] = []
        # the last ones are handed out one by one, so that no worker has several left when the others have none
        for _ in range(max(1, min(AT_ONCE, len(self.workqueue) // (AT_ONCE * AT_ONCE)))):
            scope, unit = self.workqueue.popitem(last=False)
            self.assigned_work.setdefault(node, {})[scope] = unit
            wanted += [places[test] for test, done in unit.items() if not done]
        node.send_runtest_some(wanted)

    def _places(self, collection: list[str]) -> dict[str, int]:
        """By a test's id, its place in the collection, which is the same for all workers."""
        if not hasattr(self, "_found"):
            self._found = {test: place for place, test in enumerate(collection)}
        return self._found


AT_ONCE = 8
"""Units. A worker asks for more when two tests are left to it."""
