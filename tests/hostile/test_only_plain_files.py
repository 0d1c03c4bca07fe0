"""Pipes, devices, sockets and links that lead out where a command opens a file of a repository, an archive or a bundle:
refused at once, by one opener. What the user names may be a pipe, within limits."""

import ast
import hashlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.victim import Hostile, hostile
from test_locks_that_are_no_files import ODD

from envspec.base import plain_files
from envspec.base.errors import InputError, NotPlain
from envspec.base.plain_files import open_plain, read_operand, read_plain

ROOT = Path(__file__).resolve().parents[2] / "envspec"
OPENERS = {
    *("os.open", "io.open", "gzip.open", "bz2.open", "lzma.open", "tarfile.open", "tarfile.is_tarfile"),
    *("zipfile.ZipFile", "zipfile.is_zipfile", "shelve.open", "sqlite3.connect", "mmap.mmap"),
}
CALLED = re.compile(r"\b(open|read_text|read_bytes|is_tarfile|ZipFile|is_zipfile|connect|mmap)\(")
"""The calls that `reads` looks at: a module without any needs no parse."""
OWN = re.compile(r"__file__|\bfiles\(|/proc/")
"""What lies in the package itself, or is the kernel's."""
ALLOWED = {
    "the opener itself, and the folders that it stands on": ("base.plain_files", "base.open_folder"),
    "what lies in the package, or in a copy of its tables that was checked": (
        *("base.codes", "base.html_page:asset", "export.carried", "export.lmod", "export.nix", "facts.edition"),
        *("facts.tables", "facts.wheels"),
        *("net.index_proxy.pages:facts_digest", "prove.link.store:shipped_facts", "prove.link.store:pack"),
    ),
    "programs that are copied to where no envspec is": ("carried", "packages.archive_entries"),
    "the user's and the site's own settings": (
        *("app.lock.resolvers:trust_index", "app.site_policy", "base.places:read_site_file", "configuration.settings"),
        *("configuration.user_config", "net.registry:_table", "resolve.uv.program:_user_settings"),
        "artifacts.conda_channels:logins_file",
    ),
    "envspec's cache and its scratch folders, and rattler's": (
        *("base.cache", "app.bundle:_project", "app.image.base:_of_registry", "app.image.base:registry_source.read"),
        *("app.image.base:registry_source.open_blob", "app.image.make:_make_sif", "app.mirror:fill_mirror"),
        *("app.smoke.run:_results_of", "install.build", "install.bundle:_add", "install.conda", "install.conda_cache"),
        *("install.conda_paths", "install.environments.memo", "install.interpreter", "net.index_proxy.server"),
        *("image.borrowed", "image.conda", "image.layers", "image.standalone", "prove.compiles.build"),
        *("artifacts.conda_archives", "resolve.pip.compile", "resolve.uv.program:_memoise", "review.audit.store"),
        *(
            "artifacts.sdist.source:_unpack",
            "artifacts.wheel_reader",
            "artifacts.sdist.static_source:StaticReader._open",
        ),
    ),
    "wheels that the lock names, compared with their hash, and archives that are open already": (
        *("binaries", "image.wheel", "install.project:_describe_wheel", "net.variant_reader", "prove.link.store"),
        *("prove.smoke.run.case:record_digest", "artifacts.metadata:MetadataReader._text_in"),
        *("artifacts.sdist.static_source:_zip_members", "review.audit.osv:_records", "install.bundle:_texts_of"),
    ),
    "the lock of an environment that is in use, by O_NOFOLLOW": ("install.environments.in_use",),
    "Python's own reader of installed packages": ("packages.own_extras", "draft.prefix:_dist"),
    "the kernel's files": ("prove.doctor.gather", "resolve.uv.program:_descendants"),
}
"""What opens a file otherwise, by module or by function, and why it may."""


def reads(call: ast.Call) -> bool:
    """Say whether a call opens a file for reading by its path."""
    mode = [*(one.value for one in call.keywords if one.arg == "mode")]
    match call.func:
        case ast.Name(id="open"):
            opens = not writes([*mode, *call.args[1:2]])
        case ast.Attribute(attr="read_text" | "read_bytes"):
            opens = True
        case ast.Attribute(value=ast.Name(id=module), attr=name) if f"{module}.{name}" in OPENERS:
            opens = all(one.arg != "fileobj" for one in call.keywords)
        case ast.Attribute(attr="open"):
            given = [*mode, *call.args[:1]]
            opens = isinstance(given[0] if given else None, ast.Constant) and not writes(given)
        case _:
            return False
    return opens and not OWN.search(ast.unparse(call))


def writes(mode: list[ast.expr]) -> bool:
    return any(isinstance(one, ast.Constant) and set(str(one.value)) & set("wax") for one in mode)


def opening(node: ast.AST, name: str = "") -> Iterator[str]:
    """Yield the functions below a node in which a call opens a file."""
    for child in ast.iter_child_nodes(node):
        named = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        below = f"{name}.{child.name}".lstrip(".") if named else name  # type: ignore[attr-defined]
        if isinstance(child, ast.Call) and reads(child):
            yield name
        yield from opening(child, below)


def names_of(source: Path) -> set[str]:
    module = ".".join(source.relative_to(ROOT).with_suffix("").parts)
    text = source.read_text(encoding="utf-8")
    return {f"{module}:{name}" for name in opening(ast.parse(text))} if CALLED.search(text) else set()


def is_under(name: str, allowed: str) -> bool:
    return name == allowed or name.startswith((f"{allowed}:", f"{allowed}."))


def test_nothing_goes_round_the_opener() -> None:
    found = {name for source in ROOT.rglob("*.py") for name in names_of(source)}
    allowed = [one for names in ALLOWED.values() for one in names]
    assert sorted(name for name in found if not any(is_under(name, one) for one in allowed)) == []
    assert [one for one in allowed if not any(is_under(name, one) for name in found)] == [], "nothing opens there now"


@pytest.mark.parametrize(
    "text",
    [
        *("open(p)", "open(p, 'rb')", "open(file=p)", "p.open('rb')", "p.open(mode='r')", "p.read_text()"),
        *("p.read_bytes()", "os.open(p, 0)", "tarfile.open(p)", "zipfile.ZipFile(p)", "gzip.open(p)"),
    ],
)
def test_the_walk_sees_every_way(text: str) -> None:
    assert CALLED.search(text) and list(opening(ast.parse(f"def f(p):\n    {text}"))) == ["f"]


@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "a symbolic link"])
def test_the_opener(tmp_path: Path, kind: str) -> None:
    ODD[kind](tmp_path / "x")
    for path in (tmp_path / "x", link_to(tmp_path / "x", tmp_path / "y")):
        with pytest.raises(IsADirectoryError if kind == "a folder" else NotPlain) as refused:
            open_plain(path)
        assert kind == "a folder" or f"this is {kind}" in str(refused.value)


def link_to(target: Path, place: Path) -> Path:
    place.symlink_to(target)
    return place


def test_a_link_out_of_the_repository(tmp_path: Path) -> None:
    (tmp_path / "clone" / ".git").mkdir(parents=True)
    (tmp_path / "own").write_bytes(b"own")
    link = link_to(tmp_path / "own", tmp_path / "clone" / "x")
    for reader in (read_plain, lambda path: read_operand(path, 9)):
        with pytest.raises(InputError, match="a symbolic link leads from here out of"):
            reader(link)
    assert read_plain(link, links_out=True) == b"own"


def test_a_pipe_that_the_user_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its descriptor and by its name; also of a writer that comes late, and of one that brings nothing."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ours, theirs = os.pipe()
    threading.Thread(target=fill, args=(theirs, b"x" * 300_000)).start()
    assert read_operand(f"/dev/fd/{ours}", 1 << 20) == b"x" * 300_000
    with pytest.raises(InputError, match="nothing came through this pipe"):
        read_operand(f"/dev/fd/{ours}", 9)
    os.close(ours)
    assert read_operand(os.devnull, 9) == b""
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=late, args=(tmp_path / "pipe", b"late")).start()
    assert read_operand(tmp_path / "pipe", 1 << 20) == b"late"


def fill(descriptor: int, content: bytes) -> None:
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)


def late(path: Path, content: bytes) -> None:
    time.sleep(0.3)
    path.write_bytes(content)


def test_a_pipe_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits on bytes and on time, where no writer comes, where one stalls, and where one goes on for ever."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(plain_files, "SECONDS", 0.4)
    assert read_operand("/dev/zero", 1 << 20) == bytes(1 << 20)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"nothing more came for 0\.4 s"):
        read_operand(tmp_path / "pipe", 9)
    with subprocess.Popen(["sh", "-c", "while printf x; do sleep 0.01; done"], stdout=subprocess.PIPE) as slow:
        assert slow.stdout is not None
        with pytest.raises(InputError, match=r"0\.4 s"):
            read_operand(f"/dev/fd/{slow.stdout.fileno()}", 1 << 20)
        slow.kill()


@pytest.fixture
def repository(tmp_path: Path) -> Hostile:
    return hostile(tmp_path)


SIF_SPEC = """
[env]
python = "3.12"
[pip]
dependencies = ["alpha"]
[base]
sif = "x.sif"
[targets.cpu]
platform = "linux-64"
"""
PTMX: Callable[[Path], None] = lambda path: path.symlink_to("/dev/ptmx")  # noqa: E731
PASSWD: Callable[[Path], None] = lambda path: path.symlink_to("/etc/passwd")  # noqa: E731
OF_A_SIF = {**ODD, "a link to a terminal": PTMX, "a link out": PASSWD}


@pytest.mark.e2e
@pytest.mark.parametrize("kind", OF_A_SIF)
def test_as_the_sif_of_a_base(repository: Hostile, kind: str) -> None:
    """`lock` and `upgrade` waited for ever."""
    repository.machine.spec(SIF_SPEC)
    OF_A_SIF[kind](repository.folder / "specs" / "x.sif")
    for words in (("lock", "specs/demo.toml"), ("upgrade", "specs/demo.toml"), ("base", "read", "specs/x.sif")):
        ran = repository.run(*words)
        assert ran.status in (2, 3) and "x.sif" in ran.err, ran.err
        said = (
            "a symbolic link leads from here out of"
            if "link" in kind
            else kind
            if kind != "a folder"
            else "is a folder"
        )
        assert said in ran.err or kind == "a folder", ran.err


EXPORT = ("export", "specs/demo.toml", "--format", "all", "-o", "recipes/demo")


@pytest.mark.by_day(3)
@pytest.mark.e2e
@pytest.mark.parametrize("kind", [kind for kind in ODD if kind != "a folder"])
@pytest.mark.parametrize("path", ["_shared/SHA256SUMS", "demo/cpu/Dockerfile", "demo/flake.nix"])
def test_as_a_file_of_the_recipes(repository: Hostile, path: str, kind: str) -> None:
    """`check` and `export` waited for ever at a list of hashes that is a pipe."""
    assert repository.run(*EXPORT).status == 0
    place = repository.folder / "recipes" / path
    place.unlink()
    ODD[kind](place)
    assert path in repository.refused(path, *EXPORT).error
    ran = repository.run("check")
    assert ran.status in (1, 2) and place.name in ran.out + ran.err, ran.out + ran.err


OPERANDS = """
diff x.json x.json
diff LOCK x.json
base diff x.json x.json
base read x.tar
check x.json
bundle SPEC -o y.tar --since x.tar
audit SPEC --database x.json --offline
report SPEC -o y.html --audit x.json
report SPEC -o y.html --database x.json
inspect x.json
inspect . --spec x.json
lock SPEC --pins-from x.json
init made --from x.json
init made --from-prefix x.json
verify SPEC --signed --allowed-signers x.json
verify x.json --signed
verify x.json
sign SPEC --key x.json
sign x.json --key x.json
git-textconv x.json
git-unreviewed --from HEAD SPEC --reviewed x.json
smoke SPEC --references x.json
smoke x.json
doctor x.json
lock x.json
add x.toml alpha
remove x.toml alpha
upgrade x.toml
outdated x.json
why x.json alpha
tree x.json
report x.json -o y.html
run x.json -- true
install x.json --prefix p
export x.json --format all -o o
image x.json -o l
bundle x.json -o y.tar
link x.json
cache fill x.json --mirror m
"""
REFUSALS = (
    *("not a regular file", "neither a file nor a folder", "there is no such key file", "this is no environment"),
    "envspec reads plain files only",
)


@pytest.mark.e2e
@pytest.mark.parametrize("kind", [kind for kind in ODD if kind not in ("a symbolic link", "a folder")])
def test_what_commands_are_given_out_of_a_repository(repository: Hostile, kind: str) -> None:
    """Each operand and option that names a file to read: it is told of that very file."""
    for name in ("x.json", "x.tar", "x.toml"):
        ODD[kind](repository.folder / name)
    before = sorted(repository.folder.rglob("*"))
    for line in OPERANDS.split("\n")[1:-1]:
        words = line.replace("SPEC", "specs/demo.toml").replace("LOCK", "locks/demo/envspec.lock").split()
        ran = repository.run(*words)
        (named,) = {word for word in words if word.startswith("x.")}
        assert ran.status == 2 and ran.error.startswith(f"error: {named}: "), (line, ran.err)
        assert any(one in ran.error for one in REFUSALS), (line, ran.err)
        assert sorted(repository.folder.rglob("*")) == before, line


FOLDERS = """
report SPEC -o y.html --evidence x
verify SPEC --evidence x
link SPEC --evidence x
smoke SPEC --evidence x
smoke SPEC -o x
check SPEC --locks-dir x
lock SPEC --locks-dir x
smoke --compare x x
inspect x
image SPEC --base ./x -o l
base read ./x
audit SPEC --database x --offline
init made --from x
"""


@pytest.mark.e2e
@pytest.mark.parametrize("kind", [kind for kind in ODD if kind not in ("a symbolic link", "a folder")])
def test_in_place_of_a_folder_that_a_command_is_given(repository: Hostile, kind: str) -> None:
    """`report --evidence PIPE` ended with 0, as if there were no records; others asked the indexes before
    they said "File exists"."""
    ODD[kind](repository.folder / "x")
    before = sorted(repository.folder.rglob("*"))
    for line in FOLDERS.split("\n")[1:-1]:
        ran = repository.run(*line.replace("SPEC", "specs/demo.toml").split())
        assert ran.status == 2 and ran.error.startswith("error: x: "), (line, ran.err)
        assert kind in ran.error or "neither a file nor a folder" in ran.error, (line, ran.err)
        assert sorted(repository.folder.rglob("*")) == before, line


@pytest.mark.e2e
@pytest.mark.parametrize("kind", [kind for kind in ODD if kind not in ("a symbolic link", "a folder")])
def test_in_the_folders_that_commands_read(repository: Hostile, kind: str) -> None:
    """What `init` walks, an OCI layout's blobs, a folder of advisories, the evidence beside a spec."""
    for path in ("requirements.txt", "environment.yml", "src/a.py", "setup.py", "Dockerfile", "osv/a.json",
                 "docs/evidence/a.json", "docs/evidence/README.md"):  # fmt: skip
        (repository.folder / path).parent.mkdir(parents=True, exist_ok=True)
        ODD[kind](repository.folder / path)
    for words in (
        *(("init", "one", "--from", "."), ("init", "two", "--from", "requirements.txt")),
        *(("check",), ("verify", "specs/demo.toml")),
        *(("audit", "specs/demo.toml", "--database", "osv", "--offline"), ("diff", "requirements.txt", "Dockerfile")),
    ):
        ran = repository.run(*words)
        assert ran.status in (0, 1, 2, 3) and "Traceback" not in ran.err, (words, ran.err)
        assert "shows its usage" not in ran.err, (words, ran.err)
    layout = repository.folder / "layout"
    (layout / "blobs/sha256").mkdir(parents=True)
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    digest = hashlib.sha256(b"x").hexdigest()
    media = "application/vnd.oci.image.manifest.v1+json"
    (layout / "index.json").write_text(
        f'{{"schemaVersion": 2, "manifests": [{{"mediaType": "{media}", "digest": "sha256:{digest}", "size": 1}}]}}'
    )
    ODD[kind](layout / "blobs/sha256" / digest)
    ran = repository.run("base", "read", "./layout")
    assert ran.status == 2 and f"this is {kind}" in ran.err, ran.err


@pytest.mark.slow
@pytest.mark.e2e
@pytest.mark.parametrize("kind", [kind for kind in ODD if kind not in ("a symbolic link", "a folder")])
def test_among_gits_own_files(repository: Hostile, kind: str) -> None:
    """An archive of a work tree: git waited for ever, and so did `check`, `lock` and `diff`."""
    subprocess.run(["git", "init", "-q", str(repository.folder)], check=True)
    ODD["a socket"](repository.folder / ".git" / "fsmonitor--daemon.ipc")  # git's own, of an honest user
    assert "no commit to compare with" in repository.run("diff", "specs/demo.toml").error
    for path in ("HEAD", "index", "refs/heads/x"):
        place, before = repository.folder / ".git" / path, None
        if place.exists():
            before = place.read_bytes()
            place.unlink()
        ODD[kind](place)
        for words in (("check",), ("diff", "specs/demo.toml"), ("lock", "specs/demo.toml")):
            ran = repository.run(*words)
            assert ran.status in (0, 1, 2, 3) and "Traceback" not in ran.err, (path, words, ran.err)
            assert ran.status != 2 or f".git/{path}: this is {kind}" in ran.error or "socket" in kind, ran.err
        place.unlink()
        if before is not None:
            place.write_bytes(before)


@pytest.mark.slow
@pytest.mark.e2e
def test_what_the_user_names_may_be_a_pipe(repository: Hostile) -> None:
    machine, lock = repository.machine, "locks/demo/envspec.lock"
    env = machine.environment({"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
    for line in (
        f"envspec diff <(cat {lock}) {lock}",
        f"envspec diff /dev/stdin {lock} <{lock}",
        f"cat {lock} | envspec diff /dev/stdin {lock}",
    ):
        words = ["bash", "-c", line]
        ran = subprocess.run(words, cwd=machine.folder, env=env, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, (line, ran.stderr)


@pytest.mark.slow
@pytest.mark.e2e
def test_a_pipe_that_brings_nothing(repository: Hostile) -> None:
    """`diff <(git show …) LOCK` had an answer though git had failed."""
    machine, lock = repository.machine, "locks/demo/envspec.lock"
    env = machine.environment({"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"})
    for words in (
        *("diff <(true) <(true)", f"diff {lock} <(true)", f"diff <(true) {lock}", "base diff <(true) <(true)"),
        *("report specs/demo.toml -o y.html --audit <(true)", "report specs/demo.toml -o y.html --evidence <(true)"),
        *("init made --from <(true)", "lock specs/demo.toml --pins-from <(true)", "base read <(true)"),
        *("audit specs/demo.toml --offline --database <(true)", "smoke specs/demo.toml --references <(true)"),
        "verify specs/demo.toml --signed --allowed-signers <(true)",
    ):
        bash = ["bash", "-c", f"envspec {words}"]
        ran = subprocess.run(bash, cwd=machine.folder, env=env, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 2 and ran.stderr.startswith("error: /dev/fd/"), (words, ran.stdout, ran.stderr)
        assert "pipe" in ran.stderr, (words, ran.stderr)
