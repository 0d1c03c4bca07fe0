# shellcheck shell=sh
# What the service scripts share. Sets:
#   prefix, python   the environment and its interpreter
#   bind             the address to listen at: ENVSPEC_BIND, else only this machine
#   runtime          a new folder that only this user can read, for keys and sockets; removed with TMPDIR's rest
# and gives HOME a place that can be written.
set -eu
umask 077

prefix=${ENVSPEC_PREFIX:-/opt/env}
# shellcheck disable=SC2034
python=$prefix/bin/python
# shellcheck disable=SC2034
bind=${ENVSPEC_BIND:-127.0.0.1}

say() {
    printf 'envspec: %s\n' "$*" >&2
}

fail() {
    say "error: $*"
    exit 1
}

runtime=
for folder in "${TMPDIR:-/tmp}" "${XDG_RUNTIME_DIR:-}" /dev/shm "${HOME:-}"; do
    if [ -n "$folder" ] && runtime=$(mktemp -d "$folder/envspec-XXXXXXXX" 2>/dev/null); then
        break
    fi
done
[ -n "$runtime" ] || fail 'no folder can be written: mount one at /tmp (docker run --tmpfs /tmp), or set TMPDIR'

if [ -z "${HOME:-}" ] || [ ! -w "$HOME" ]; then
    HOME=$runtime/home
    mkdir "$HOME"
    export HOME
fi

# A secret that nobody has told us: 32 random bytes, as text for URLs and forms.
new_secret() {
    "$python" -I -c 'import secrets; print(secrets.token_urlsafe(32))'
}
