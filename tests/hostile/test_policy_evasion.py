"""Ways around a site's policy: variables, configurations, specs, locks, links, and policy files of the user's own."""

import os
import shutil
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.index import Index
from support.installs import pip_pin, write_lock
from support.machine import ROOT, Machine, cpu
from support.packages import wheel
from support.site import place_policy

from envspec.base.reader.nodes import Table
from envspec.lock.model import Lock, LockedTarget
from envspec.lock.read import load
from envspec.lock.write import dumps
from envspec.review.policy.schema import FORMAT

SPEC = "specs/demo.toml"
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
ALPHA = wheel("alpha", "1.0", licence="AGPL-3.0-only")
AN_HOUR_AGO = (datetime.now(timezone.utc) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
DENY = '[licences]\ndeny = ["AGPL-*"]\n'


@pytest.fixture
def project(machine: Machine, index: Index) -> Machine:
    index.add(ALPHA)
    machine.spec(cpu("alpha"))
    return machine


def forbidden(machine: Machine, code: str, *arguments: str, env: dict[str, str] | None = None) -> None:
    ran = machine.envspec(*(arguments or ("lock", SPEC)), env=env)
    assert ran.status == 1 and f"[{code}]" in ran.err, ran.err
    assert not machine.lock_path().exists()


@pytest.mark.parametrize(
    "variable", ["ENVSPEC_POLICY", "ENVSPEC_POLICY_FILE", "ENVSPEC_CONFIG", "XDG_CONFIG_DIRS", "ENVSPEC_ROOT", "HOME"]
)
def test_no_variable_moves_it(project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str) -> None:
    place_policy(monkeypatch, tmp_path, DENY)
    own = tmp_path / "own" / "etc" / "envspec"
    own.mkdir(parents=True)
    (own / "policy.toml").write_text('contact = "me"\n')
    (own / "config.toml").write_text("")
    value = {"ENVSPEC_CONFIG": str(own / "config.toml"), "HOME": str(tmp_path / "own")}.get(
        variable, str(own / "policy.toml")
    )
    forbidden(project, "licence-forbidden", env={variable: value})


def test_no_variable_of_envspec_names_it() -> None:
    """The only place is a constant."""
    source = (ROOT / "envspec" / "base" / "places.py").read_text("utf-8")
    assert 'ETC = "/etc"\n' in source and "OWNER: int | None = 0 if" in source and "os.environ" not in source
    for path in (*(ROOT / "envspec/review/policy").glob("*.py"), ROOT / "envspec/app/site_policy.py"):
        text = path.read_text("utf-8")
        assert "os.environ" not in text and "getenv" not in text, path


def test_the_specs_own_word_on_a_licence(project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place_policy(monkeypatch, tmp_path, DENY)
    audit = "[audit]\nallow-licences = ['AGPL-*']\nlicences = { alpha = 'MIT' }\n"
    project.spec(audit + cpu("alpha"))
    forbidden(project, "licence-forbidden")


@pytest.mark.parametrize("moment", ["2990-01-01", "2026-11-21T00:00:00Z"])
def test_the_specs_own_bound_in_time(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, moment: str
) -> None:
    index.add(wheel("beta", "1.0"), uploaded="2020-01-01T00:00:00Z")
    index.add(wheel("beta", "2.0"), uploaded="2980-01-01T00:00:00Z")
    place_policy(monkeypatch, tmp_path, '[releases]\nminimum-age = "7 days"\n')
    project.locked(spec=cpu("beta").replace("[env]\n", f"[env]\nexclude-newer = '{moment}'\n"))
    assert project.versions("cpu")["beta"] == "1.0"


def test_a_lock_that_was_made_elsewhere(project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    project.locked()
    place_policy(monkeypatch, tmp_path, DENY)
    for command in (["install", SPEC, "--prefix", "p"], ["bundle", SPEC, "-o", "x"], ["lock", SPEC]):
        ran = project.envspec(*command)
        assert ran.status == 1 and "[licence-forbidden]" in ran.err


def test_an_index_that_a_spec_calls_by_a_good_name(
    project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place_policy(monkeypatch, tmp_path, '[indexes]\nallow = ["pypi", "internal"]\n')
    with Index() as evil:
        evil.add(ALPHA)
        project.spec(cpu("alpha", extra=f"indexes = {{ internal = '{evil.url}' }}\nsources = {{ alpha = 'internal' }}"))
        forbidden(project, "index-forbidden")
        assert not evil.asked


@pytest.mark.by_day(2)
@pytest.mark.parametrize("variable", ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"])
@pytest.mark.parametrize("key", ["allow", "at"])
def test_a_variable_that_puts_another_index_in_pypis_place(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, key: str
) -> None:
    text = f'[indexes]\nallow = ["pypi", "{index.url}"]\n'
    place_policy(monkeypatch, tmp_path, text if key == "allow" else f'[indexes.at]\npypi = "{index.url}"\n')
    with Index() as evil:
        evil.add(ALPHA)
        project.default = None
        code = "index-forbidden" if key == "allow" else "index-elsewhere"
        forbidden(project, code, env={variable: evil.url})
        assert not evil.asked
    project.default = index.url
    project.locked()


def test_a_mirror_in_the_users_configuration(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with Index() as internal, Index() as evil:
        for one in (internal, evil):
            one.add(wheel("acme", "1.0"))
        place_policy(monkeypatch, tmp_path, f'[indexes]\nallow = ["pypi", "{index.url}", "{internal.url}"]\n')
        project.spec(cpu("acme", extra=f"indexes = {{ i = '{internal.url}' }}\nsources = {{ acme = 'i' }}"))
        project.configure(f'i = "{evil.url}"')
        forbidden(project, "index-forbidden")
        assert not evil.asked
        project.configure("")
        project.locked()


def test_a_channel_at_another_address(project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("rattler")
    place_policy(monkeypatch, tmp_path, '[indexes]\nallow = ["pypi", "conda-forge"]\n')
    head = "[env]\npython = '3.12'\n[targets.cpu]\nplatform = 'linux-64'\n[conda]\ndependencies = ['tool']\n"
    project.spec(f"{head}channels = ['https://evil.example/conda-forge']\n")
    forbidden(project, "index-forbidden")
    project.spec(f"{head}channels = ['conda-forge']\n")
    (project.home / ".condarc").write_text("channel_alias: https://evil.example\n")
    forbidden(project, "index-forbidden")
    (project.home / ".condarc").unlink()
    project.configure('conda-forge = "https://evil.example/conda-forge"')
    forbidden(project, "index-forbidden")


@pytest.mark.parametrize(
    "url",
    [
        "https://code.example@evil.example/our-org/x-1.0-py3-none-any.whl",
        "https://code.example/our-org/../evil/x-1.0-py3-none-any.whl",
        "https://code.example/our-org-evil/x-1.0-py3-none-any.whl",
    ],
)
def test_an_address_that_looks_like_ours(
    project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str
) -> None:
    place_policy(monkeypatch, tmp_path, '[sources]\nfrom = ["https://code.example/our-org"]\n')
    project.spec(cpu(f"x @ {url}#sha256={'0' * 64}"))
    ran = project.envspec("lock", SPEC)
    # a login in a requirement is refused before
    assert ran.status in (1, 2) and ("[origin-forbidden]" in ran.err or ran.status == 2)
    assert not project.lock_path().exists()


@pytest.mark.parametrize("attack", ["link", "broken link", "writable", "unknown key", "fifo", "empty"])
def test_a_policy_that_was_tampered_with_is_no_absence(
    project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, attack: str
) -> None:
    path = place_policy(monkeypatch, tmp_path, DENY)
    own = tmp_path / "own.toml"
    own.write_text('contact = "me"\n')
    own.chmod(0o666)
    if attack == "writable":
        path.chmod(0o666)
    elif attack == "unknown key":
        path.write_text(path.read_text() + "[licence]\n")
    elif attack == "empty":
        path.write_text("")
    else:
        path.unlink()
        if attack == "fifo":
            os.mkfifo(path)
        else:
            path.symlink_to(own if attack == "link" else "absent.toml")
    for command in (["lock", SPEC], ["check", SPEC], ["install", SPEC, "--prefix", "p"]):
        ran = project.envspec(*command)
        assert ran.status == 2, (command, ran.err)
    assert "the site's policy" in project.envspec("lock", SPEC).err
    assert not project.lock_path().exists()


def test_the_real_place_in_a_process_of_its_own(project: Machine, index: Index) -> None:
    """In a mount namespace, so that this machine's /etc stays as it is."""
    write_lock(project, [pip_pin(ALPHA)])
    script = "\n".join(
        [
            "set -e",
            "mount -t tmpfs -o mode=755 none /etc",
            "mkdir /etc/envspec",
            "printf 'contact = \"ada\"\\n[indexes]\\nallow = []\\n' > /etc/envspec/policy.toml",
            f"exec {sys.executable} -m envspec check {SPEC}",
        ]
    )
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        pytest.skip("no unshare, or not root")
    ran = subprocess.run(
        [unshare, "-m", "sh", "-c", script],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
    )
    if "mount" in ran.stderr or "unshare" in ran.stderr:
        pytest.skip(f"no mount namespace here: {ran.stderr.strip()}")
    assert ran.returncode == 1, ran.stderr
    assert "index-forbidden" in ran.stdout and "ask ada" in ran.stderr


@pytest.mark.slow
def test_a_package_that_may_be_young(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An exception holds for the package that the policy names, and for no other that comes with it."""
    for name in ("beta", "gamma"):
        index.add(wheel(name, "1.0"), uploaded="2020-01-01T00:00:00Z")
        index.add(wheel(name, "2.0"), uploaded=AN_HOUR_AGO)
    text = '[releases]\nminimum-age = "7 days"\n[releases.except]\nBeta = "we publish it ourselves"\n'
    place_policy(monkeypatch, tmp_path, text)
    project.locked(spec=cpu("beta", "gamma"))
    assert project.versions("cpu") == {"beta": "2.0", "gamma": "1.0"}
    # the spec's own bound holds for it all the same
    project.locked("--upgrade", spec=cpu("beta", "gamma").replace("[env]\n", "[env]\nexclude-newer = '2025-01-01'\n"))
    assert project.versions("cpu") == {"beta": "1.0", "gamma": "1.0"}
    assert "releases of beta may be younger: we publish it ourselves" in project.envspec("doctor").out


def test_a_fresh_lock_with_a_young_package(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The hint takes what is old enough."""
    index.add(wheel("beta", "1.0"), wheel("gamma", "1.0"), uploaded="2020-01-01T00:00:00Z")
    index.add(wheel("beta", "2.0"), uploaded=AN_HOUR_AGO)
    project.locked(spec=cpu("beta", "gamma"))
    assert project.versions("cpu") == {"beta": "2.0", "gamma": "1.0"}
    place_policy(monkeypatch, tmp_path, '[releases]\nminimum-age = "7 days"\n')
    ran = project.envspec("lock", SPEC)
    assert ran.status == 1 and "too-young" in ran.err, ran.err
    hinted = ran.hint.partition("`")[2].partition("`")[0]
    assert hinted == f"envspec lock {SPEC} --upgrade-package beta"
    project.locked("--upgrade-package", "beta")
    assert project.versions("cpu") == {"beta": "1.0", "gamma": "1.0"}


BACKEND = """
import pathlib
pathlib.Path({ran!r}).write_text("the project's code ran")
def build_wheel(*a, **k): raise SystemExit("built")
build_editable = build_sdist = prepare_metadata_for_build_wheel = prepare_metadata_for_build_editable = build_wheel
"""


def own_project(project: Machine, ran: Path, name: str) -> None:
    """A project whose build is a module beside it: to lock or install it is to run it."""
    (project.folder / "backend.py").write_text(BACKEND.format(ran=str(ran)))
    (project.folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        f"[project]\nname = '{name}'\nversion = '1'\ndependencies = ['alpha']\n"
    )
    project.spec(cpu("alpha", python=PYTHON).replace("[env]\n", "[env]\nproject = '..'\n"))


@pytest.mark.parametrize("name", ["mine", "deepspeed"], ids=["its own name", "the name of an allowed package"])
def test_a_project_that_builds_itself(
    project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """Nothing of it is built where nothing may be, whatever it calls itself; the lock of before is no way either."""
    ran = tmp_path / "ran"
    own_project(project, ran, name)
    project.locked()
    ran.unlink(missing_ok=True)
    place_policy(monkeypatch, tmp_path, '[sources]\nallow = ["deepspeed"]\n')
    for command in (
        ["lock", SPEC], ["lock", SPEC, "--upgrade"], ["install", SPEC, "--prefix", "p"], ["bundle", SPEC, "-o", "x"],
        ["image", SPEC, "-o", "x"], ["run", SPEC, "--", "true"], ["check", SPEC],
    ):  # fmt: skip
        told = project.envspec(*command, status=1)
        assert "[source-forbidden]" in told.out + told.err and "its own project may not be built" in told.out + told.err
    assert not ran.exists()
    place_policy(monkeypatch, tmp_path, '[sources]\nallow = ["deepspeed"]\nown-projects = true\n')
    project.envspec("check", SPEC, status=0)


def replace_licence(lock: Lock, licence: str) -> Lock:
    def own(target: LockedTarget) -> LockedTarget:
        return replace(target, pins=tuple(replace(pin, licence=licence) for pin in target.pins))

    return replace(lock, targets=tuple(map(own, lock.targets)))


@pytest.mark.by_day(1)
@pytest.mark.e2e
@pytest.mark.parametrize("rule", ["deny", "allow", "unnamed"])
def test_a_licence_that_the_lock_only_claims(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rule: str
) -> None:
    """The lock is the repository's word. What is installed is judged by what its files say."""
    index.add(wheel("bare", "1.0", licence=None))
    project.locked(spec=cpu("bare" if rule == "unnamed" else "alpha", python=PYTHON))
    path = project.lock_path()
    forged = path.read_text().replace('licence = "AGPL-3.0-only"', 'licence = "MIT"')
    if rule == "unnamed":
        forged = dumps(replace_licence(load(path), "MIT"))
    assert forged != path.read_text()
    path.write_text(forged)
    place_policy(monkeypatch, tmp_path, DENY if rule == "deny" else '[licences]\nallow = ["MIT"]\n')
    assert project.envspec("check", SPEC).status == 0, "offline it is the lock's word"
    code = "licence-unknown" if rule == "unnamed" else "licence-forbidden"
    for command in (
        ["install", SPEC, "--prefix", "p"], ["bundle", SPEC, "-o", "x"], ["image", SPEC, "-o", "x"],
        ["run", SPEC, "--", "true"], ["install", SPEC, "--prefix", "p", "--offline"],
    ):  # fmt: skip
        ran = project.envspec(*command)
        assert ran.status == 1 and f"[{code}]" in ran.err and "by its own METADATA" in ran.err, (command, ran.err)
    assert not (project.folder / "p").exists()
    place_policy(monkeypatch, tmp_path, DENY + "[licences.known]\nalpha = 'MIT'\nbare = 'MIT'\n")
    project.envspec("install", SPEC, "--prefix", "p", status=0)


@pytest.mark.parametrize(
    "where",
    [
        "dependencies = ['{}']",
        "overrides = ['{}']",
        "constraints = ['{}']",
        "build-dependencies = {{ alpha = ['{}'] }}",
    ],
)
def test_an_address_in_another_list_of_the_spec(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, where: str
) -> None:
    place_policy(monkeypatch, tmp_path, '[sources]\nfrom = ["https://code.example/our-org"]\n')
    line = where.format(f"x @ https://evil.example/x-1.0-py3-none-any.whl#sha256={'0' * 64}")
    whole = "dependencies = ['alpha']"
    project.spec(cpu("alpha").replace(whole, line if line.startswith("depend") else f"{whole}\n{line}"))
    ran = project.envspec("lock", SPEC)
    assert "[origin-forbidden]" in ran.err if ran.status == 1 else ran.status == 2, ran.err
    assert not index.asked and not project.lock_path().exists()


def test_an_address_in_the_own_projects_requirements(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place_policy(monkeypatch, tmp_path, '[sources]\nfrom = ["https://code.example/our-org"]\n')
    (project.folder / "pyproject.toml").write_text(
        "[project]\nname = 'mine'\nversion = '1'\ndependencies = ['x @ git+https://evil.example/x']\n"
    )
    project.spec(cpu("alpha", extra="allow-source = ['x']").replace("[env]\n", "[env]\nproject = '..'\n"))
    forbidden(project, "origin-forbidden")
    assert not index.asked


def test_a_channel_in_a_match_spec(project: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place_policy(monkeypatch, tmp_path, '[indexes]\nallow = ["pypi", "conda-forge"]\n')
    head = "[env]\npython = '3.12'\n[targets.cpu]\nplatform = 'linux-64'\n[conda]\nchannels = ['conda-forge']\n"
    project.spec(f"{head}dependencies = ['https://evil.example/ours::tool']\n")
    ran = project.envspec("lock", SPEC)
    assert "[index-forbidden]" in ran.err if ran.status == 1 else ran.status == 2, ran.err
    assert not project.lock_path().exists()


def test_a_flat_page_at_another_address(
    project: Machine, index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place_policy(monkeypatch, tmp_path, f'[indexes]\nallow = ["pypi", "{index.url}"]\n')
    project.spec(cpu("alpha", extra="find-links = { flat = 'https://evil.example/whl.html' }\n"))
    forbidden(project, "index-forbidden")
    assert not index.asked


ATTACKS = {
    "[indexes] allow": "test_an_index_that_a_spec_calls_by_a_good_name",
    "[indexes] at": "test_a_variable_that_puts_another_index_in_pypis_place",
    "[indexes] second": "forged/test_second_source.py::test_the_first_source_again_is_no_second",
    "[sources] allow": "test_a_project_that_builds_itself",
    "[sources] own-projects": "test_a_project_that_builds_itself",
    "[sources] from": "test_an_address_in_another_list_of_the_spec",
    "[releases] minimum-age": "test_the_specs_own_bound_in_time",
    "[releases] exceptions": "cli/test_policy.py::test_a_site_says_what_specs_may_except",
    "[releases] except": "test_a_package_that_may_be_young",
    "[releases] ask-advisories": "cli/test_malicious.py::test_a_site_that_asks_takes_no_waiver_and_no_other_service",
    "[licences] allow": "test_a_licence_that_the_lock_only_claims",
    "[licences] deny": "test_a_licence_that_the_lock_only_claims",
    "[licences] known": "test_the_specs_own_word_on_a_licence",
    "[signatures] signers": "hostile/test_forged_signatures.py::test_a_repository_cant_say_whom_to_trust",
    "[signatures] revoked": "cli/test_sign.py::test_a_revoked_key_counts_until_its_day",
    "[proof] required": "cli/test_policy.py::test_what_cant_be_checked_yet_is_refused",
}
"""Each rule, and a test of what tries to pass it."""


def test_each_rule_has_an_attack() -> None:
    rules = {f"[{name}] {key}" for name, node in FORMAT.keys.items() if isinstance(node, Table) for key in node.keys}
    assert set(ATTACKS) == rules
    for where in ATTACKS.values():
        file, _, name = where.rpartition("::")
        text = (ROOT / "tests" / (file or "hostile/test_policy_evasion.py")).read_text("utf-8")
        assert f"\ndef {name}(" in text, where
