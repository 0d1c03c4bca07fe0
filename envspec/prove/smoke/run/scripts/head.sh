#!/bin/bash
# @name@: written by envspec smoke
set -u
umask 022
@of_others@
# as many CPUs a task as sbatch was asked for, not as an outer job was
unset SLURM_CPUS_PER_GPU
[ "${SLURM_CPUS_PER_TASK:-0}" -le "${SLURM_CPUS_ON_NODE:-1024}" ] 2>/dev/null || unset SLURM_CPUS_PER_TASK
# in arithmetic bash would run what stands in the subscript of another value
case ${SLURM_JOB_ID:-} in *[!0-9]*) echo "SLURM_JOB_ID is no number: $SLURM_JOB_ID" >&2 && exit 2 ;; esac

# $1: the exit status. What stands in done.json is over.
finish() {
    printf '{"status": %d, "node": "%s", "job": "%s"}\n' "$1" "${SLURMD_NODENAME:-$(hostname)}" "$SLURM_JOB_ID" \
        >"$out/.done.$$" && mv "$out/.done.$$" "$out/@done@"
}

case "${SLURM_ARRAY_TASK_ID:-0}" in
