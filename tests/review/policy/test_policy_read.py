"""Reading a policy: what it says, and that a broken or foreign one is refused and never ignored."""

import errno
import json
import os
import re
from datetime import timedelta
from pathlib import Path

import jsonschema
import pytest
import tomli

import envspec.review.policy.schema
from envspec.review.policy.judge import rules
from envspec.review.policy.model import Policy
from envspec.review.policy.schema import PolicyError, load_policy, parse_policy, rendered_json_schema

SCHEMA = Path(envspec.review.policy.schema.__file__).with_name("policy.schema.json")
PAGE = (Path(__file__).resolve().parents[3] / "docs" / "policy.md").read_text("utf-8")
EXAMPLE = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)[0]
WHERE = "/etc/envspec/policy.toml"
ME = os.geteuid()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "envspec" / "policy.toml"
    made.parent.mkdir(mode=0o755)
    made.write_text('contact = "ada"\n')
    made.chmod(0o644)
    return made


def test_the_schema_is_shipped_and_agrees_with_the_page() -> None:
    assert SCHEMA.read_text("utf-8") == rendered_json_schema()
    schema = json.loads(SCHEMA.read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(tomli.loads(EXAMPLE), schema)


def test_the_pages_example() -> None:
    policy = parse_policy(EXAMPLE, WHERE)
    assert policy.contact == "HPC support, hpc-help@example.org"
    assert policy.indexes is not None and "pypi" in policy.indexes and policy.minimum_age == timedelta(days=7)
    assert {key for key, _ in rules(policy)} >= {"[indexes] allow", "[sources] from", "[licences] deny"}
    for key, _ in rules(policy):
        assert f"`{key}`" in PAGE, "the page describes each demand"


def test_the_smallest_forbids_nothing() -> None:
    assert parse_policy('contact = "ada"', WHERE) == Policy(WHERE, "ada", places={}, licences={})
    assert rules(parse_policy('contact = "ada"', WHERE)) == ()


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "", "it lacks the key 'contact'"),
        ("contact = 3", ":1:11", "contact must be a string, not a whole number"),
        ('contact = "ada"\ncontct = 1', ":2:1", "unknown key 'contct' at the top level"),
        ('contact = "ada"\n[index]\nallow = []', ":2:2", "unknown key 'index' at the top level"),
        ('contact = "ada"\n[indexes]\nalow = []', ":3:1", "unknown key 'alow' in [indexes]"),
        ('contact = "ada"\n[indexes]\nallow = "pypi"', ":3:9", "indexes.allow must be an array"),
        ('contact = "ada"\n[indexes.at]\npypi = "pypi"', ":3:8", "indexes.at.pypi: 'pypi' is not an address"),
        ('contact = "ada"\n[releases]\nminimum-age = 7', ":3:15", "must be a string, not a whole number"),
        ('contact = "ada"\n[releases]\nminimum-age = "7"', ":3:15", "is not an age in hours, days or weeks"),
        ('contact = "ada"\n[proof]\nrequired = "trainde"', ":3:12", "is not one of locked, verified"),
        ('contact = "ada"\n[signatures]\nsigners = []', ":3:11", "signatures.signers is empty"),
        ('contact = "ada"\n[signatures]\nsigners = ["ada"]', ":3:12", "is not an SSH public key"),
        ('contact = "ada"\n[signatures]\nsigners = ["* ssh-rsa AAAA"]', ":3:12", "is not an SSH public key"),
        ('contact = "ada"\ncontact = "bob"', ":2:1", "given twice"),
        ('contact = "ada', ":1:15", "not TOML"),
        ('contact = "a\\u001bda"', ":1:11", "control character"),
        ('contact = "ada"\nx = ' + "[" * 3000, "", "nested too deeply"),
    ],
)
def test_what_is_wrong_with_it(text: str, place: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text, WHERE)
    assert message in caught.value.message and str(caught.value).startswith(f"{WHERE}{place}")
    assert caught.value.hint and caught.value.exit_code == 2


def test_none_is_none(tmp_path: Path, path: Path) -> None:
    assert load_policy(tmp_path / "absent.toml", ME) is None
    assert load_policy(tmp_path / "absent" / "policy.toml", ME) is None
    assert load_policy(path / "policy.toml", ME) is None
    assert load_policy(path, ME) is not None


@pytest.mark.parametrize(("what", "mode"), [("file", 0o666), ("file", 0o646), ("folder", 0o777), ("folder", 0o757)])
def test_one_that_anybody_may_write_to(path: Path, what: str, mode: int) -> None:
    where = path if what == "file" else path.parent
    where.chmod(mode)
    with pytest.raises(PolicyError) as caught:
        load_policy(path, ME)
    assert str(caught.value) == f"{where}: the site's policy can't be trusted: every user may write to it"
    assert caught.value.hint and "who runs this machine" in caught.value.hint


@pytest.mark.skipif(ME != 0, reason="only root gives files away")
@pytest.mark.parametrize("what", ["file", "folder"])
def test_one_of_another_user(path: Path, what: str) -> None:
    os.chown(path if what == "file" else path.parent, 4242, 4242)
    with pytest.raises(PolicyError, match=r"can't be trusted: another user owns it \(uid 4242\)"):
        load_policy(path)


def test_a_link_that_leads_nowhere_is_no_absence(path: Path) -> None:
    path.unlink()
    path.symlink_to("elsewhere.toml")
    with pytest.raises(PolicyError, match=f"can't be read: {os.strerror(errno.ENOENT)}"):
        load_policy(path, ME)


@pytest.mark.parametrize("kind", ["fifo", "folder", "large", "latin"])
def test_what_is_no_policy(path: Path, kind: str) -> None:
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"#" * ((1 << 20) + 1) if kind == "large" else b'contact = "\xe9"')
    with pytest.raises(PolicyError):
        load_policy(path, ME)
