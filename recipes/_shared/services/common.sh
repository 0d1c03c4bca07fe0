# shellcheck shell=sh
# What the service scripts share. Sets:
#   prefix, python   the environment and its interpreter
#   bind             the address to listen at: ENVSPEC_BIND, else what `address` says
#   runtime          a new folder that only this user can read, for keys and sockets; it goes when the script ends
# A script's last line is `serve PROGRAM [ARGUMENT...]`.
set -eu
umask 077

prefix=${ENVSPEC_PREFIX:-/opt/env}
# shellcheck disable=SC2034
python=$prefix/bin/python

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
trap 'rm -rf "$runtime"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Every address in a container that has a network of its own, where only published ports can be reached. This machine's
# alone on the machine's network, where neighbours would see it: Slurm and Apptainer share that one, and so does whoever
# sees a network card that is hardware (docker run --network host).
address() {
    if [ -n "${SLURM_JOB_ID:-}${APPTAINER_CONTAINER:-}${SINGULARITY_CONTAINER:-}" ]; then
        echo 127.0.0.1
        return
    fi
    for card in /sys/class/net/*; do
        if [ ! -e "$card" ] || [ -e "$card/device" ]; then
            echo 127.0.0.1
            return
        fi
    done
    echo 0.0.0.0
}

# shellcheck disable=SC2034
bind=${ENVSPEC_BIND:-$(address)}

# Asks the server to end, and again each 5 s: it loses a signal that comes while it writes its log.
ask() {
    asked=0
    while kill -0 "$child" 2>/dev/null; do
        [ $((asked % 50)) -ne 0 ] || kill -TERM "$child" 2>/dev/null || :
        asked=$((asked + 1))
        sleep 0.1
    done
}

# Runs the server to its end, which a signal only asks for.
serve() {
    "$@" &
    child=$!
    asked=
    trap ask TERM INT HUP
    status=0
    wait "$child" || status=$?
    # the status of a wait that a signal cut short is the signal's
    if [ -n "$asked" ]; then
        status=0
        wait "$child" || status=$?
    fi
    exit "$status"
}

# A secret that nobody has told us: 32 random bytes, as text for URLs and forms.
new_secret() {
    "$python" -I -c 'import secrets; print(secrets.token_urlsafe(32))'
}

# settle NAME BEFORE [AFTER]: gives the variable NAME its secret. That is its value, else what the file holds that
# NAME_FILE names, else a new one, which is told once on stderr between BEFORE and AFTER.
settle() {
    eval "secret=\${$1:-} file=\${$1_FILE:-}"
    unset "$1_FILE"
    if [ -z "$secret" ] && [ -n "$file" ]; then
        secret=$(cat "$file") || fail "$1_FILE can't be read: $file"
    fi
    if [ -z "$secret" ]; then
        secret=$(new_secret)
        say "$2$secret${3:-}"
    fi
    eval "$1=\$secret"
    unset secret file
}
