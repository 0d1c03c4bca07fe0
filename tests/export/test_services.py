"""The services of an image: started together, ended together, and nothing left behind."""

import json
import os
import signal
import socket
import subprocess
from http.server import HTTPServer
from pathlib import Path

import pytest
from image_scripts import Image, image as image
from support.serving import Quiet, serving
from support.waiting import wait_until

FOREVER = "trap 'echo {0} stopped >&2; exit 0' TERM; echo $$ > \"$TMPDIR/{0}.pid\"; while :; do sleep 0.05; done\n"


def test_services_run_together_and_end_together(image: Image) -> None:
    for name in ("jupyter", "ssh"):
        image.service(name, FOREVER.format(name))
    process = image.start()
    wait_until(lambda: all((image.tmp / f"{name}.pid").exists() for name in ("jupyter", "ssh")), 30)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 143
    assert sorted(err.splitlines()) == ["jupyter stopped", "ssh stopped"]


def test_a_second_signal_waits_for_no_service(image: Image) -> None:
    """As of who presses Ctrl-C once more: where it is the container's first process, what is left ends with it."""
    image.service("jupyter", FOREVER.format("jupyter"))
    image.service("ssh", 'trap "echo deaf >&2" TERM; echo $$ >"$TMPDIR/ssh.pid"; while :; do sleep 0.05; done\n')
    process = image.start()
    wait_until(lambda: all((image.tmp / f"{name}.pid").exists() for name in ("jupyter", "ssh")), 30)
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None and "deaf" in process.stderr.readline() + process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    os.kill(int((image.tmp / "ssh.pid").read_text()), signal.SIGKILL)
    process.communicate()


def test_one_service_that_dies_ends_the_others(image: Image) -> None:
    image.service("jupyter", FOREVER.format("jupyter"))
    image.service("ssh", 'while [ ! -e "$TMPDIR/jupyter.pid" ]; do sleep 0.05; done; exit 0\n')
    code, _, err = image.run()
    assert code == 1
    assert "a service ended, so the others are stopped" in err and "jupyter stopped" in err


def test_a_killed_service_counts_as_dead(image: Image) -> None:
    for name in ("jupyter", "ssh"):
        image.service(name, FOREVER.format(name))
    process = image.start()
    files = [image.tmp / f"{name}.pid" for name in ("jupyter", "ssh")]
    wait_until(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files), 30)
    os.kill(int(files[0].read_text()), signal.SIGKILL)
    assert process.wait(timeout=30) == 1
    process.communicate()


@pytest.mark.slow
def test_health_is_that_of_what_was_started(image: Image) -> None:
    assert image.run(script="healthcheck.sh")[0] == 0
    (image.tmp / f"envspec-services.{os.getuid()}").write_text("ssh\n")
    code, _, err = image.run(script="healthcheck.sh", SSH_PORT="1")
    assert code == 1 and err.startswith("ssh: ")


def test_the_note_of_services_follows_no_link(image: Image) -> None:
    precious = image.home / "precious"
    precious.write_text("mine")
    (image.tmp / f"envspec-services.{os.getuid()}").symlink_to(precious)
    image.service("jupyter", "true")
    assert image.run("jupyter")[0] == 0
    assert precious.read_text() == "mine"


SHOW = 'printf "%s\\n" "$@"; echo "token=${JUPYTER_TOKEN:-} home=$HOME runtime=$JUPYTER_RUNTIME_DIR"'


@pytest.mark.slow
def test_jupyter_gets_a_token_of_its_own_and_tells_it_once(image: Image) -> None:
    image.service("jupyter")
    image.program("jupyter", SHOW)
    first, second = image.run("jupyter"), image.run("jupyter")
    token = first[2].partition("?token=")[2].strip()
    assert len(token) > 40 and first[2].count(token) == 1 and first[2] != second[2]
    arguments, _, environment = first[1].rpartition("token=")
    assert environment.startswith(token) and token not in arguments
    assert "--ip=127.0.0.1" in arguments.splitlines()


def test_a_token_that_is_given_is_not_told(image: Image) -> None:
    image.service("jupyter")
    image.program("jupyter", SHOW)
    secret = image.home / "secret"
    secret.write_text("from-a-file\n")
    for env in ({"JUPYTER_TOKEN": "from-the-environment"}, {"JUPYTER_TOKEN_FILE": str(secret)}):
        _, out, err = image.run("jupyter", ENVSPEC_BIND="0.0.0.0", **env)
        assert err == "" and "token=from-" in out and "--ip=0.0.0.0" in out.splitlines()


@pytest.mark.slow
def test_services_listen_where_neighbours_do_not_see_them(image: Image) -> None:
    """Everywhere only in a network of the container's own: here one without any card."""
    image.service("jupyter")
    image.program("jupyter", 'printf "%s\\n" "$@"')
    for told in ("SLURM_JOB_ID", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER"):
        out = image.run("jupyter", **{"SLURM_JOB_ID": "", "JUPYTER_TOKEN": "x", told: "1"})[1]
        assert "--ip=127.0.0.1" in out.splitlines()
    own = ["unshare", "--net", "--mount", "sh", "-c", 'mount -t sysfs sysfs /sys && exec "$@"', "sh"]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no namespace of its own can be had here")
    command = [*own, "sh", str(image.carried / "entrypoint.sh"), "jupyter"]
    for told, address in (("", "0.0.0.0"), ("1", "127.0.0.1")):
        env = {**image.env, "JUPYTER_TOKEN": "x", "SLURM_JOB_ID": told}
        ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert f"--ip={address}" in ran.stdout.splitlines()


def test_hardware_is_a_network_of_the_machines(image: Image) -> None:
    if not list(Path("/sys/class/net").glob("*/device")):
        pytest.skip("no network card that is hardware is visible here")
    image.service("jupyter")
    image.program("jupyter", 'printf "%s\\n" "$@"')
    assert "--ip=127.0.0.1" in image.run("jupyter", JUPYTER_TOKEN="x", SLURM_JOB_ID="")[1].splitlines()


@pytest.mark.slow
def test_a_server_that_loses_a_signal_is_asked_again(image: Image) -> None:
    """Jupyter's handler fails where the signal comes while it writes its log."""
    image.service("jupyter")
    asks = 'asked=0; trap "asked=\\$((asked + 1)); [ \\$asked -lt 2 ] || exit 7" TERM; echo ready'
    image.program("jupyter", f"{asks}; while :; do sleep 0.05; done")
    process = image.start("jupyter")
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 7
    process.communicate()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("how", ["ends", "fails", "is stopped"])
def test_a_service_leaves_nothing_behind(image: Image, how: str) -> None:
    image.service("jupyter")
    status = {"ends": 0, "fails": 3, "is stopped": 5}[how]
    wait = "trap 'exit 5' TERM; touch $TMPDIR/started; while :; do sleep 0.05; done" if how == "is stopped" else ""
    image.program("jupyter", f"test -d ${{JUPYTER_RUNTIME_DIR%/*}} || exit 9; {wait}\nexit {status}")
    process = image.start("jupyter")
    if how == "is stopped":
        wait_until((image.tmp / "started").exists, 30)
        process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == status
    assert not list(image.tmp.glob("envspec-????????"))


@pytest.mark.slow
def test_health_of_what_listens_by_ipv6(image: Image) -> None:
    class Api(Quiet):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()

    class Server(HTTPServer):
        address_family = socket.AF_INET6

    try:
        server = Server(("::1", 0), Api)
    except OSError:
        pytest.skip("no IPv6 here")
    (image.tmp / f"envspec-services.{os.getuid()}").write_text("jupyter\n")
    with serving(server):
        for bind in ("::", "::1"):
            port = str(server.server_address[1])
            code, _, err = image.run(script="healthcheck.sh", JUPYTER_PORT=port, ENVSPEC_BIND=bind)
            assert (code, err) == (0, "")


@pytest.mark.slow
def test_code_server_gets_a_password_and_no_file_has_it(image: Image) -> None:
    if Path("/usr/lib/code-server").exists():
        pytest.skip("code-server is installed here")
    image.service("code-server")
    image.program("code-server", 'printf "%s\\n" "$@"; echo "password=$PASSWORD"')
    _, out, err = image.run("code-server")
    password = err.split()[-1]
    assert len(password) > 40 and f"password={password}" in out and password not in out.partition("password=")[0]
    assert "127.0.0.1:8080" in out.splitlines()
    assert "[::]:8080" in image.run("code-server", ENVSPEC_BIND="::")[1].splitlines()
    assert all(password not in path.read_text() for path in image.tmp.rglob("*") if path.is_file())


def test_sshd_is_not_started_without_a_key(image: Image) -> None:
    image.service("ssh")
    image.program("sshd", "exit 9")
    image.program("id", 'case "$*" in -un) echo dev ;; *) echo 1000 ;; esac')
    code, _, err = image.run("ssh")
    assert code == 78 and "nobody could log in" in err


def test_without_keys_the_other_services_start_and_it_says_how_to_log_in(image: Image) -> None:
    """As the head of a Dockerfile starts it."""
    image.service("ssh")
    image.program("sshd", "exit 9")
    image.program("id", 'case "$*" in -un) echo dev ;; *) echo 1000 ;; esac')
    image.service("jupyter", FOREVER.format("jupyter"))
    image.service("tensorboard", FOREVER.format("tensorboard"))
    process = image.start()
    noted = image.tmp / "envspec-services.1000"
    wait_until(lambda: noted.exists() and noted.read_text() == "jupyter\ntensorboard\n", 30)
    wait_until(lambda: all((image.tmp / f"{name}.pid").exists() for name in ("jupyter", "tensorboard")), 30)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert (
        process.returncode == 143 and "give public keys by AUTHORIZED_KEYS" in err and "others are stopped" not in err
    )


def test_sshd_is_not_started_as_root(image: Image) -> None:
    image.service("ssh")
    image.program("id", 'case "$*" in -un) echo root ;; *) echo 0 ;; esac')
    code, _, err = image.run("ssh", AUTHORIZED_KEYS="ssh-ed25519 AAAA")
    assert code == 1 and "not started as root" in err


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("version", "read"),
    [
        ("OpenSSH_9.2p1 Debian-2+deb12u7, OpenSSL 3.0.17", True),
        ("unknown option -- V\nOpenSSH_8.4p1 Debian-5+deb11u3, OpenSSL 1.1.1w", False),
    ],
)
def test_values_with_quotes_backslashes_and_hashes_are_handed_on_where_sshd_reads_them(
    image: Image, version: str, read: bool
) -> None:
    """Before 8.7, sshd has no way to write them. A real one reads them in tests/e2e/test_image.py."""
    image.service("ssh")
    (image.carried / "target.json").write_text(json.dumps({"cuda": None, "spec": "demo", "env": []}))
    say = f"if [ \"$1\" = -V ]; then printf '%s\\n' '{version}' >&2; exit 1; fi; "
    image.program("sshd", say + 'while [ "$1" != -f ]; do shift; done; cat "$2"')
    image.program("ssh-keygen", 'case "$1" in -lf) echo "256 SHA256:x envspec" ;; *) : ;; esac')
    image.program("id", 'case "$*" in -un) echo dev ;; *) echo 1000 ;; esac')
    given = {"HF_HOME": r'/a "b" \c #d', "NCCL_DEBUG": 'in"fo', "OMP_NUM_THREADS": "4"}
    code, out, err = image.run("ssh", AUTHORIZED_KEYS="ssh-ed25519 AAAA me", **given)
    assert code == 0, err
    (set_env,) = (line for line in out.splitlines() if line.startswith("SetEnv"))
    assert ' "OMP_NUM_THREADS=4"' in set_env
    assert (r' "HF_HOME=/a \"b\" \\c #d"' in set_env) == (r' "NCCL_DEBUG=in\"fo"' in set_env) == read
    assert ("HF_HOME" in set_env) == ("NCCL_DEBUG" in set_env) == read


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("least", "port"), [("0", "22"), ("1024", "2222")])
def test_sshd_has_the_port_of_the_spec_where_a_user_may_have_it(image: Image, least: str, port: str) -> None:
    """Docker gives users all ports; the others keep those below 1024 for root."""
    image.service("ssh")
    (image.carried / "target.json").write_text(json.dumps({"cuda": None, "spec": "demo", "env": []}))
    image.program("cat", f'case "$*" in *unprivileged*) echo {least} ;; *) exec /bin/cat "$@" ;; esac')
    image.program("sshd", 'while [ "$1" != -f ]; do shift; done; cat "$2"')
    image.program("ssh-keygen", 'case "$1" in -lf) echo "256 SHA256:x envspec" ;; *) : ;; esac')
    image.program("id", 'case "$*" in -un) echo dev ;; *) echo 1000 ;; esac')
    key = "ssh-ed25519 AAAA me"
    code, out, err = image.run("ssh", AUTHORIZED_KEYS=key, SSH_PORT=port)
    assert code == 0 and f"Port {port}" in out.splitlines(), err
    code, _, err = image.run("ssh", AUTHORIZED_KEYS=key, SSH_PORT="22")
    assert (code, "or -e SSH_PORT=2222" in err) == ((0, False) if least == "0" else (1, True))


def test_the_configuration_of_sshd(image: Image) -> None:
    image.service("ssh")
    own = ["API_TOKEN", "PYTORCH_CUDA_ALLOC_CONF", "TOKENIZERS_PARALLELISM"]
    (image.carried / "target.json").write_text(json.dumps({"cuda": None, "spec": "demo", "env": own}))
    image.program("sshd", 'while [ "$1" != -f ]; do shift; done; cat "$2"')
    image.program("ssh-keygen", 'case "$1" in -lf) echo "256 SHA256:x envspec" ;; *) : ;; esac')
    image.program("id", 'case "$*" in -un) echo dev ;; *) echo 1000 ;; esac')
    code, out, err = image.run(
        "ssh",
        AUTHORIZED_KEYS="ssh-ed25519 AAAA me",
        CUDA_VISIBLE_DEVICES="0,1",
        HF_HOME="/workspace/a b",
        HF_TOKEN="secret-1",
        NVIDIA_API_KEY="secret-2",
        NCCL_DEBUG='in"fo',
        UNRELATED="other",
        SLURM_JOB_ID="7",
        SLURM_JWT="secret-3",
        NVIDIA_AUTH="secret-4",
        OMP_CREDS="secret-5",
        TOKENIZERS_PARALLELISM="false",
        PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True",
        API_TOKEN="secret-6",
    )
    assert code == 0, err
    lines = out.splitlines()
    for line in (
        "Port 2222", "ListenAddress 127.0.0.1", "PermitRootLogin no", "AuthenticationMethods publickey",
        "PasswordAuthentication no", "KbdInteractiveAuthentication no", "UsePAM no", "AllowUsers dev",
    ):  # fmt: skip
        assert line in lines
    (set_env,) = (line for line in lines if line.startswith("SetEnv"))
    for pair in (
        "CUDA_VISIBLE_DEVICES=0,1", "HF_HOME=/workspace/a b", "SLURM_JOB_ID=7", "TOKENIZERS_PARALLELISM=false",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", f"HOME={image.home}", f"VIRTUAL_ENV={image.prefix}",
    ):  # fmt: skip
        assert f' "{pair}"' in set_env
    assert ' "PATH=' in set_env
    assert not any(word in out + err for word in ("secret-", 'in"fo', "UNRELATED", "AAAA"))
