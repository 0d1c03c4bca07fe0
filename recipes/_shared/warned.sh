#!/bin/sh
# Runs a training program that is warned before its end: warned.sh SIGNAL COMMAND [ARGUMENT...]
#
# The warning is a file, which ENVSPEC_CHECKPOINT names. When it appears, the training processes that handle the signal
# get it; of the others it would be the end. A Slurm job makes the file. Where none is named, SIGTERM makes one, which
# Kubernetes and `docker stop` send. A program that wrote into that one goes on later: the status is 75, not 0.
set -u

signal=$1
shift
case $signal in
HUP) bit=0 ;;
INT) bit=1 ;;
USR1) bit=9 ;;
USR2) bit=11 ;;
*) bit=14 ;;
esac
own=
if [ -z "${ENVSPEC_CHECKPOINT:-}" ]; then
    own=$(mktemp -d) || exit
    export ENVSPEC_CHECKPOINT="$own/checkpoint"
fi

has_rank() {
    grep -qzs '^LOCAL_RANK=' "/proc/$1/environ"
}

# To the processes with a rank whose parent has none: neither to torchrun nor to workers that load data.
tell() {
    if [ -n "${LOCAL_RANK:-}" ]; then
        tell_one "$program"
        return
    fi
    files=$(grep -lzsxF "ENVSPEC_CHECKPOINT=$ENVSPEC_CHECKPOINT" /proc/[0-9]*/environ)
    for file in $files; do
        of=${file#/proc/} of=${of%/environ}
        if has_rank "$of" && ! has_rank "$(sed -n 's/^PPid:[[:blank:]]*//p' "/proc/$of/status" 2>/dev/null)"; then
            tell_one "$of"
        fi
    done
}

tell_one() {
    caught=$(sed -n 's/^SigCgt:.*\(.\{8\}\)$/\1/p' "/proc/$1/status" 2>/dev/null)
    [ $((0x${caught:-0} >> bit & 1)) -eq 0 ] || kill -s "$signal" "$1" 2>/dev/null || :
}

# In a job of Slurm's, where all processes of a step get the signal, this one outlives them.
trap '[ -z "$own" ] || : >>"$ENVSPEC_CHECKPOINT"' TERM
"$@" &
program=$!
(
    until [ -e "$ENVSPEC_CHECKPOINT" ]; do sleep 1; done
    tell
) >/dev/null 2>&1 &
watcher=$!
status=0
wait "$program" || status=$?
# A wait that a signal cut short leaves the program running.
while kill -0 "$program" 2>/dev/null; do
    status=0
    wait "$program" || status=$?
done
kill "$watcher" 2>/dev/null || :
if [ -n "$own" ]; then
    if [ -s "$ENVSPEC_CHECKPOINT" ] && [ "$status" -eq 0 ]; then status=75; fi
    rm -rf "$own"
fi
exit "$status"
