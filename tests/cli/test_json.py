"""The outputs of `--json` against the schemas that ship with envspec, and the page that describes them."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from cli_project import SPEC, Envspec, Project
from support import documents

import envspec.spec.schema
from envspec.base.codes import meanings
from envspec.base.finding import Finding
from envspec.cli.main import COMMANDS
from envspec.lock.rules.derived import WRONG_PYTHON
from envspec.lock.rules.requirements import REFUSED_PYTHON
from envspec.spec.parse import parse_spec

pytest_plugins = ["cli_fixtures"]

NAMES = sorted(path.stem for path in documents.SCHEMAS.glob("*.json"))
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "json.md").read_text(encoding="utf-8")


def schema(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((documents.SCHEMAS / f"{name}.json").read_text(encoding="utf-8"))
    return loaded


def valid(text: str) -> Any:
    """Read a document that must be what its own `schema` says."""
    return documents.valid(text, json.loads(text)["schema"].split("/")[1])


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_schemas_of_their_name(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(name))
    assert schema(name)["properties"]["schema"] == {"const": f"envspec/{name}/1"}
    assert schema(name)["title"] == f"envspec/{name}/1"


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["check", "specs/demo.toml", "specs/none.toml"],
        ["lock", "specs/demo.toml"],
        ["why", "specs/demo.toml", "fsspec"],
        ["why", "specs/demo.toml", "fsspec", "--limit", "1"],
        ["why", "specs/demo.toml", "nvidia-cublas-cu12"],
        ["why", "specs/demo.toml", "app"],
        ["tree", "specs/demo.toml"],
        ["tree", "specs/demo.toml", "--depth", "0"],
        ["tree", "specs/demo.toml", "--package", "nvidia-cublas-cu12"],
        ["tree", "specs/demo.toml", "--package", "fsspec", "--inverse"],
    ],
    ids=" ".join,
)
def test_real_outputs(project: Project, envspec: Envspec, arguments: Sequence[str]) -> None:
    document = valid(envspec(*arguments, "--json").out)
    assert document["schema"] == f"envspec/{arguments[0]}/1"


@pytest.mark.parametrize("state", ["stale", "damaged", "drifted", "bad", "unlocked"])
def test_check_in_every_state(project: Project, envspec: Envspec, state: str) -> None:
    if state == "stale":
        text = SPEC.replace('"3.12"', '"3.11"').replace("[targets.cpu]", "[targets.x]").replace('"app>=1"', '"app"')
        project.spec(text.replace("[pip]", "[pip]\nallow-source = ['app']"))
    elif state == "damaged":
        project.lock_path.write_text("x")
    elif state == "drifted":
        (project.lock_path.parent / "cpu" / "requirements.txt").write_text("x")
    elif state == "bad":
        project.spec("[env]\nx = 1\n")
    else:
        project.lock_path.unlink()
    document = valid(envspec("check", "--json").out)
    expected = {"damaged": "stale", "bad": "error", "unlocked": "stale"}.get(state, state)
    assert [one["status"] for one in document["specs"]] == [expected]


def test_a_wrong_document_is_refused(project: Project, envspec: Envspec) -> None:
    """The schemas are tight enough to notice."""
    for arguments, key in (
        (["check"], "specs"),
        (["why", "specs/demo.toml", "app"], "groups"),
        (["tree", "specs/demo.toml"], "groups"),
    ):
        document = json.loads(envspec(*arguments, "--json").out)
        changes: list[dict[str, Any]] = [{key: [{}]}, {key: []}, {"more": 1}]
        for change in changes:
            with pytest.raises(jsonschema.ValidationError):
                valid(json.dumps({**document, **change}))


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["why", "specs/demo.toml", "none"], 1),
        (["tree", "specs/none.toml"], 2),
        (["tree", "specs/demo.toml", "-t", "x"], 2),
        (["lock", "specs/bad.toml"], 2),
        (["diff", "specs/none.toml"], 2),
        (["install", "specs/demo.toml", "-t", "x", "--prefix", "p"], 2),
        (["doctor", "specs/bad.toml"], 2),
        (["gpus", "no such card"], 2),
        (["audit", "--no-such-option"], 2),
        (["chekc"], 2),
    ],
)
def test_failures_are_documents(project: Project, envspec: Envspec, arguments: list[str], code: int) -> None:
    (project.folder / "specs" / "bad.toml").write_text("[env]\nx = 1\ny = 2\n")
    told = envspec(*arguments, "--json")
    document = valid(told.out)
    assert (document["schema"], document["exit-code"], told.code) == ("envspec/error/1", code, code)
    said = [line.removeprefix("error: ") for line in told.err.splitlines() if line.startswith("error: ")]
    assert len(said) == len(document["errors"])
    for line, error in zip(said, document["errors"], strict=True):
        assert line.endswith(error["message"])
        assert error["file"] is None or line.startswith(f"{error['file']}:")


def test_faults_and_interruptions_are_documents(
    project: Project, envspec: Envspec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(error: BaseException) -> Callable[..., None]:
        def inputs(*_: object) -> None:
            raise error

        return inputs

    for error, code in ((KeyboardInterrupt(), 130), (RuntimeError("boo"), 3)):
        monkeypatch.setattr("envspec.app.inputs.read_spec", broken(error))
        told = envspec("lock", "specs/demo.toml", "--json")
        assert (valid(told.out)["exit-code"], told.code) == (code, code)


def test_without_json_and_after_a_double_dash_stdout_is_empty(project: Project, envspec: Envspec) -> None:
    for arguments in (["tree", "specs/none.toml"], ["tree", "--", "--json"]):
        told = envspec(*arguments)
        assert told.code == 2 and told.out == ""


OPTIONS = ("smoke-compare", "horizon", "variants")
"""Documents that an option asks for instead of the command's own."""
GROUPS = {"cache": ("size",), "base": ("read",)}
"""Commands that have commands, and one of these."""


def test_every_json_command_has_its_schema_and_its_place_on_the_page(envspec: Envspec) -> None:
    asked = {name: (*GROUPS.get(name, ()),) for name in COMMANDS}
    reporting = [
        name
        for name, below in asked.items()
        if re.search(r"^  --json\b", envspec(name, *below, "--help").out, re.MULTILINE)
    ]
    reporting.remove("upgrade")  # prints what `lock` prints
    assert sorted([*reporting, *OPTIONS, "error"]) == NAMES
    for name in reporting:
        assert f"`envspec {name} " in PAGE
    for name in NAMES:
        assert f"\n| [`envspec/{name}/1`](../envspec/cli/schemas/{name}.json) | " in PAGE


def objects(node: Any) -> Iterator[dict[str, Any]]:
    """Each node of a schema that has properties."""
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from objects(below)
    if isinstance(node, dict) and isinstance(node.get("properties"), dict):
        yield node


@pytest.mark.parametrize("name", ["check", "doctor", "link", "audit", "verify", "image", "sign"])
def test_a_finding_has_the_same_keys_in_each(name: str) -> None:
    found = [one for one in objects(schema(name)) if {"code", "message"} <= one["properties"].keys()]
    of_all = Finding("info", "x", "x").document.keys()
    assert found and all(of_all <= set(one["required"]) for one in found)


def test_every_code_of_a_flaw_is_explained(root: Path) -> None:
    rules = [*(root / "envspec" / "lock" / "rules").glob("*.py"), root / "envspec" / "lock" / "judge.py"]
    given = {
        code
        for path in rules
        for code in re.findall(r'(?:case\.flaw\(|Finding\(\s*"error",)\s*"([a-z-]+)"', path.read_text("utf-8"))
    }
    given |= {WRONG_PYTHON, REFUSED_PYTHON}
    assert given and sorted(given - meanings().keys()) == []


@pytest.mark.parametrize("document", re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL))
def test_the_examples_of_the_page(document: str) -> None:
    valid(document)


_MORE = {
    "add": ["numpy"],
    "remove": ["numpy"],
    "why": ["numpy"],
    "export": ["--format", "dockerfile"],
    "bundle": ["-o", "x.tar"],
    "image": ["-t", "cpu", "-o", "image"],
    "report": ["-o", "x.html"],
    "install": ["--prefix", "prefix"],
    "run": ["--", "true"],
    "git-setup": ["surplus"],
    "init": ["--from", "none.txt"],
    "schema": ["surplus"],
}
"""What a command needs besides a spec, or what makes it fail where it takes none."""


@pytest.mark.by_day(8)
@pytest.mark.parametrize("command", COMMANDS)
def test_each_failure_of_each_command_is_one_document(
    project: Project, envspec: Envspec, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that isn't there, no spec, no TOML, no text; a folder, another tool's file, a damaged lock, no name."""
    monkeypatch.setenv("UV_DEFAULT_INDEX", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    text = (project.folder / "specs" / "demo.toml").read_text().replace('"demo"', '"damaged"')
    for name, content in {
        "bad.toml": b"[env]\nx = 1\n",
        "not.toml": b"a b",
        "binary.toml": b"\xff\xfe\x00",
        "environment.yml": b"dependencies: [python]\n",
        "damaged.toml": text.encode(),
        "locks/damaged/envspec.lock": b"x",
        "empty/x": b"",
    }.items():
        path = project.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    given = ["none.toml", "bad.toml", "not.toml", "binary.toml", "environment.yml", "damaged.toml", "empty", ""]
    told = 0
    for words in (*([*GROUPS.get(command, ()), one] for one in given), ["--no-such-option"], [*"abcdef"]):
        ran = envspec(command, "--json", *words, *(_MORE.get(command, ()) if len(words) < 3 else ()))
        if ran.code == 0:
            assert (command, words) == ("doctor", words), ran.out  # it judges a machine too
            continue
        document = valid(ran.out)
        own = "lock" if command == "upgrade" else command
        assert document["schema"] in ("envspec/error/1", f"envspec/{own}/1") and "has a fault" not in ran.err
        assert document.get("exit-code", ran.code) == ran.code
        told += 1
    assert told > 8


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
