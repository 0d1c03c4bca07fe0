"""Locks that a site's signers didn't sign: nothing uses them, and `verify --signed` says what is wrong, by the real
ssh-keygen."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from support.index import Index
from support.machine import Machine, cpu
from support.packages import wheel
from support.site import place_policy
from support.ssh import Key, allow, make_key, signature

from envspec.app import run
from envspec.lock.signing.model import LOCK, MOST_SIGNATURE_BYTES

SPEC = "specs/demo.toml"


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Key, Key]:
    folder = tmp_path_factory.mktemp("keys")
    return make_key(folder, "ada"), make_key(folder, "eve")


@pytest.fixture
def project(machine: Machine, index: Index) -> Machine:
    index.add(wheel("alpha", "1.0", licence="MIT"))
    machine.spec(cpu("alpha"))
    machine.locked_before(__name__)
    return machine


def beside(machine: Machine) -> Path:
    return machine.lock_path().with_name("envspec.lock.sig")


def by_hand(machine: Machine, key: Key, namespace: str = LOCK) -> None:
    beside(machine).write_bytes(signature(machine.lock_path().read_bytes(), key, namespace))


def unsigned(machine: Machine, ada: Key, eve: Key) -> None:
    pass


def by_another_key(machine: Machine, ada: Key, eve: Key) -> None:
    by_hand(machine, eve)


def for_another_purpose(machine: Machine, ada: Key, eve: Key) -> None:
    by_hand(machine, ada, "git")


def of_a_file(machine: Machine, ada: Key, eve: Key) -> None:
    by_hand(machine, ada, "file")


def of_a_lock_that_changed(machine: Machine, ada: Key, eve: Key) -> None:
    by_hand(machine, ada)
    # sound all the same: what `check` takes, and nobody signed
    text = machine.lock_path().read_text()
    machine.lock_path().write_text(text.replace('licence = "MIT"', 'licence = "ISC"'))


def of_another_lock(machine: Machine, ada: Key, eve: Key) -> None:
    beside(machine).write_bytes(signature(b"lock-version = 5\n", ada, LOCK))


def cut_off(machine: Machine, ada: Key, eve: Key) -> None:
    by_hand(machine, ada)
    beside(machine).write_bytes(beside(machine).read_bytes()[:120])


def no_signature_at_all(machine: Machine, ada: Key, eve: Key) -> None:
    beside(machine).write_bytes(b"\0\xff" * 100)


def empty(machine: Machine, ada: Key, eve: Key) -> None:
    beside(machine).write_bytes(b"")


def too_long(machine: Machine, ada: Key, eve: Key) -> None:
    by_hand(machine, ada)
    with beside(machine).open("ab") as file:
        file.truncate(1 << 34)


def just_too_long(machine: Machine, ada: Key, eve: Key) -> None:
    by_hand(machine, ada)
    beside(machine).write_bytes(beside(machine).read_bytes().ljust(MOST_SIGNATURE_BYTES + 1, b"\n"))


Attack = Callable[[Machine, Key, Key], None]
REFUSED: dict[Attack, str] = {
    unsigned: "signature-missing",
    by_another_key: "signature-foreign",
    for_another_purpose: "signature-wrong",
    of_a_file: "signature-wrong",
    of_a_lock_that_changed: "signature-wrong",
    of_another_lock: "signature-wrong",
    cut_off: "signature-wrong",
    no_signature_at_all: "signature-wrong",
    empty: "signature-wrong",
    too_long: "signature-wrong",
    just_too_long: "signature-wrong",
}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("attack", REFUSED, ids=lambda attack: attack.__name__)
def test_who_asks_for_a_signature_refuses(
    project: Machine, keys: tuple[Key, Key], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, attack: Attack
) -> None:
    ada, _ = keys
    attack(project, *keys)
    code = f"[{REFUSED[attack]}]"
    ran = project.envspec("verify", SPEC, "--signed", "--allowed-signers", str(allow(tmp_path / "allowed", ada)))
    assert ran.status == 1 and code in ran.out, ran.err
    place_policy(monkeypatch, tmp_path, f"[signatures]\nsigners = ['{ada.public}']\n")
    for command in (
        ["install", SPEC, "--prefix", "p"],
        ["bundle", SPEC, "-o", "x.tar"],
        ["image", SPEC, "-o", "layout"],
        ["run", SPEC, "--", "true"],
        ["export", SPEC, "--format", "dockerfile", "-o", "out"],
        ["smoke", SPEC],
    ):
        ran = project.envspec(*command)
        assert ran.status == 1 and code in ran.err and "[signatures] signers" in ran.err, (command, ran.err)
    ran = project.envspec("check", SPEC)
    assert ran.status == 1 and code in ran.out
    assert ("[signature-stale]" in ran.out) is (REFUSED[attack] == "signature-wrong")
    assert not any((project.folder / name).exists() for name in ("p", "x.tar", "layout", "out"))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_a_signature_that_is_no_file_ends_the_command(project: Machine, keys: tuple[Key, Key], what: str) -> None:
    ada, _ = keys
    by_hand(project, ada)
    real = beside(project).rename(project.base / "real.sig")
    if what == "link":
        beside(project).symlink_to(real)
    elif what == "folder":
        # an empty one is taken for what a killed writer left
        (beside(project) / "deeper").mkdir(parents=True)
    else:
        os.mkfifo(beside(project))
    before = project.lock_path().read_bytes()
    for command in (
        ["verify", SPEC, "--signed"],
        ["install", SPEC, "--prefix", "p"],
        ["run", SPEC, "--", "true"],
        ["lock", SPEC, "--upgrade"],
    ):
        ran = project.envspec(*command)
        assert ran.status == 2 and "envspec.lock.sig" in ran.err, (command, ran.err)
    ran = project.envspec("sign", SPEC, "--key", str(ada.path))
    assert ran.status == 2 and "envspec.lock.sig" in ran.err
    assert project.lock_path().read_bytes() == before and real.read_bytes()


@pytest.mark.parametrize(
    "options", ['valid-before="20200101"', 'valid-after="29990101"', 'namespaces="git"', "cert-authority"]
)
def test_a_key_that_may_not_sign_locks_now(
    project: Machine, keys: tuple[Key, Key], tmp_path: Path, options: str
) -> None:
    ada, _ = keys
    by_hand(project, ada)
    allowed = allow(tmp_path / "allowed", ada, options=options)
    ran = project.envspec("verify", SPEC, "--signed", "--allowed-signers", str(allowed))
    assert ran.status == 1 and "[signature-foreign]" in ran.out and str(tmp_path) not in ran.out, ran.out


def revocation(folder: Path, kind: str, ada: Key, eve: Key) -> Path:
    """A file of revoked keys, by the real ssh-keygen where it is a KRL."""
    path = folder / "revoked"
    words = ["ssh-keygen", "-q", "-k", "-f", str(path)]
    match kind:
        case "a KRL":
            subprocess.run([*words, f"{ada.path}.pub"], check=True)
        case "a KRL by hashes":
            (folder / "hashes").write_text(f"sha256: {ada.public}\n")
            subprocess.run([*words, str(folder / "hashes")], check=True)
        case "public keys":
            path.write_text(f"# gone\n{eve.public}\n{ada.public}\n")
        case "a KRL cut off":
            subprocess.run([*words, f"{ada.path}.pub"], check=True)
            path.write_bytes(path.read_bytes()[:-40])
        case "no revocation file":
            path.write_text("of another tool\n")
        case "a KRL of others":
            subprocess.run([*words, f"{eve.path}.pub"], check=True)
        case "NUL bytes before the keys":
            path.write_bytes(b"\0" * 8 + ada.public.encode())
        case "line ends of CR":
            path.write_bytes(f"# gone\r{ada.public}\r".encode())
        case "nothing":
            path.write_bytes(b"")
    return path


REVOKED = '[gpg "ssh"]\nrevocationFile = {}\n'
REVOCATIONS = {"a KRL": 1, "a KRL by hashes": 1, "public keys": 1, "a KRL cut off": 1, "no revocation file": 1}
UNREADABLE = ("NUL bytes before the keys", "line ends of CR")
"""Damage that OpenSSH doesn't see: it passes over the key."""


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", [*REVOCATIONS, *UNREADABLE, "a KRL of others", "nothing"])
def test_a_key_that_is_revoked(
    project: Machine, keys: tuple[Key, Key], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """As `ssh-keygen -Y verify -r` has it, named, or by git's own setting. A damaged file lets nobody in, as far as
    OpenSSH sees that it is damaged."""
    ada, eve = keys
    by_hand(project, ada)
    revoked = revocation(tmp_path, kind, ada, eve)
    allowed = allow(tmp_path / "allowed", ada)
    asked = ["verify", SPEC, "--signed", "--allowed-signers", str(allowed)]
    words = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "ada@example.org", "-n", LOCK]
    words += ["-s", str(beside(project)), "-r", str(revoked)]
    by_openssh = subprocess.run(words, input=project.lock_path().read_bytes(), capture_output=True, check=False)
    assert bool(by_openssh.returncode) == (kind in REVOCATIONS)
    assert project.envspec(*asked).status == 0
    (project.home / ".gitconfig").write_text(f'[gpg "ssh"]\nrevocationFile = {revoked}\n')
    for ran in (project.envspec(*asked), project.envspec(*asked, "--revoked", str(revoked))):
        assert ran.status == (2 if kind in UNREADABLE else REVOCATIONS.get(kind, 0)), ran.out + ran.err
        assert (
            ran.status == 0
            or "neither a KRL nor a list of public keys" in ran.err
            or ("is revoked" in ran.out and "[signature-foreign]" in ran.out)
        ), ran.out
    revoked.unlink()
    ran = project.envspec(*asked)
    assert ran.status == 2 and "the revoked keys can't be read" in ran.error, "a file that went revokes nobody"
    ran = project.envspec("verify", SPEC, "--revoked", str(revoked))
    assert ran.status == 2 and "--signed" in ran.hint


SETTINGS = {
    "a damaged configuration": (f"{REVOKED}[", "can't be read"),
    "a home of nobody": (REVOKED.format("~no-such-user/revoked"), "can't be read"),
    "no value": ('[gpg "ssh"]\nrevocationFile\n', "can't be read"),
    "a relative path": (REVOKED.format("revoked"), "is no absolute path: revoked"),
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_setting_of_git_that_cant_be_read_revokes_no_less(
    project: Machine, keys: tuple[Key, Key], tmp_path: Path, kind: str
) -> None:
    """Each passed for no setting at all; a relative one, for the repository's own file."""
    ada, _ = keys
    by_hand(project, ada)
    text, said = SETTINGS[kind]
    (project.home / ".gitconfig").write_text(text.format(revocation(tmp_path, "public keys", *keys)))
    (project.folder / "revoked").write_bytes(b"")
    asked = ["verify", SPEC, "--signed", "--allowed-signers", str(allow(tmp_path / "allowed", ada))]
    ran = project.envspec(*asked)
    assert ran.status == 2 and f"git's gpg.ssh.revocationFile {said}" in ran.error and "--revoked" in ran.hint, ran.err
    assert project.envspec(*asked, "--revoked", "/dev/null").status == 0


def test_settings_of_git_without_git(project: Machine, keys: tuple[Key, Key], tmp_path: Path) -> None:
    ada, _ = keys
    by_hand(project, ada)
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "ssh-keygen").symlink_to(shutil.which("ssh-keygen") or "")
    asked = ["verify", SPEC, "--signed", "--allowed-signers", str(allow(tmp_path / "allowed", ada))]
    path = {"PATH": str(tools)}
    assert project.envspec(*asked, env=path).status == 0
    (project.home / ".gitconfig").write_text(REVOKED.format(revocation(tmp_path, "public keys", *keys)))
    ran = project.envspec(*asked, env=path)
    assert ran.status == 3 and "git isn't installed" in ran.error, ran.out


WEAK = {
    "RSA of 1,024 bits": ("rsa", "1024"),
    "RSA of 2,048 bits": ("rsa", "2048"),
    "DSA": ("dsa",),
    "ECDSA": ("ecdsa",),
}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", WEAK)
def test_a_kind_of_key(project: Machine, tmp_path: Path, kind: str) -> None:
    """What this OpenSSH takes of a signer that is allowed, and nothing of one that isn't."""
    made = tmp_path / "ada"
    words = ["ssh-keygen", "-q", "-N", "", "-C", "x", "-f", str(made), "-t", WEAK[kind][0]]
    words += ["-b", WEAK[kind][1]] if len(WEAK[kind]) > 1 else []
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip(f"this ssh-keygen makes no {kind}")
    key = Key(made)
    by_hand(project, key)
    taken = theirs(beside(project).read_bytes(), project.lock_path().read_bytes(), allow(made, key), tmp_path)
    for named, status in ((key, 0 if taken else 1), (make_key(tmp_path, "eve"), 1)):
        allowed = allow(tmp_path / "allowed", named)
        ran = project.envspec("verify", SPEC, "--signed", "--allowed-signers", str(allowed))
        assert ran.status == status, ran.out
        assert status == 0 or "[signature-foreign]" in ran.out


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("eve@example.org {ada}", 0),  # whoever the file says has the key
        ("*@example.org {ada}", 0),
        ("ada@example.org,eve@example.org {ada}", 0),
        ("!ada@example.org,*@example.org {ada}", 0),
        ("ada@example.org {eve}", 1),
        ("ada@example.org {eve}\neve@example.org {ada}", 0),
        ('ada@example.org namespaces="git,file" {ada}', 1),
        ('ada@example.org namespaces="envspec-*" {ada}', 0),
        ('ada@example.org namespaces="envspec-report" {ada}', 1),
        ('ada@example.org valid-before="20200101" {ada}', 1),
        ('ada@example.org valid-before="20200101" {ada}\nada@example.org {ada}', 0),
        ("ada@example.org cert-authority {ada}", 1),
        ("# ada@example.org {ada}", 1),
        ("{ada}", 1),
        ("", 1),
    ],
)
def test_a_line_of_the_allowed_signers(
    project: Machine, keys: tuple[Key, Key], tmp_path: Path, line: str, status: int
) -> None:
    ada, eve = keys
    by_hand(project, ada)
    bare = {"ada": ada.public.rpartition(" ")[0], "eve": eve.public.rpartition(" ")[0]}
    (tmp_path / "allowed").write_text(line.format(**bare) + "\n")
    ran = project.envspec("verify", SPEC, "--signed", "--allowed-signers", str(tmp_path / "allowed"))
    assert ran.status == status and "Traceback" not in ran.err, ran.out + ran.err
    assert status == 0 or "[signature-foreign]" in ran.out, ran.out


def mangled(text: bytes, chance: Random) -> bytes:
    """A signature with a few bytes of it changed, lost, doubled or moved."""
    data = bytearray(text)
    for _ in range(chance.randint(1, 3)):
        at, other = chance.randrange(len(data)), chance.randrange(len(data))
        match chance.randrange(6):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                del data[at : at + chance.choice((1, 4, 76))]
            case 2:
                data[at:at] = data[other : other + chance.choice((1, 4, 76))]
            case 3:
                data[at:at] = chance.choice((b"\n", b"\r\n", b"\0", b"=", b"-----END SSH SIGNATURE-----\n", b"\xff"))
            case 4:
                data[at], data[other] = data[other], data[at]
            case _:
                data += bytes(data)
    return bytes(data)


def theirs(text: bytes, lock: bytes, allowed: Path, folder: Path) -> bool:
    """Whether OpenSSH takes one signature."""
    (folder / "one.sig").write_bytes(text)
    words = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "ada@example.org", "-n", LOCK]
    words += ["-s", str(folder / "one.sig")]
    return subprocess.run(words, input=lock, capture_output=True, check=False).returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("count", [25, pytest.param(500, marks=pytest.mark.nightly)])
def test_a_signature_mangled_at_random(project: Machine, keys: tuple[Key, Key], tmp_path: Path, count: int) -> None:
    """None is taken that OpenSSH itself doesn't take for this lock, this key and this purpose."""
    ada, eve = keys
    lock, allowed = project.lock_path().read_bytes(), allow(tmp_path / "allowed", ada)
    made = [signature(lock, ada, LOCK), signature(lock, eve, LOCK), signature(lock, ada, "git")]
    for seed in range(count):
        chance = Random(seed)
        text = mangled(made[0] if seed % 3 else chance.choice(made), chance)
        beside(project).write_bytes(text)
        begun = b"-----BEGIN SSH SIGNATURE-----"
        right = any(theirs(begun + one, lock, allowed, tmp_path) for one in text.split(begun)[1:])
        ran = project.envspec("verify", SPEC, "--signed", "--allowed-signers", str(allowed))
        assert ran.status in (0, 1) and "Traceback" not in ran.err, (seed, ran.err)
        assert ran.status or right, (seed, ran.out)
        assert ran.status == 0 or "[signature-" in ran.out, (seed, ran.out)


def test_a_repository_cant_say_whom_to_trust(project: Machine, keys: tuple[Key, Key]) -> None:
    _, eve = keys
    by_hand(project, eve)
    allow(project.folder / "allowed_signers", eve)
    git = project.folder / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    for folder in ("objects", "refs"):
        (git / folder).mkdir()
    config = (
        f'[core]\nrepositoryformatversion = 0\n[gpg "ssh"]\nallowedSignersFile = {project.folder}/allowed_signers\n'
    )
    (git / "config").write_text(config)
    ran = project.envspec("verify", SPEC, "--signed")
    assert ran.status == 2 and "it isn't said who may sign" in ran.error


def test_a_relative_setting_of_git_is_no_trust_in_the_repository(project: Machine, keys: tuple[Key, Key]) -> None:
    _, eve = keys
    by_hand(project, eve)
    allow(project.folder / "allowed", eve)
    (project.home / ".gitconfig").write_text('[gpg "ssh"]\nallowedSignersFile = allowed\n')
    ran = project.envspec("verify", SPEC, "--signed")
    assert ran.status == 2 and "gpg.ssh.allowedSignersFile is no absolute path: allowed" in ran.error, ran.out


@pytest.mark.parametrize(
    "forged",
    [
        *(lambda key: key[:-5], lambda key: "ssh-ed25519 AAAA", lambda key: key.replace("ssh-ed25519", "ssh-rsa", 1)),
        *(lambda key: f"{key}AAAA", lambda key: f"{key}="),
    ],
    ids=["cut off", "no key", "of another kind", "too long", "of other padding"],
)  # fmt: skip
def test_a_revoked_key_of_the_policy_that_is_no_key(
    project: Machine,
    keys: tuple[Key, Key],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    forged: Callable[[str], str],
) -> None:
    """It revoked nobody, and nothing told."""
    ada, _ = keys
    by_hand(project, ada)
    revoked = forged(ada.public.rpartition(" ")[0])
    policy = f"[signatures]\nsigners = ['{ada.public}']\n[signatures.revoked]\n'{revoked}' = '2020-01-01'\n"
    place_policy(monkeypatch, tmp_path, policy)
    for command in (["verify", SPEC, "--signed"], ["install", SPEC, "--prefix", "p"]):
        ran = project.envspec(*command)
        assert ran.status == 2 and "is no SSH public key" in ran.error, ran.out + ran.err


def test_a_key_that_goes_stops_the_next_run(
    project: Machine, keys: tuple[Key, Key], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`run` remembers its answers: none may outlive the signature that it rests on."""
    ada, eve = keys
    by_hand(project, ada)
    policy = place_policy(monkeypatch, tmp_path, f"[signatures]\nsigners = ['{ada.public}']\n")
    assert project.envspec("check", SPEC).status == 0
    monkeypatch.chdir(project.folder)
    asked = run.RunRequest(spec=SPEC, target=None, locks_dir=None, offline=True)
    files = run._sources(asked, SPEC).files
    assert {str(beside(project)), str(policy), str(project.lock_path())} <= files.keys()
    by_hand(project, eve)
    assert run._sources(asked, SPEC).files != files


@pytest.mark.parametrize(
    "program", [None, "#!/bin/sh\necho 'unknown option -- Y' >&2\necho 'usage: ssh-keygen' >&2\nexit 1\n"]
)
def test_without_ssh_keygen_nothing_passes(
    project: Machine, keys: tuple[Key, Key], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str | None
) -> None:
    ada, _ = keys
    by_hand(project, ada)
    allowed = allow(tmp_path / "allowed", ada)
    tools = tmp_path / "tools"
    tools.mkdir()
    if program is not None:
        (tools / "ssh-keygen").write_text(program)
        (tools / "ssh-keygen").chmod(0o755)
    path = {"PATH": str(tools)}
    ran = project.envspec("check", SPEC, env=path)
    assert ran.status == 0 and "wasn't checked" in ran.err
    for command in (
        ["verify", SPEC, "--signed", "--allowed-signers", str(allowed)],
        ["sign", SPEC, "--key", str(ada.path)],
    ):
        ran = project.envspec(*command, env=path)
        assert ran.status == 3 and "ssh-keygen" in ran.error, ran.err
    place_policy(monkeypatch, tmp_path, f"[signatures]\nsigners = ['{ada.public}']\n")
    for command in (["install", SPEC, "--prefix", "p"], ["bundle", SPEC, "-o", "x.tar"], ["check", SPEC]):
        ran = project.envspec(*command, env=path)
        assert ran.status == 3 and "ssh-keygen" in ran.error, ran.err
