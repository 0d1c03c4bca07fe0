#!/bin/bash
# @name@: written by envspec smoke
set -u
umask 022

# $1: the exit status. What stands in done.json is over.
finish() {
    printf '{"status": %d, "node": "%s", "job": "%s"}\n' "$1" "${SLURMD_NODENAME:-$(hostname)}" "$SLURM_JOB_ID" \
        >"$out/.done.$$" && mv "$out/.done.$$" "$out/@done@"
}

case "${SLURM_ARRAY_TASK_ID:-0}" in
