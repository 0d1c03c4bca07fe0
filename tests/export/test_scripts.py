"""The carried scripts: every shell takes them, and they do what their heads say, beside stand-ins of programs."""

import importlib.util
import marshal
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from image_scripts import DATA, Image, image as image

FOR_BASH = ("mount.sh",)
"""Its locks are files of bash's: it runs on clusters, whose nodes have it. The others run in any image."""
SCRIPTS = sorted(path.relative_to(DATA).as_posix() for path in DATA.rglob("*.sh"))


def test_they_are_all_here() -> None:
    services = [f"services/{name}.sh" for name in ("code-server", "common", "jupyter", "ssh", "tensorboard")]
    assert ["build.sh", "entrypoint.sh", "healthcheck.sh", "mount.sh", *services, "warned.sh"] == SCRIPTS


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_shells_read_them(script: str, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is missing")
    if script in FOR_BASH:
        subprocess.run(["bash", "-n", str(DATA / script)], check=True)
        return
    subprocess.run([shell, *(["--posix"] if shell == "bash" else []), "-n", str(DATA / script)], check=True)


@pytest.mark.slow
def test_shellcheck() -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("shellcheck is missing")
    command = ["shellcheck", "-x", "-P", "SCRIPTDIR", *(str(DATA / script) for script in SCRIPTS)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_a_command_gets_its_arguments_as_they_are(image: Image) -> None:
    words = ["a b", "$HOME", "*", "", "'", '"']
    code, out, err = image.run("printf", "<%s>", *words)
    assert (code, out, err) == (0, "".join(f"<{word}>" for word in words), "")


def test_the_exit_status_is_the_commands(image: Image) -> None:
    assert image.run("sh", "-c", "exit 7")[0] == 7


def test_the_environment_leads_the_path(image: Image) -> None:
    image.program("tool", "echo ours")
    assert image.run("tool")[1] == "ours\n"


def test_the_preflight_comes_first_and_can_be_left_out(image: Image) -> None:
    (image.carried / "preflight.py").write_text("import sys; sys.stderr.write('too old\\n'); sys.exit(1)")
    code, out, err = image.run("echo", "started")
    assert (code, out, err) == (1, "", "too old\n")
    assert image.run("echo", "started", ENVSPEC_SKIP_PREFLIGHT="1")[:2] == (0, "started\n")


@pytest.mark.slow
def test_preflight_prints_the_hardware_and_nvcc(image: Image, tmp_path: Path) -> None:
    """Of no driver and no compiler first, then of a compiler where CUDA_HOME says."""
    bare = {"CUDA_HOME": str(tmp_path / "cuda"), "PATH": "/usr/bin:/bin"}
    code, out, err = image.run("preflight", **bare)
    assert (code, err) == (0, "") and out.startswith("GPU: ") and out.endswith("nvcc: none\n")
    assert [line.partition(":")[0] for line in out.splitlines()][-3:] == ["driver", "NVLinks up", "nvcc"]
    compiler = tmp_path / "cuda" / "bin" / "nvcc"
    compiler.parent.mkdir(parents=True)
    compiler.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "release 12.8, V12.8.93"\n')
    compiler.chmod(0o755)
    assert image.run("preflight", **bare)[1].endswith("release 12.8, V12.8.93\n")


def test_smoke_is_the_carried_check(image: Image) -> None:
    (image.carried / "check" / "__main__.py").write_text("import sys; print(*sys.argv[1:], sep='\\n')")
    code, out, _ = image.run("smoke", "--quick", "--json", "a b")
    assert code == 0
    assert out.splitlines() == ["--config", str(image.carried / "target.json"), "--quick", "--json", "a b"]


def test_conda_activation_is_read(image: Image) -> None:
    folder = image.prefix / "etc" / "conda" / "activate.d"
    folder.mkdir(parents=True)
    (folder / "a.sh").write_text("false\nexport FROM_CONDA=$UNSET-yes\n")
    assert image.run("sh", "-c", "echo $FROM_CONDA")[1] == "-yes\n"


@pytest.mark.slow
@pytest.mark.by_day(1)
@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_conda_activation_is_bashs(image: Image, shell: str) -> None:
    """As conda-forge's compilers have it; what is wrong in one script stops neither the others nor the command."""
    for program in (shell, "bash"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing")
    (image.prefix / "conda-meta").mkdir()
    folder = image.prefix / "etc" / "conda" / "activate.d"
    folder.mkdir(parents=True)
    (folder / "a.sh").write_text("set -eu\nset -- lost\nprefix=lost\nscript=lost\nif then\n")
    (folder / "b.sh").write_text(
        "function _tc() {\n  local -a words=(one two)\n  export TOOLS=${words[1]}:$CONDA_PREFIX\n}\n_tc\n"
        "export PATH=/scripts/own:$PATH\n"
    )
    words = ["a b", "$HOME", "*", "", "'", '"']
    code, out, err = image.run(
        "sh", "-c", 'echo "$TOOLS" "${VIRTUAL_ENV-none}" "$PATH"; printf "<%s>" "$@"', "sh", *words,
        shell=shell, BASH_ENV="/nowhere/lmod", VIRTUAL_ENV="/callers",
    )  # fmt: skip
    path = f"/scripts/own:{image.prefix}/bin:{image.env['PATH']}"
    assert (code, out) == (0, f"two:{image.prefix} none {path}\n" + "".join(f"<{word}>" for word in words)), err
    assert "syntax error" in err and "/nowhere" not in err
    (folder / "c.sh").write_text("set -u\necho $UNSET\n")
    assert image.run("echo", "started", shell=shell)[:2] == (0, "started\n")
    (folder / "c.sh").write_text("exit 3\n")
    assert image.run("sh", "-c", 'echo "$TOOLS"; exit 7', shell=shell)[:2] == (7, f"two:{image.prefix}\n")


def test_activation_without_bash_is_said(image: Image, tmp_path: Path) -> None:
    (image.prefix / "etc" / "conda" / "activate.d").mkdir(parents=True)
    (image.prefix / "etc" / "conda" / "activate.d" / "a.sh").write_text("export A=1\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("dirname", "id", "sh"):
        (tools / name).symlink_to(str(shutil.which(name)))
    code, out, err = image.run("sh", "-c", "echo started", PATH=str(tools))
    assert (code, out) == (0, "started\n") and "there is no bash" in err


def test_the_active_environment_is_this_one(image: Image) -> None:
    show = 'echo "${CONDA_PREFIX-none} ${VIRTUAL_ENV-none}"'
    callers = {"CONDA_PREFIX": "/callers", "VIRTUAL_ENV": "/callers"}
    assert image.run("sh", "-c", show, **callers)[1] == f"none {image.prefix}\n"
    (image.prefix / "conda-meta").mkdir()
    assert image.run("sh", "-c", show, **callers)[1] == f"{image.prefix} none\n"


@pytest.mark.slow
def test_a_home_that_cannot_be_written_is_replaced(image: Image) -> None:
    """By the same folder each time, as caches stand there."""
    own = image.tmp / f"envspec-home.{os.getuid()}"
    missing = str(image.tmp / "missing")
    for home in (missing, "", "/dev/null"):
        assert image.run("sh", "-c", "echo $HOME", HOME=home)[1] == f"{own}\n"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert image.run("sh", "-c", "echo $HOME", HOME="", TMPDIR=missing)[1].startswith("/tmp/envspec-home.")
    assert image.run("sh", "-c", "echo $HOME")[1] == f"{image.home}\n"


def test_a_link_under_the_name_of_the_home_is_not_followed(image: Image) -> None:
    (image.tmp / f"envspec-home.{os.getuid()}").symlink_to(image.home)
    home = Path(image.run("sh", "-c", "echo $HOME", HOME=str(image.tmp / "missing"))[1].strip())
    assert home.is_dir() and home.parent == image.tmp and home.resolve() == home


def test_without_services_and_command_it_is_a_shell(image: Image) -> None:
    assert image.run()[0] == 0


@pytest.mark.slow
def test_a_service_by_name_and_the_program_with_arguments(image: Image) -> None:
    image.service("jupyter", "echo service")
    image.program("jupyter", 'echo "program $*"')
    assert image.run("jupyter")[1] == "service\n"
    assert image.run()[1] == "service\n"
    assert image.run("jupyter", "--version")[1] == "program --version\n"


def test_a_name_that_is_no_service_here_is_a_command(image: Image) -> None:
    image.program("ssh", 'echo "client $*"')
    assert image.run("ssh")[1] == "client \n"


SCRIPT = Path(__file__).resolve().parents[2] / "envspec" / "carried" / "bytecode.py"


def compile_all(folder: Path, *place: str) -> None:
    subprocess.run([sys.executable, "-ISB", str(SCRIPT), str(folder), *place], check=True)


def cached(path: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(path)))


@pytest.mark.slow
def test_it_is_unchecked_and_the_same_every_time(tmp_path: Path) -> None:
    folders = [tmp_path / "a" / "pkg", tmp_path / "b" / "pkg"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "module.py").write_text("def answer(x):\n    return x in {'a', 'b', 'c', 'd', 'e', 'f'}\n")
    compile_all(tmp_path / "a")
    compiled = cached(folders[0] / "module.py")
    flags = int.from_bytes(compiled.read_bytes()[4:8], "little")
    assert flags == 0b01, "hash-based, and the source isn't looked at (PEP 552)"
    first = compiled.read_bytes()
    compiled.unlink()
    compile_all(tmp_path / "a")
    assert compiled.read_bytes() == first


def test_what_has_bytecode_is_left_alone(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text("x = 1\n")
    cached(module).parent.mkdir()
    cached(module).write_bytes(b"as it is")
    compile_all(tmp_path)
    assert cached(module).read_bytes() == b"as it is"


def test_what_does_not_compile_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "template.py").write_text("import {{ name }}\n")
    (tmp_path / "nul.py").write_bytes(b"x = '\0'\n")
    (tmp_path / "good.py").write_text("x = 1\n")
    compile_all(tmp_path)
    assert cached(tmp_path / "good.py").exists() and not cached(tmp_path / "template.py").exists()


def test_a_layer_tells_where_its_files_will_be(tmp_path: Path) -> None:
    module = tmp_path / "layer" / "lib" / "module.py"
    module.parent.mkdir(parents=True)
    module.write_text("x = 1\n")
    compile_all(tmp_path / "layer" / "lib", "/opt/env/lib")
    assert marshal.loads(cached(module).read_bytes()[16:]).co_filename == "/opt/env/lib/module.py"
