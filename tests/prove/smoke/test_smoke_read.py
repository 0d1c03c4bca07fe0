"""Reports as JSON: what is written is read back, and nothing damaged, cut or hostile is taken for a report."""

import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st
from smoke_samples import BROKEN, CPU, GPU, TORCH, checks, on_cpu, report, several
from smoke_strategies import reports
from support.examples import examples

import envspec.cli
import envspec.prove.smoke
from envspec.base.errors import EnvspecError, InputError, StorageError
from envspec.prove.smoke.report import read
from envspec.prove.smoke.report.read import as_json, load_report, read_report, report_json, report_of
from envspec.prove.smoke.report.result import SmokeReport

CHECK = json.loads((Path(envspec.prove.smoke.__file__).parent / "check.schema.json").read_text(encoding="utf-8"))
SMOKE = json.loads((Path(envspec.cli.__file__).parent / "schemas" / "smoke.json").read_text(encoding="utf-8"))


def valid(document: object, schema: dict[str, Any]) -> None:
    """By a schema that test_the_schemas_are_schemas holds to be one."""
    jsonschema.Draft202012Validator(schema).validate(printed(document))


def printed(document: Any) -> Any:
    return json.loads(json.dumps(document))


def document(**changes: object) -> dict[str, Any]:
    return {**printed(report_json(report(checks=(*checks(), BROKEN)))), **changes}


def test_the_schemas_are_schemas() -> None:
    jsonschema.Draft202012Validator.check_schema(CHECK)
    jsonschema.Draft202012Validator.check_schema(SMOKE)


@given(reports())
def test_what_is_written_is_read_back(found: SmokeReport) -> None:
    text = json.dumps(report_json(found), allow_nan=False, ensure_ascii=False)
    assert read_report(text, "x") == found
    text.encode()


@given(reports())
def test_what_is_written_fits_the_schema(found: SmokeReport) -> None:
    valid(report_json(found), CHECK)


def test_results_fit_their_schema() -> None:
    made = {"schema": "envspec/smoke/1", **as_json(several())}
    valid(made, SMOKE)
    for run in made["runs"]:
        if run["report"]:
            valid(run["report"], CHECK)
    assert made["summary"]["headline"] == several().headline
    with pytest.raises(jsonschema.ValidationError):
        valid({**made, "runs": [{**made["runs"][0], "status": "passed"}]}, SMOKE)


def test_unknown_keys_are_ignored() -> None:
    made = document(new=1)
    made["checks"][0]["new"] = made["machine"]["new"] = made["figures"][0]["new"] = {"a": []}
    assert report_of(made, "x") == report(checks=(*checks(), BROKEN))


def test_a_reports_own_summary_isnt_believed() -> None:
    made = document(summary={"passed": 99, "failed": 0, "verdict": "pass", "headline": "all is well"})
    for figure in made["figures"]:
        figure["verdict"] = "ok"
    found = report_of(made, "x")
    assert found.verdict == "fail" and found.headline == "6 passed, 1 failed, 1 skipped"
    assert [figure.verdict for figure in found.figures] == ["low", "ok", None]


def test_a_newer_schema_is_refused_as_such() -> None:
    with pytest.raises(
        InputError, match=r"^runs/1\.json: this report has schema 2; this envspec reads up to 1$"
    ) as told:
        report_of({"schema": 2, "kind": "envspec-check", "checks": "of another kind"}, "runs/1.json")
    assert told.value.hint and "update" in told.value.hint


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null", "{}", '{"schema": 1}', '{"kind": "junit", "schema": 1}'])
def test_another_kind_of_file_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="this isn't a report of the smoke check"):
        read_report(text, "x")


@pytest.mark.parametrize("schema", [0, -1, 10**9, 1.5, "1", None, True, [1]])
def test_a_strange_schema_is_refused(schema: object) -> None:
    with pytest.raises(InputError, match="schema"):
        report_of({"schema": schema, "kind": "envspec-check"}, "x")


def test_a_cut_report_is_refused_wherever_it_is_cut() -> None:
    text = json.dumps(document())
    for at in range(0, len(text), 7):
        with pytest.raises(InputError, match=r"this report (is empty|is cut off|is no JSON)"):
            read_report(text[:at], "x")
    with pytest.raises(InputError, match="this report is cut off") as told:
        read_report(text[: len(text) // 2 * 2 - 2].rstrip("}"), "x")
    assert told.value.hint


TOP = [key for key in CHECK["required"] if key not in ("summary", "torch", "schema", "kind")]
OF_A_CHECK = ("name", "group", "needs_gpu", "status", "seconds")


@pytest.mark.parametrize(
    ("key", "place"), [*((key, "") for key in TOP), *((key, r" - at `\$\.checks\[2\]`") for key in OF_A_CHECK)]
)
def test_a_missing_key_is_named(key: str, place: str) -> None:
    made = document()
    del (made["checks"][2] if place else made)[key]
    with pytest.raises(InputError, match=f"this report is damaged: Object missing required field `{key}`{place}"):
        report_of(made, "x")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"spec": ""}, r"Expected `str` matching regex .* at `\$\.spec`"),
        ({"spec": "a\nb"}, "matching regex"),
        ({"spec": "a\n"}, "matching regex"),
        ({"steps": -1}, r"Expected `int` >= 0 - at `\$\.steps`"),
        ({"steps": True}, "Expected `int`, got `bool`"),
        ({"steps": 1.5}, "Expected `int`, got `float`"),
        ({"steps": math.inf}, "Expected `int`, got `null`"),
        ({"steps": 10**30}, "Expected `int` <= "),
        ({"seconds": -0.5}, r"Expected `float` >= 0\.0 - at `\$\.seconds`"),
        ({"seconds": math.nan}, "Expected `float`, got `null`"),
        ({"seconds": "1"}, "Expected `float`, got `str`"),
        ({"quick": 1}, r"Expected `bool`, got `int` - at `\$\.quick`"),
        ({"checks": {}}, r"Expected `array`, got `object` - at `\$\.checks`"),
        ({"checks": [1]}, r"Expected `object`, got `int` - at `\$\.checks\[0\]`"),
        ({"curves": []}, r"Expected `object`, got `array` - at `\$\.curves`"),
        ({"curves": {"a": [None, "x"]}}, r"Expected `float \| null`, got `str` - at `\$\.curves\[\.\.\.\]\[1\]`"),
        ({"machine": None}, r"Expected `object`, got `null` - at `\$\.machine`"),
        ({"torch": 1}, r"Expected `object \| null`, got `int` - at `\$\.torch`"),
        ({"spec": 10**50}, r"Expected `str`, got `int` - at `\$\.spec`"),
    ],
)
def test_a_wrong_value_is_named(changes: dict[str, object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        report_of(document(**changes), "x")


@pytest.mark.parametrize("status", ["passed", "error", "", None, 1, ["pass"], {}])
def test_a_status_is_one_of_three(status: object) -> None:
    made = document()
    made["checks"][0]["status"] = status
    with pytest.raises(InputError, match=r"at `\$\.checks\[0\]\.status`"):
        report_of(made, "x")


@pytest.mark.parametrize("what", ["checks", "figures"])
def test_nothing_stands_twice(what: str) -> None:
    made = document()
    made[what].append(made[what][0])
    with pytest.raises(InputError, match=f"{what} has '.*' twice"):
        report_of(made, "x")


def test_no_torch() -> None:
    assert report_of(document(torch=None), "x").torch is None
    assert report_of(document(torch={"version": None}), "x").torch is None
    assert report_of(document(), "x").torch == TORCH


def test_no_numbers() -> None:
    made = json.loads(json.dumps(document()).replace("1180.4", "NaN"))
    made["curves"] = {"a": [1, math.nan, -math.inf, None, 10**400]}
    found = report_of(made, "x")
    assert found.figures[0].value is None and found.figures[0].verdict is None
    assert found.curves == {"a": (1.0, None, None, None, None)}
    json.dumps(report_json(found), allow_nan=False)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 100_000, "9" * 100_000, "[" * 50 + "]" * 50, "\x00", "\ufeff{}"]
)
def test_hostile_texts_are_errors(text: str) -> None:
    with pytest.raises(InputError):
        read_report(text, "x")


def test_deep_details_are_refused() -> None:
    made = document()
    deep: dict[str, object] = {}
    for _ in range(100):
        deep = {"a": deep}
    made["checks"][0]["details"] = deep
    with pytest.raises(InputError, match="this report is damaged: it's nested too deeply"):
        report_of(made, "x")


def test_halves_of_pairs_become_writable() -> None:
    made = document()
    made["checks"][0]["reason"] = "a\ud800b"
    made["checks"][0]["details"] = {"\udfff": ["\ud83d"], "pair": "\ud83d\ude00"}
    found = report_of(json.loads(json.dumps(made)), "x")
    json.dumps(report_json(found), ensure_ascii=False).encode()
    assert found.checks[0].details["pair"] == "\U0001f600"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(300))
@given(st.data(), JSON)
def test_any_value_anywhere_is_a_report_or_an_input_error(data: st.DataObject, value: object) -> None:
    made: Any = document()
    node = made
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
            node = node[key]
            continue
        node[key] = value
        break
    try:
        found = report_of(made, "x")
    except InputError:
        return
    assert report_of(report_json(found), "x") == found
    json.dumps(report_json(found), allow_nan=False, ensure_ascii=False).encode()


@given(st.binary(max_size=200))
def test_any_bytes_are_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_bytes(data)
    with pytest.raises(InputError):
        load_report(path)


def test_a_file_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "check.json"
    path.write_text(json.dumps(report_json(on_cpu())), encoding="utf-8")
    assert load_report(path) == on_cpu()
    assert on_cpu().machine == CPU and report().machine == GPU


def test_files_that_cant_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "none.json", tmp_path):
        with pytest.raises(StorageError, match="can't be read"):
            load_report(path)
    large = tmp_path / "large.json"
    large.write_text(" " * 200)
    monkeypatch.setattr(read, "LARGEST", 100)
    with pytest.raises(EnvspecError, match="this report is larger than"):
        load_report(large)
