"""What a spec says and no lock holds: addresses, `[image]`, `[audit]`, jobs. Both revisions' specs are compared."""

import pytest

from envspec.base.redact import forget
from envspec.review.diff.of_specs import brought_addresses, of_specs
from envspec.review.diff.rows import Fact
from envspec.spec.model import Audit, Image, Smoke, Spec, Target
from envspec.spec.parse import load_text

SPEC = """\
[env]
name = "demo"
python = "3.12"
{env}
[pip]
dependencies = ["lib"]
{pip}
{tables}
[targets.a]
platform = "linux-64"
{a}
[targets.b]
platform = "linux-64"
{b}
"""
KEYS = ("env", "pip", "tables", "a", "b")


def spec(**parts: str) -> Spec:
    return load_text(SPEC.format(**{key: parts.get(key, "") for key in KEYS}), "specs/demo.toml")


def facts(key: str, old: str, new: str) -> list[Fact]:
    return list(of_specs(spec(**{key: old}), spec(**{key: new})))


def told(key: str, old: str, new: str) -> list[tuple[str, str]]:
    return [(fact.risk, fact.code) for fact in facts(key, old, new)]


ADDRESSES = [
    ("https://a.example.org/simple", "https://b.example.org/simple", "another host"),
    ("https://a.example.org/simple", "http://a.example.org/simple", "another scheme"),
    ("http://a.example.org/simple", "https://a.example.org/simple", "another scheme, the better one"),
    ("https://a.example.org/simple", "https://a.example.org/other/simple", "another path"),
    ("https://a.example.org/simple", "https://a.example.org:8443/simple", "another port"),
    ("./wheels", "./others", "another folder"),
    ("https://a.example.org/simple", "./simple", "a folder in its place"),
]


@pytest.mark.parametrize(("old", "new", "why"), ADDRESSES)
def test_an_index_at_another_address_is_high(old: str, new: str, why: str) -> None:
    (fact,) = facts("pip", f'indexes = {{ internal = "{old}" }}', f'indexes = {{ internal = "{new}" }}')
    assert (fact.risk, fact.code) == ("high", "index-address-changed"), why
    assert "internal" in fact.message and f"{old} -> {new}" in fact.message


@pytest.mark.parametrize(("old", "new", "why"), ADDRESSES)
@pytest.mark.parametrize("key", ["pip", "a"])
def test_a_flat_page_at_another_address_is_high(key: str, old: str, new: str, why: str) -> None:
    line = ("[targets.a.pip]\n" if key == "a" else "") + 'find-links = {{ extra = "{}/labtools/" }}'
    (fact,) = facts(key, line.format(old), line.format(new))
    assert (fact.risk, fact.code) == ("high", "index-address-changed"), why
    assert "labtools" in fact.message and "extra" in fact.message
    assert fact.targets == (("a",) if key == "a" else ())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("https://a.example.org/simple", "https://a.example.org/simple/"),
        ("https://a.example.org/simple", "https://A.example.org:443/simple"),
    ],
)
def test_one_address_in_other_spellings_is_no_row(old: str, new: str) -> None:
    assert told("pip", f'indexes = {{ internal = "{old}" }}', f'indexes = {{ internal = "{new}" }}') == []


def test_a_simple_index_that_becomes_a_flat_page_is_another_source() -> None:
    address = '{ internal = "https://a.example.org/simple" }'
    assert told("pip", f"indexes = {address}", f"find-links = {address}") == [("high", "index-address-changed")]


def test_targets_that_swap_their_pages_are_seen() -> None:
    line = '[targets.{}.pip]\nfind-links = {{ extra = "https://{}.example.org/x" }}'
    old = spec(a=line.format("a", "one"), b=line.format("b", "two"))
    new = spec(a=line.format("a", "two"), b=line.format("b", "one"))
    found = list(of_specs(old, new))
    assert [(fact.code, fact.targets) for fact in found] == [
        ("index-address-changed", ("a",)),
        ("index-address-changed", ("b",)),
    ]


def test_a_page_of_a_new_target_under_a_known_name_is_compared() -> None:
    page = '[targets.{}.pip]\nfind-links = {{ extra = "https://{}.example.org/x" }}'
    old = spec(a=page.format("a", "one"))
    new = spec(a=page.format("a", "one"), b=page.format("b", "two"))
    (fact,) = of_specs(old, new)
    assert (fact.risk, fact.code, fact.targets) == ("high", "index-address-changed", ("b",))


def test_indexes_that_come_and_go_are_told_with_their_address() -> None:
    line = 'indexes = { internal = "https://a.example.org/simple" }'
    (came,) = facts("pip", "", line)
    (went,) = facts("pip", line, "")
    assert (came.risk, came.code) == ("medium", "index-added") and "https://a.example.org/simple" in came.message
    assert (went.risk, went.code) == ("low", "index-removed")


def test_logins_are_neither_compared_nor_shown() -> None:
    """A spec with a login is refused when it is read; one of an older envspec may have got by."""
    forget()
    hosts = ("a.example.org", "b.example.org")
    old, new = (spec(pip=f'indexes = {{ internal = "https://{host}/simple" }}') for host in hosts)
    from msgspec.structs import replace

    def with_login(one: Spec, login: str) -> Spec:
        url = one.pip.indexes["internal"].replace("://", f"://{login}@")
        return replace(one, pip=replace(one.pip, indexes={"internal": url}))

    assert list(of_specs(old, with_login(old, "me:secretsecret"))) == []
    (fact,) = of_specs(with_login(old, "me:secretsecret"), with_login(new, "me:othersecret"))
    assert (
        "secret" not in fact.message and "https://a.example.org/simple -> https://b.example.org/simple" in fact.message
    )


def test_a_server_that_came_with_the_change_is_named_with_its_address() -> None:
    old = spec(pip='indexes = { internal = "https://a.example.org", same = "https://s.example.org" }')
    new = spec(
        pip='indexes = { internal = "https://b.example.org", same = "https://s.example.org" }',
        a='[targets.a.pip]\nfind-links = { extra = "https://c.example.org/x" }',
        tables='[conda]\nchannels = ["https://d.example.org/mine"]\n',
    )
    assert brought_addresses(old, new) == {
        "internal": "https://b.example.org",
        "extra": "https://c.example.org/x",
        "mine": "https://d.example.org/mine",
    }


IMAGE = [
    ('base = "debian:trixie-slim"', 'base = "stranger/debian:trixie"', "medium"),
    ("", 'services = ["ssh"]', "medium"),
    ('services = ["ssh"]', "", "low"),
    ("", 'user = "ubuntu"', "medium"),
    ("", 'apt = ["curl"]', "medium"),
    ('apt = ["curl"]', "", "low"),
    ("", 'build-apt = ["g++"]', "medium"),
    ("", 'env = { LD_PRELOAD = "/opt/x.so" }', "medium"),
    ("", 'build-env = { CC = "x" }', "medium"),
    ("", 'name = "registry.example.org/x"', "medium"),
    ("", "ssh-port = 2200", "low"),
    ("", 'shm = "16g"', "low"),
    ("", "nvcc = true", "low"),
    ("", 'fabric = "none"', "low"),
    ("", 'snapshot = "2026-01-01"', "low"),
]


@pytest.mark.parametrize(("old", "new", "risk"), IMAGE)
def test_each_key_of_image_is_a_row(old: str, new: str, risk: str) -> None:
    (fact,) = facts("tables", f"[image]\n{old}\n", f"[image]\n{new}\n")
    assert (fact.risk, fact.code) == (risk, "image-key-changed")
    key = (new or old).partition(" ")[0]
    assert fact.message.startswith(f"[image] {key}: "), "a reviewer finds the key in the spec"


WAIVER = "ignore = {{ CVE-2026-1 = {} }}"
AUDIT = [
    ("", 'ignore = { CVE-2026-1 = "not reached" }', "medium", "waiver-added"),
    ('ignore = { CVE-2026-1 = "not reached" }', "", "low", "waiver-removed"),
    ('ignore = { CVE-2026-1 = "a" }', 'ignore = { CVE-2026-1 = "b" }', "medium", "waiver-changed"),
    (
        WAIVER.format('{ reason = "a", until = "2026-12-31" }'),
        WAIVER.format('{ reason = "a", until = "2027-12-31" }'),
        "medium",
        "waiver-changed",
    ),
    (
        WAIVER.format('{ reason = "a", until = "2026-12-31" }'),
        WAIVER.format('{ reason = "a", until = "2026-06-30" }'),
        "low",
        "waiver-changed",
    ),
    (WAIVER.format('{ reason = "a", until = "2026-12-31" }'), WAIVER.format('"a"'), "medium", "waiver-changed"),
    (WAIVER.format('{ reason = "a", targets = ["a"] }'), 'ignore = { CVE-2026-1 = "a" }', "medium", "waiver-changed"),
    (WAIVER.format('"a"'), WAIVER.format('{ reason = "a", targets = ["a"] }'), "low", "waiver-changed"),
    ("", 'accept.requests.yanked = "we need it"', "medium", "waiver-added"),
    ('accept.requests.yanked = "we need it"', "", "low", "waiver-removed"),
    ('allow-licences = ["MIT"]', 'allow-licences = ["*"]', "medium", "licences-loosened"),
    ('allow-licences = ["MIT"]', "", "medium", "licences-loosened"),
    ("", 'allow-licences = ["MIT"]', "low", "licences-tightened"),
    ('allow-licences = ["MIT", "BSD-3-Clause"]', 'allow-licences = ["MIT"]', "low", "licences-tightened"),
    ('deny-licences = ["GPL-3.0-only"]', "", "medium", "licences-loosened"),
    ("", 'deny-licences = ["GPL-3.0-only"]', "low", "licences-tightened"),
    ("", 'licences = { lib = "MIT" }', "medium", "licences-loosened"),
    ('licences = { lib = "GPL-3.0-only" }', 'licences = { lib = "MIT" }', "medium", "licences-loosened"),
    ('licences = { lib = "MIT" }', "", "low", "licences-tightened"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "risk", "code"), AUDIT)
def test_each_key_of_audit_is_a_row(old: str, new: str, risk: str, code: str) -> None:
    assert told("tables", f"[audit]\n{old}\n", f"[audit]\n{new}\n") == [(risk, code)]


def test_a_waiver_says_what_and_why() -> None:
    (fact,) = facts(
        "tables", "", '[audit]\nignore = { CVE-2026-1 = { reason = "not reached", until = "2027-01-01" } }\n'
    )
    assert fact.message == "[audit] ignores CVE-2026-1 from now on, until 2027-01-01, because not reached"


OTHERS = [
    ("tables", "[smoke]\nsteps = 100\n", "low", "spec-changed"),
    ("tables", '[smoke]\nworkload = "llm"\n', "low", "spec-changed"),
    (
        "tables",
        '[smoke.references]\n"training.samples_per_s" = { value = 100, low = -0.1 }\n',
        "medium",
        "spec-changed",
    ),
    ("tables", '[slurm]\npartition = "gpu"\n', "low", "spec-changed"),
    ("tables", '[slurm]\noptions = ["--exclusive"]\n', "medium", "spec-changed"),
    ("tables", '[slurm]\nenvironment = ["AWS_*"]\n', "medium", "spec-changed"),
    ("tables", '[kubernetes]\nprogram = ["python", "x.py"]\n', "medium", "spec-changed"),
    ("tables", '[kubernetes]\nsecret = "keys"\n', "medium", "spec-changed"),
    ("tables", "[kubernetes]\nnodes = 2\n", "low", "spec-changed"),
    ("env", 'description = "x"', "low", "spec-changed"),
    ("a", "cuda-compat = true", "low", "spec-changed"),
]


@pytest.mark.parametrize(("key", "line", "risk", "code"), OTHERS)
def test_the_other_tables_are_rows_too(key: str, line: str, risk: str, code: str) -> None:
    if "cuda-compat" in line:
        line = 'cuda = "12.8"\n' + line
        assert (risk, code) in told(key, 'cuda = "12.8"', line)
        return
    assert told(key, "", line) == [(risk, code)]


def test_no_field_of_a_spec_is_forgotten() -> None:
    """Each is in the lock, which has rows of its own, or compared here."""
    locked = {
        *(
            "name",
            "python",
            "targets",
            "exclude_newer",
            "newer_for",
            "asked_project",
            "project",
            "pip",
            "conda",
            "base",
        ),
        *("python_range", "python_builds", "places", "path"),
    }
    here = {"description", "image", "smoke", "slurm", "kubernetes", "audit"}
    assert set(Spec.__struct_fields__) == locked | here
    in_target = {
        *("name", "platform", "cuda", "gpus", "driver", "glibc", "pip", "conda", "terms", "project", "cpu"),
        *("place", "places"),
    }
    assert set(Target.__struct_fields__) == in_target | {"cuda_compat"}
    assert set(Audit.__struct_fields__) == {"allow_licences", "deny_licences", "licences", "ignore", "accept"}
    keys = {(new or old).partition(" ")[0].replace("-", "_") for old, new, _ in IMAGE}
    assert set(Image.__struct_fields__) == keys | {"python"}, "the lock has [image] python"
    assert set(Smoke.__struct_fields__) == {"workload", "steps", "references"}
