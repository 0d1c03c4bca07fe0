"""`envspec sign` and `envspec verify --signed`, by the real ssh-keygen."""

from pathlib import Path

import pytest
from support.documents import valid
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel
from support.site import place_policy
from support.ssh import Key, allow, make_key

SPEC = "specs/demo.toml"


@pytest.fixture
def ada(tmp_path: Path) -> Key:
    return make_key(tmp_path, "ada")


@pytest.fixture
def project(machine: Machine, index: Index) -> Machine:
    index.add(wheel("alpha", "1.0", licence="MIT"), wheel("beta", "1.0", licence="MIT"))
    machine.locked(spec=cpu("alpha"))
    return machine


def sign(machine: Machine, key: Key) -> None:
    ran = machine.envspec("sign", SPEC, "--key", str(key.path))
    assert ran.status == 0 and "wrote locks/demo/envspec.lock.sig: signed by SHA256:" in ran.err, ran.err


@pytest.mark.slow
def test_what_is_signed_verifies(project: Machine, ada: Key, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock = project.lock_path().read_bytes()
    sign(project, ada)
    assert project.lock_path().read_bytes() == lock
    assert project.envspec("check", SPEC).status == 0
    allowed = allow(tmp_path / "allowed", make_key(tmp_path, "bob"), ada)
    ran = project.envspec("verify", SPEC, "--signed", "--allowed-signers", str(allowed))
    assert ran.status == 0 and "locks/demo/envspec.lock: signed by ada@example.org, SHA256:" in ran.out
    # who runs a cluster: no file to name
    path = place_policy(monkeypatch, tmp_path, f"[signatures]\nsigners = ['{ada.public}']\n")
    ran = project.envspec("verify", SPEC, "--signed", "--json")
    found = valid(ran.out, "sign")
    assert ran.status == 0 and found["ok"] and found["allowed-by"] == str(path)
    assert found["signer"] and found["signer"]["name"] == "ada@example.org"
    assert project.envspec("export", SPEC, "--format", "dockerfile", "-o", "out").status == 0
    assert "[signatures] signers: a single key has signed a lock before it is used: ada@example.org" in (
        project.envspec("doctor").out
    )


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", ["ecdsa", "rsa"])
def test_other_kinds_of_keys(project: Machine, tmp_path: Path, kind: str) -> None:
    key = make_key(tmp_path, "ada", kind)
    sign(project, key)
    allowed = str(allow(tmp_path / "allowed", key, options='namespaces="envspec-lock"'))
    assert project.envspec("verify", SPEC, "--signed", "--allowed-signers", allowed).status == 0


def test_git_says_which_key_and_whom_to_trust(project: Machine, ada: Key, tmp_path: Path) -> None:
    allowed = allow(tmp_path / "allowed", ada)
    config = f'[user]\nsigningKey = {ada.path}\n[gpg "ssh"]\nallowedSignersFile = {allowed}\n'
    (project.home / ".gitconfig").write_text(config)
    ran = project.envspec("sign", SPEC, "--json")
    assert ran.status == 0 and valid(ran.out, "sign")["signed"], ran.err
    assert project.envspec("verify", SPEC, "--signed").status == 0


def test_a_new_lock_loses_the_signature(project: Machine, ada: Key) -> None:
    sign(project, ada)
    signature = project.lock_path().with_name("envspec.lock.sig")
    assert project.envspec("lock", SPEC).status == 0 and signature.exists(), "a fresh lock keeps it"
    project.spec(cpu("alpha", "beta"))
    assert project.envspec("lock", SPEC, "--dry-run").status == 0 and signature.exists()
    ran = project.envspec("lock", SPEC)
    assert ran.status == 0 and not signature.exists()
    assert "removed locks/demo/envspec.lock.sig: it signed the lock that was there before" in ran.err
    assert ran.hint == f"hint: envspec sign {SPEC}"


def test_check_tells_a_stale_signature(project: Machine, ada: Key) -> None:
    sign(project, ada)
    signature = project.lock_path().with_name("envspec.lock.sig")
    old = signature.read_bytes()
    project.locked(spec=cpu("alpha", "beta"))
    signature.write_bytes(old)
    ran = project.envspec("check", SPEC)
    assert ran.status == 1 and f"{SPEC}: drifted" in ran.out
    assert "  the signature isn't one of this lock: incorrect signature  [signature-stale]" in ran.out
    assert ran.hint == f"hint: envspec sign {SPEC} (or remove locks/demo/envspec.lock.sig)"


def test_only_what_is_fresh_and_sound_is_signed(project: Machine, ada: Key) -> None:
    project.spec(cpu("alpha").replace("linux-64", "linux-aarch64"))
    ran = project.envspec("sign", SPEC, "--key", str(ada.path))
    assert ran.status == 1 and "changed since it was locked" in ran.error
    project.spec(cpu("alpha"))
    text = project.lock_path().read_text()
    project.lock_path().write_text(text.replace("alpha-1.0-", "omega-1.0-"))
    ran = project.envspec("sign", SPEC, "--key", str(ada.path))
    assert ran.status == 2 and not project.lock_path().with_name("envspec.lock.sig").exists()


def test_keys_that_cant_sign(project: Machine, ada: Key, tmp_path: Path) -> None:
    ran = project.envspec("sign", SPEC)
    assert ran.status == 2 and "it isn't said which key signs" in ran.error and "--key" in ran.hint
    ran = project.envspec("sign", SPEC, "--key", str(tmp_path / "none"))
    assert ran.status == 2 and "there is no such key file" in ran.error
    # its private key is neither there nor with an agent
    alone = tmp_path / "alone.pub"
    alone.write_text(ada.public)
    for path in (alone, project.folder / SPEC):
        ran = project.envspec("sign", SPEC, "--key", str(path), env={"SSH_AUTH_SOCK": ""})
        assert ran.status == 2 and "ssh-keygen can't sign with this key" in ran.error, ran.err


def test_whom_to_trust_must_be_said(project: Machine, ada: Key, tmp_path: Path) -> None:
    ran = project.envspec("verify", SPEC, "--signed")
    assert ran.status == 2 and "it isn't said who may sign" in ran.error
    ran = project.envspec("verify", SPEC, "--signed", "--allowed-signers", str(tmp_path / "none"))
    assert ran.status == 2 and "can't be read: No such file" in ran.error
    allowed = str(allow(tmp_path / "allowed", ada))
    assert project.envspec("verify", SPEC, "--allowed-signers", allowed).status == 2
    assert project.envspec("verify", SPEC, "--signed", "--from", "HEAD").status == 2


@pytest.fixture
def bob(tmp_path: Path) -> Key:
    return make_key(tmp_path, "bob")


def one_of_two(ada: Key, bob: Key, more: str = "") -> str:
    return f"[signatures]\nsigners = ['{ada.public}', '{bob.public}']\n{more}"


@pytest.mark.slow
def test_the_last_key_that_signs_is_the_one(
    project: Machine, ada: Key, bob: Key, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of several signatures in the file, OpenSSH itself reads the first."""
    file = project.lock_path().with_name("envspec.lock.sig")
    sign(project, ada)
    by_ada = file.read_bytes()
    sign(project, bob)
    assert file.read_bytes().count(b"BEGIN SSH SIGNATURE") == 1
    path = place_policy(monkeypatch, tmp_path, one_of_two(ada, bob))
    ran = project.envspec("verify", SPEC, "--signed", status=0)
    assert ran.out.count(f": allowed by {path}") == 1 and "bob@example.org" in ran.out
    assert "one of 2 keys has signed a lock before it is used" in project.envspec("doctor").out
    place_policy(monkeypatch, tmp_path, f"[signatures]\nsigners = ['{bob.public}']\n")
    file.write_bytes(by_ada + file.read_bytes())
    assert "signature-foreign" in project.envspec("bundle", SPEC, "-o", "x", status=1).err


@pytest.mark.by_day(1)
@pytest.mark.parametrize("day", ["2020-01-01", "2099-01-01"])
def test_a_revoked_key_counts_until_its_day(
    project: Machine, ada: Key, bob: Key, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, day: str
) -> None:
    """Whatever its comment is where it's revoked, and whenever it signed."""
    sign(project, ada)
    bare = " ".join(ada.public.split()[:2])
    place_policy(monkeypatch, tmp_path, one_of_two(ada, bob, f"[signatures.revoked]\n'{bare}' = '{day}'\n"))
    ran = project.envspec("export", SPEC, "--format", "dockerfile", "-o", "out")
    if day > "2050":
        assert ran.status == 0, ran.err
    else:
        assert ran.status == 1 and "the key that signed the lock, SHA256:" in ran.err
        assert "; revoked: key-1" in ran.err
        assert project.envspec("verify", SPEC, "--signed").status == 1
        sign(project, bob)
        project.envspec("export", SPEC, "--format", "dockerfile", "-o", "out", status=0)


def test_what_the_policy_says_of_signatures_has_to_make_sense(
    project: Machine, ada: Key, bob: Key, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for text, message in (
        (f"[signatures]\nrequired = 2\nsigners = ['{ada.public}']\n", "required"),
        (one_of_two(ada, bob, f"[signatures.revoked]\n'{ada.public}' = '2026-02-31'\n"), "2026-02-31 is no day"),
        (one_of_two(ada, bob, "[signatures.revoked]\nada = '2026-02-01'\n"), "is not an SSH public key"),
    ):
        place_policy(monkeypatch, tmp_path, text)
        assert message in project.envspec("check", SPEC, status=2).out + project.envspec("lock", SPEC, status=2).err
