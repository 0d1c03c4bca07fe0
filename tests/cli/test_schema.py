"""`envspec schema`: what ships, and what holds the shipped specs."""

from pathlib import Path

from cli_project import Envspec

import envspec.spec.schema
from envspec.spec.parse import parse_spec

pytest_plugins = ["cli_fixtures"]

SHIPPED = Path(envspec.spec.schema.__file__).parent / "spec.schema.json"


def test_the_shipped_schema_is_printed(envspec: Envspec) -> None:
    assert envspec("schema").out == SHIPPED.read_text(encoding="utf-8")


def test_the_shipped_specs_name_it() -> None:
    specs = sorted((SHIPPED.parents[2] / "specs").glob("*.toml"))
    assert specs
    for spec in specs:
        mark, named = spec.read_text("utf-8").splitlines()[0].split(" ")
        assert mark == "#:schema" and (spec.parent / named).resolve() == SHIPPED.resolve()


def test_services_by_the_names_that_people_try() -> None:
    text = "[env]\npython = '3.12'\n[pip]\ndependencies = ['a']\n[targets.cpu]\nplatform = 'linux-64'\n"
    spec = parse_spec(text + "[image]\nservices = ['vscode', 'sshd', 'ssh']\n", "a.toml")
    assert spec.image.services == ("code-server", "ssh")
