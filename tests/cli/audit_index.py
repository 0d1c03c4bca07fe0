"""An index, and what it says of the packages that an audit asks about."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_project import TWO, Envspec, Project, served, without_settings
from support.audit import Pypi
from support.documents import valid
from support.packages import wheel

APP, LIB, OWN = wheel("app", "1.4", "lib"), wheel("lib", "2.5"), wheel("own", "1.0")


OLD = "2020-01-01T00:00:00.000000Z"


PATH = "specs/demo.toml"


@pytest.fixture
def pypi(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pypi]:
    """The user's PyPI, which knows app 1.4 and lib 2.5, both old and sound."""
    without_settings(monkeypatch, tmp_path / "home")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    project.spec(TWO)
    project.lock(lambda target: (served(APP, "lib"), served(LIB)))
    running = Pypi()
    with running:
        running.add(APP, LIB, uploaded=OLD)
        running.know("app", "1.4")
        running.know("lib", "2.5")
        monkeypatch.setenv("UV_DEFAULT_INDEX", running.url)
        yield running


def as_json(envspec: Envspec, *arguments: str, code: int = 0) -> dict[str, Any]:
    told = envspec("audit", PATH, "--json", *arguments)
    assert told.code == code, told.err
    document: dict[str, Any] = valid(told.out, "audit")
    return document


def codes(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["package"], one["code"]) for one in document["findings"]]


FILES = "another-file, yanked, young"
