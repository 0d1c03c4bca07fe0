#!/bin/sh
# Starts what an envspec image is asked for, after a look at the driver and the GPUs.
#
#   (nothing)                 the services that the image has, together; without any, a shell
#   jupyter|ssh|code-server|tensorboard   that service
#   smoke [ARGUMENT...]       the training check
#   preflight                 the look itself: the GPUs, the driver's CUDA, the NVLinks and nvcc, a line each
#   COMMAND [ARGUMENT...]     the command
#
# ENVSPEC_SKIP_PREFLIGHT=1 leaves out the look. Runs under an init that reaps and forwards signals (tini).
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
prefix=${ENVSPEC_PREFIX:-/opt/env}
python=$prefix/bin/python

say() {
    printf 'envspec: %s\n' "$*" >&2
}

# The environment leads, and no other that the caller had active is named.
lead() {
    case $PATH: in
    "$prefix/bin:"*) ;;
    *) PATH=$prefix/bin:$PATH ;;
    esac
    export PATH
    if [ -d "$prefix/conda-meta" ]; then
        CONDA_PREFIX=$prefix
        export CONDA_PREFIX
        unset VIRTUAL_ENV
    else
        VIRTUAL_ENV=$prefix
        export VIRTUAL_ENV
        unset CONDA_PREFIX
    fi
}

# Caches need a HOME that can be written, which a read-only image or one without the caller's own lacks. A folder of
# this user's alone, the same each time, so that what was compiled once is found again. And getpass, which torch's
# caches ask, needs a name where passwd has none.
settle() {
    if ! id -un >/dev/null 2>&1; then
        export USER="${USER:-uid_$(id -u)}" && export LOGNAME="${LOGNAME:-$USER}"
    fi
    if [ -n "${HOME:-}" ] && [ -d "$HOME" ] && [ -w "$HOME" ]; then
        return
    fi
    for folder in "${TMPDIR:-/tmp}" /tmp /dev/shm; do
        home=$folder/envspec-home.$(id -u)
        mkdir -m 700 "$home" 2>/dev/null || :
        # Nobody else's folder under this name, nor a link to one.
        # shellcheck disable=SC3067
        if [ -L "$home" ] || [ ! -d "$home" ] || [ ! -O "$home" ] || [ ! -w "$home" ]; then
            home=$(mktemp -d "$folder/envspec-home.XXXXXXXX" 2>/dev/null) || continue
        fi
        HOME=$home
        export HOME
        return
    done
}

# What conda packages set when their environment is activated; then this script again. Their scripts are for bash and
# its kin, and some are no POSIX shell at all; they don't mind unset names and failing lines.
activate() {
    for script in "$prefix"/etc/conda/activate.d/*.sh; do
        [ -r "$script" ] || continue
        if ! command -v bash >/dev/null; then
            say 'warning: there is no bash, so what conda packages set at activation is missing'
            return
        fi
        # -p: what BASH_ENV of the caller names isn't here. The trap: one may even say exit.
        # shellcheck disable=SC2016
        exec bash -p -c '
            envspec_command=("$@")
            trap '\''exec /bin/sh "${envspec_command[@]}"'\'' EXIT
            activate() {
                local script
                for script in "$0"/etc/conda/activate.d/*.sh; do
                    set +eu
                    [ ! -r "$script" ] || . "$script" || :
                done
            }
            activate
        ' "$prefix" "$here/entrypoint.sh" --activated "$@"
    done
}

# Which services the image has: only their scripts are in it.
services() {
    for service in jupyter ssh code-server tensorboard; do
        if [ -f "$here/services/$service.sh" ]; then
            printf '%s\n' "$service"
        fi
    done
}

# For healthcheck.sh: what runs here. A new file, so that nobody else's link under this name is written through.
note() {
    list=${TMPDIR:-/tmp}/envspec-services.$(id -u)
    rm -f "$list" 2>/dev/null || :
    (set -C && printf '%s\n' "$@" >"$list") 2>/dev/null || :
}

start_one() {
    note "$1"
    exec /bin/sh "$here/services/$1.sh"
}

# Runs one service in a shell of its own, which tells this one when it has ended.
watch() {
    /bin/sh "$here/services/$1.sh" &
    child=$!
    trap 'kill -TERM "$child" 2>/dev/null || :' TERM
    status=0
    wait "$child" || status=$?
    # A wait that a signal cut short leaves the child running.
    while kill -0 "$child" 2>/dev/null; do
        status=0
        wait "$child" || status=$?
    done
    # It lacks keys, and says so: the others go on.
    if [ "$status" -eq 78 ]; then
        # shellcheck disable=SC2046
        note $(grep -vx "$1" "$list")
        return
    fi
    kill -USR1 "$main" 2>/dev/null || :
}

# TERM to every service, and out when all have ended, or at the next signal.
stop() {
    trap '' HUP USR1
    # shellcheck disable=SC2064
    trap "exit $1" TERM INT
    for pid in $watchers; do
        kill -TERM "$pid" 2>/dev/null || :
    done
    wait || :
    exit "$1"
}

# All services together. When one ends, so does the container: whoever restarts it gets all of them again.
start_all() {
    main=$$
    watchers=
    # A signal while services start counts once all of them are listed: one that isn't would never be stopped.
    early=
    trap 'early=TERM' TERM
    trap 'early=INT' INT
    trap 'early=HUP' HUP
    trap 'early=USR1' USR1
    # shellcheck disable=SC2086
    note $1
    for service in $1; do
        watch "$service" &
        watchers="$watchers $!"
    done
    trap 'stop 143' TERM
    trap 'stop 130' INT
    trap 'stop 129' HUP
    trap 'say "a service ended, so the others are stopped"; stop 1' USR1
    [ -z "$early" ] || kill -s "$early" $$
    while :; do
        wait || :
    done
}

if [ "${1:-}" = --activated ]; then
    shift
else
    lead
    if [ "${ENVSPEC_SKIP_PREFLIGHT:-}" != 1 ]; then
        "$python" -I "$here/preflight.py" "$here/target.json"
    fi
    settle
    activate "$@"
fi

if [ $# -eq 0 ]; then
    all=$(services)
    case $(printf '%s\n' "$all" | wc -w) in
    0) if [ -x /bin/bash ]; then exec /bin/bash; else exec /bin/sh; fi ;;
    1) start_one "$all" ;;
    *) start_all "$all" ;;
    esac
fi

case $1 in
smoke)
    shift
    exec "$python" -I "$here/check" --config "$here/target.json" "$@"
    ;;
preflight)
    "$python" -I "$here/preflight.py" --look
    PATH=${CUDA_HOME:-/usr/local/cuda}/bin:$PATH
    if command -v nvcc >/dev/null; then exec nvcc --version; fi
    echo 'nvcc: none'
    exit
    ;;
jupyter | ssh | code-server | tensorboard)
    # With arguments it is the program of that name.
    if [ $# -eq 1 ] && [ -f "$here/services/$1.sh" ]; then
        start_one "$1"
    fi
    ;;
esac
exec "$@"
