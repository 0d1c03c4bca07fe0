#!/bin/sh
# An SSH server in the foreground, without root: it serves the user that it runs as, and takes keys only.
#   AUTHORIZED_KEYS        public keys, one a line
#   AUTHORIZED_KEYS_FILE   a file with more of them; .ssh/authorized_keys of the user's home where it isn't set
#   SSH_HOST_KEY_FILE      the host's private key, for one that outlives the container; else a new one is made
#   SSH_PORT               2222, or [image] ssh-port of the spec
#   ENVSPEC_BIND           the address to listen at
# shellcheck source=common.sh
. "$(dirname -- "$0")/common.sh"

user=$(id -un 2>/dev/null) ||
    fail "the user $(id -u) has no name here, and sshd needs one: start with the image's own user"
[ "$(id -u)" -ne 0 ] || fail 'sshd is not started as root: start with the image'\''s own user'
# HOME may be another, where the user's own can't be written.
keys_file=${AUTHORIZED_KEYS_FILE:-$(getent passwd "$user" | cut -d : -f 6)/.ssh/authorized_keys}
port=${SSH_PORT:-2222}
least=$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start 2>/dev/null || printf 1024)
remedy='docker run --sysctl net.ipv4.ip_unprivileged_port_start=0, or -e SSH_PORT=2222'
[ "$port" -ge "$least" ] || fail "SSH_PORT is $port, and only root has ports below $least here: $remedy"
sshd=$(command -v sshd || printf '%s' /usr/sbin/sshd)
[ -x "$sshd" ] || fail 'there is no sshd: install openssh-server'

{
    [ -z "${AUTHORIZED_KEYS:-}" ] || printf '%s\n' "$AUTHORIZED_KEYS"
    [ ! -r "$keys_file" ] || cat "$keys_file"
} >"$runtime/authorized_keys"
if [ ! -s "$runtime/authorized_keys" ]; then
    remedy='give public keys by AUTHORIZED_KEYS, or a file by AUTHORIZED_KEYS_FILE'
    say "ssh is not started, as nobody could log in: $remedy"
    # by which entrypoint.sh knows that the other services are wanted all the same
    exit 78
fi
unset AUTHORIZED_KEYS

host_key=$runtime/ssh_host_ed25519_key
if [ -n "${SSH_HOST_KEY_FILE:-}" ]; then
    # A copy, as sshd takes no key that others can read and a mounted one often can be.
    cat "$SSH_HOST_KEY_FILE" >"$host_key" || fail "SSH_HOST_KEY_FILE can't be read: $SSH_HOST_KEY_FILE"
else
    ssh-keygen -q -t ed25519 -N '' -C envspec -f "$host_key"
fi

# Sessions begin with sshd's bare environment. What programs need to find the GPUs and the environment is handed on,
# and what the spec sets; nothing is that may hold a secret, nor what a configuration file can't hold: a line end, and
# before OpenSSH 8.7 a quote, a backslash or a `#`.
set_env=$("$python" -I - "$(dirname -- "$0")/../target.json" "$("$sshd" -V 2>&1)" <<'EOF'
import json
import os
import re
import sys

names = re.compile(
    "(HOME|PATH|LD_LIBRARY_PATH|LANG|LC_[A-Z]+|TZ|CONDA_PREFIX|VIRTUAL_ENV|HF_HOME|TORCH_HOME|TRITON_CACHE_DIR"
    "|XDG_CACHE_HOME|PYTHONNOUSERSITE|PYTORCH_VERSION|TORCH_CUDA_ARCH_LIST"
    "|(CUDA|NVIDIA|NCCL|OMP|ENVSPEC|SLURM)_[A-Z0-9_]+)"
)
with open(sys.argv[1], encoding="utf-8") as file:
    own = json.load(file).get("env", [])
# a tokenizer's settings are none
secret = re.compile("KEY|TOKEN(?!IZER)|SECRET|PASSW|PASSPHRASE|CRED|JWT|AUTH", re.IGNORECASE)
version = re.search(r"OpenSSH_(\d+)\.(\d+)", sys.argv[2])
escapes = version is not None and (int(version[1]), int(version[2])) >= (8, 7)
plain = re.compile(r"[^\x00-\x1f\x7f]*" if escapes else r'[^\x00-\x1f\x7f"\\#]*')
for name, value in sorted(os.environ.items()):
    if (name in own or names.fullmatch(name)) and not secret.search(name) and plain.fullmatch(value):
        quoted = re.sub(r'([\\"])', r"\\\1", value)
        print(f' "{name}={quoted}"', end="")
EOF
)

cat >"$runtime/sshd_config" <<EOF
Port $port
ListenAddress $bind
HostKey $host_key
PidFile none
AllowUsers $user
PermitRootLogin no
AuthenticationMethods publickey
PubkeyAuthentication yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
AuthorizedKeysFile $runtime/authorized_keys
# The file lies in a folder of this user alone; what is checked besides is /tmp, which everybody may write.
StrictModes no
X11Forwarding no
PermitUserEnvironment no
PrintMotd no
AcceptEnv LANG LC_*
SetEnv$set_env
Subsystem sftp internal-sftp
EOF

say "ssh: $user, port $port, host key $(ssh-keygen -lf "$host_key" | cut -d ' ' -f 2)"
serve "$sshd" -D -e -f "$runtime/sshd_config"
