"""A report of the smoke check is signed and verified as a lock is, by the real ssh-keygen."""

import json
from pathlib import Path

from smoke_samples import report
from support.documents import valid
from support.machine import Machine
from support.ssh import allow, make_key, signature

from envspec.prove.smoke.report.read import report_json

REPORT = "h100.json"


def test_a_signed_report_verifies_until_it_changes(machine: Machine, tmp_path: Path) -> None:
    ada, path = make_key(tmp_path, "ada"), machine.folder / REPORT
    allowed = str(allow(tmp_path / "allowed", ada))
    path.write_text(json.dumps(report_json(report())))
    verify = ("verify", REPORT, "--signed", "--allowed-signers", allowed)
    told = machine.envspec(*verify)
    assert told.status == 1 and "h100.json: the report isn't signed  [signature-missing]" in told.out
    assert "who may sign runs `envspec sign h100.json`, after a look at the report" in told.err
    signed = machine.envspec("sign", REPORT, "--key", str(ada.path), "--json")
    assert signed.status == 0 and valid(signed.out, "sign")["report"] == REPORT, signed.err
    told = machine.envspec(*verify)
    assert told.status == 0 and "h100.json: signed by ada@example.org, SHA256:" in told.out
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    told = machine.envspec(*verify, "--json")
    refused = valid(told.out, "sign")["refused"]
    assert told.status == 1 and isinstance(refused, dict) and refused["code"] == "signature-wrong"


def test_a_signature_of_a_lock_is_none_of_a_report(machine: Machine, tmp_path: Path) -> None:
    ada, path = make_key(tmp_path, "ada"), machine.folder / REPORT
    path.write_text(json.dumps(report_json(report())))
    Path(f"{path}.sig").write_bytes(signature(path.read_bytes(), ada, "envspec-lock"))
    allowed = str(allow(tmp_path / "allowed", ada))
    told = machine.envspec("verify", REPORT, "--signed", "--allowed-signers", allowed)
    assert told.status == 1 and "isn't one of this report" in told.out


def test_what_proves_nothing_is_not_signed(machine: Machine, tmp_path: Path) -> None:
    key = str(make_key(tmp_path, "ada").path)
    (machine.folder / REPORT).write_text(json.dumps(report_json(report(evidence="pretended"))))
    told = machine.envspec("sign", REPORT, "--key", key)
    assert told.status == 2 and "a pretended GPU, which proves nothing" in told.err
    (machine.folder / REPORT).write_text("{}")
    for words in (("sign", REPORT, "--key", key), ("verify", REPORT, "--signed")):
        assert machine.envspec(*words).status == 2
    assert machine.envspec("sign", "none.json", "--key", key).status == 3
