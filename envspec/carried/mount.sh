#!/bin/bash
# Runs a program in the environment that one file holds, a squashfs by `envspec image` or `envspec install --squashfs`:
#   bash envspec-mount [--at DIR] FILE [PROGRAM [ARGUMENT...]]
# PROGRAM may be `smoke`, the training check; without one, a shell. squashfuse mounts FILE for it, read-only, in a
# folder of this machine that only its user can enter. Without squashfuse or /dev/fuse, unsquashfs unpacks it there.
# --at DIR is the place for a file with conda packages, which work at one path alone.
#
# Runs in one job share a mount, runs of one user what is unpacked. The last one to end takes it away. One that was
# killed leaves that to a watcher, and where this is killed too (a batch system kills all of a job) to the next run.
# ENVSPEC_MOUNTS: the folder of mounts; else one below TMPDIR or /tmp. It should be on the machine's own disk.
# shellcheck disable=SC2317 # traps and the watcher call functions
set -euo pipefail

fail() {
    printf 'envspec-mount: %s\n' "$1" >&2
    [[ -z ${2:-} ]] || printf 'hint: %s\n' "$2" >&2
    exit "${3:-3}"
}

# Whether fd $2 is the lock $1 itself: who took it away may have removed its file meanwhile.
is_it() { [[ $1 -ef /proc/self/fd/$2 ]]; }

# Whether the environment of $place is there. That of a mount whose squashfuse was killed isn't, but for what is cached:
# what a file system has room for is never.
is_ready() { [[ -e $1/etc/envspec/mount ]] && stat -f "$1" >/dev/null 2>&1; }

# Takes away what lock $1 says. Only for who holds it alone.
take_away() {
    local way at
    { read -r way && read -r at; } <"$1" || at=
    if [[ -n $at ]]; then
        if [[ $way == mounted ]]; then
            for program in fusermount3 fusermount; do
                ! command -v $program >/dev/null || ! $program -uz "$at" 2>/dev/null || break
            done
            rmdir "$at" 2>/dev/null || :
        else
            chmod -R u+w "$at" "$at.part" 2>/dev/null || :
            rm -rf "$at" "$at.part"
        fi
    fi
    rm -rf "${1%.envspec-lock}.pyc"
    rm -f "$1"
}

# What runs that were killed left.
sweep() {
    local left
    for left in "$1"/*.envspec-lock; do
        [[ -e $left ]] || continue
        exec 8<>"$left"
        if flock -n 8 && is_it "$left" 8; then take_away "$left"; fi
        exec 8>&-
    done
}

# The watcher, in a session of its own: waits until nobody uses lock $1.
watch() {
    exec 9<>"$1"
    flock 9
    ! is_it "$1" 9 || take_away "$1"
}

# Brings the environment of $file to $place.
bring() {
    printf '%s\n' "$way" "$place" >"$lock"
    if [[ $way == mounted ]]; then
        (umask 077 && mkdir -p "$place") && $squashfuse -o ro "$file" "$place" 9>&- 2>"$lock.said" && is_ready "$place"
    else
        [[ ! -d $place ]] || rmdir "$place" || return 1
        (umask 077 && unsquashfs -quiet -no-progress -no-xattrs -d "$place.part" "$file") >"$lock.said" 2>&1 9>&- &&
            mv "$place.part" "$place" && is_ready "$place"
    fi
}

# Holds the lock, shared with others, on fd 9, with the environment at $place. 1: it can't be brought in this way.
take() {
    local tries=0
    while :; do
        if ((tries++ == 20)); then
            said="something that runs still has $place, whose squashfuse is gone"
            return 1
        fi
        exec 9<>"$lock"
        flock -s 9
        if is_it "$lock" 9 && is_ready "$place"; then return; fi
        if flock -n 9 && is_it "$lock" 9; then
            if ! bring; then
                said=$(tr '\n' ' ' <"$lock.said" 2>/dev/null || :)
                rm -f "$lock.said"
                take_away "$lock"
                exec 9>&-
                return 1
            fi
            rm -f "$lock.said"
            flock -s 9
            if is_it "$lock" 9 && is_ready "$place"; then return; fi
        fi
        exec 9>&-
        sleep 0.1
    done
}

given=
while [[ ${1:-} == -* ]]; do
    if [[ $1 != --at || -z ${2:-} ]]; then
        fail "$1 isn't known" "bash envspec-mount [--at DIR] FILE [PROGRAM [ARGUMENT...]]" 2
    fi
    given=$(realpath -m -- "$2")
    shift 2
done
(($# > 0)) || fail "no file is named" "bash envspec-mount [--at DIR] FILE [PROGRAM [ARGUMENT...]]" 2
file=$(realpath -e -- "$1" 2>/dev/null) || fail "there is no $1" "" 2
shift
# without a program, the entry point would start the services of images
(($# > 0)) || set -- "$BASH"

base=${ENVSPEC_MOUNTS:-${TMPDIR:-/tmp}/envspec-mounts.$(id -u)}
# in a folder for all, another one may have put a link
[[ -n ${ENVSPEC_MOUNTS:-} || ! -L $base ]] || fail "$base is a link" "set ENVSPEC_MOUNTS to a folder of your own"
(umask 077 && mkdir -p "$base") 2>/dev/null || :
base=$(realpath -e -- "$base" 2>/dev/null) || fail "$base can't be made" "set ENVSPEC_MOUNTS to a folder of your own"
if [[ ! -O $base || ! -w $base || -n $(find "$base" -maxdepth 0 -perm /022) ]]; then
    fail "others may write to $base" "set ENVSPEC_MOUNTS to a folder of your own, with mode 700"
fi
sweep "$base"

# A job's end ends its squashfuse, so jobs share none.
key=$(stat -L -c '%d-%i-%s-%Y' -- "$file")
job=${SLURM_JOB_ID:+$SLURM_JOB_ID.${SLURM_STEP_ID:-}}
job=${job:-$(cksum </proc/self/cgroup | tr -d ' ')}
squashfuse=$(command -v squashfuse_ll || command -v squashfuse || :)
fuse=$(command -v fusermount3 || command -v fusermount || :)
said=
for way in mounted unpacked none; do
    case $way in
    mounted) [[ -n $squashfuse && -n $fuse && -r /dev/fuse && -w /dev/fuse ]] || continue ;;
    unpacked) command -v unsquashfs >/dev/null || continue ;;
    none)
        run="apptainer exec --bind $file:/opt/env:image-src=/ IMAGE.sif sh /opt/env/etc/envspec/entrypoint.sh PROGRAM"
        : "${said:=there is neither squashfuse with /dev/fuse, nor unsquashfs}"
        fail "$file can't be mounted or unpacked here: $said" \
            "install squashfuse or squashfs-tools, or run it in an image: $run"
        ;;
    esac
    name=$key
    [[ $way == unpacked ]] || name+=-$job
    [[ -z $given ]] || name+=-$(printf %s "$given" | cksum | tr -d ' ')
    lock=$base/$name.envspec-lock place=${given:-$base/$name}
    if take; then break; fi
done

# Ends this run's share, and takes the environment away if it was the last.
leave() {
    kill -KILL -- "-$watcher" 2>/dev/null || :
    if flock -n 9 && is_it "$lock" 9; then take_away "$lock"; fi
}
# no child of this shell, whose wait for one child may miss its end where there is another; once it has said its number,
# it is in its own session
read -r watcher < <(
    exec 9>&-
    setsid --fork bash -c "$(declare -f is_it take_away watch); cd /; echo \$\$; exec >/dev/null; watch \"\$1\"" \
        envspec-mount "$lock" </dev/null 2>/dev/null
)
trap leave EXIT

wanted=$(<"$place/etc/envspec/mount")
if [[ $wanted != anywhere && $wanted != "$place" ]]; then
    fail "the environment of $file works at $wanted alone" "bash envspec-mount --at $wanted $file" 2
fi

export ENVSPEC_PREFIX=$place PYTHONNOUSERSITE=1
# nothing can be written beside the modules, so Python keeps their bytecode here, until the last run ends
export PYTHONPYCACHEPREFIX=${PYTHONPYCACHEPREFIX:-${lock%.envspec-lock}.pyc}
unset PYTHONHOME PYTHONPLATLIBDIR PYTHONEXECUTABLE PYTHONSTARTUP PYTHONUSERBASE PYTHONSAFEPATH PYTHONWARNINGS \
    PYTHONOPTIMIZE PYTHONINSPECT
[[ -n ${ENVSPEC_KEEP_PYTHONPATH:-} ]] || unset PYTHONPATH
exec 3<&0
# what a shell starts in the background ignores Ctrl-C, unless it is told not to
(trap - INT QUIT && exec sh "$place/etc/envspec/entrypoint.sh" "$@") <&3 3<&- &
program=$!
exec 3<&-
for name in HUP TERM USR1 USR2; do
    # shellcheck disable=SC2064 # of this program
    trap "kill -s $name $program 2>/dev/null || :" $name
done
# The terminal's Ctrl-C goes to the program too. It isn't heeded here: bash 5.2 loses the status of a child that ends
# while a trap cuts the wait for it short.
trap '' INT QUIT
# A signal cuts a wait short.
status=0
while kill -0 "$program" 2>/dev/null; do
    status=0
    wait "$program" || status=$?
done
last=0
wait "$program" 2>/dev/null || last=$?
((last == 127)) || status=$last
exit "$status"
