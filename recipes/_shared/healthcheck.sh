#!/bin/sh
# Healthy: each service that entrypoint.sh started answers; where it started none, Python starts.
set -eu

prefix=${ENVSPEC_PREFIX:-/opt/env}
list=${TMPDIR:-/tmp}/envspec-services.$(id -u)
started=
if [ -r "$list" ]; then
    started=$(cat "$list")
fi
# shellcheck disable=SC2086
exec "$prefix/bin/python" -I - $started <<'EOF'
import os
import socket
import sys
import urllib.error
import urllib.request

bind = os.environ.get("ENVSPEC_BIND", "127.0.0.1")
# What listens at every address is asked at the machine's own.
host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(bind, bind)
# A proxy that the environment names is for the world outside.
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def http(port, path):
    place = f"[{host}]" if ":" in host else host
    with opener.open(f"http://{place}:{port}{path}", timeout=5) as answer:
        return answer.status == 200


def answers(port):
    """Whether a server of HTTP answers, whatever it says: its path is a secret."""
    try:
        return http(port, "/")
    except urllib.error.HTTPError as error:
        return error.code == 404


def banner(port):
    with socket.create_connection((host, int(port)), timeout=5) as connection:
        return connection.recv(4) == b"SSH-"


base = os.environ.get("JUPYTER_BASE_URL", "/").strip("/")
checks = {
    "jupyter": lambda: http(os.environ.get("JUPYTER_PORT", "8888"), f"/{base}/api" if base else "/api"),
    "ssh": lambda: banner(os.environ.get("SSH_PORT", "2222")),
    "code-server": lambda: http(os.environ.get("CODE_SERVER_PORT", "8080"), "/healthz"),
    "tensorboard": lambda: answers(os.environ.get("TENSORBOARD_PORT", "6006")),
}
failed = []
for name in sys.argv[1:]:
    try:
        if not checks[name]():
            failed.append(f"{name} answers wrongly")
    except OSError as error:
        failed.append(f"{name}: {error}")
if failed:
    sys.exit("; ".join(failed))
EOF
