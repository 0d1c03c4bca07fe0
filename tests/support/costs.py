"""What each test takes of a processor, with its processes: `make test` ends with those that should be slow."""

import os
from collections.abc import Generator

import pytest

SECONDS = 1.0
"""More than twice what the mark `slow` begins at: one measurement on a busy machine is no more exact."""
_BEFORE = pytest.StashKey[float]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_BEFORE] = processor_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        item.user_properties.append(("processor", processor_seconds() - item.stash[_BEFORE]))


def processor_seconds() -> float:
    """Of this process and of its children that ended."""
    return sum(os.times()[:4])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if "not slow" not in config.getoption("markexpr"):
        return
    took = {
        report.nodeid: dict(report.user_properties).get("processor", 0.0)
        for report in terminalreporter.getreports("passed")
    }
    heavy = sorted((name for name in took if took[name] > SECONDS), key=lambda name: -took[name])
    if heavy:
        terminalreporter.section(f"over {SECONDS:g} s of a processor: mark it slow, or make it cheaper")
        for name in heavy:
            terminalreporter.line(f"{took[name]:.1f} s {name}")
