# the files for the checks of demo-cpu
# writes /results/carried/demo-cpu/check/__main__.py (15 bytes)
# writes /results/carried/demo-cpu/target.json (3 bytes)
# the batch script of envspec-0a1b2c3d-0
mkdir -p /results/jobs
cat > /results/jobs/0.sh <<'END'
#!/bin/bash
# envspec-0a1b2c3d-0: written by envspec smoke
set -u
umask 022
export PATH # srun gets all of this job, and nothing that --export or an outer job left to it
unset SLURM_{EXPORT_ENV,GPUS,GPU_BIND,GRES,STEP_GRES,TRES_PER_TASK,OVERCOMMIT,THREADS_PER_CORE} \
    SLURM_NTASKS_PER_{CORE,GPU,SOCKET,TRES} "${!SRUN_@}" "${!SLURM_GPUS_PER_@}" "${!SLURM_MEM_@}" \
    "${!SLURM_CPU_BIND@}" "${!SLURM_DIST@}" "${!SLURM_HET_@}"
# as many CPUs a task as sbatch was asked for, not as an outer job was
unset SLURM_CPUS_PER_GPU
[ "${SLURM_CPUS_PER_TASK:-0}" -le "${SLURM_CPUS_ON_NODE:-1024}" ] 2>/dev/null || unset SLURM_CPUS_PER_TASK
# in arithmetic bash would run what stands in the subscript of another value
case ${SLURM_JOB_ID:-} in *[!0-9]*) echo "SLURM_JOB_ID is no number: $SLURM_JOB_ID" >&2 && exit 2 ;; esac

# $1: the exit status. What stands in done.json is over.
finish() {
    printf '{"status": %d, "node": "%s", "job": "%s"}\n' "$1" "${SLURMD_NODENAME:-$(hostname)}" "$SLURM_JOB_ID" \
        >"$out/.done.$$" && mv "$out/.done.$$" "$out/done.json"
}

case "${SLURM_ARRAY_TASK_ID:-0}" in
0)
    run=/results/runs/0-demo-cpu
    run_check() {
        bash -c 'for name in ${!SLURM_@} ${!PMI@} CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER ${!NCCL_@} ${!TORCH_NCCL_@} ${!GLOO_@} ${!UCX_@} ${!FI_@} ${!OMP_@}; do [ -z "${!name+set}" ] || export "APPTAINERENV_$name=${!name}"; done; [ -z "${ENVSPEC_LIBRARIES-}" ] || export "APPTAINERENV_LD_LIBRARY_PATH=$ENVSPEC_LIBRARIES"; for path in /dev/cxi* /dev/infiniband; do [ ! -e "$path" ] || set -- "$1" --bind "$path" "${@:2}"; done; exec "$0" "$@"' apptainer exec --containall --cleanenv --no-home --mount 'type=bind,"source=/results/carried/demo-cpu",destination=/mnt/envspec,ro' --mount 'type=bind,"source='"$out"'",destination=/mnt/results' --bind /tmp --bind /dev/shm --env PYTHONNOUSERSITE=1 --pwd /mnt/results /images/x.sif sh -c 'HOME=$(mktemp -d) || exit; export HOME; trap '"'"'rm -rf -- "$HOME"'"'"' EXIT; trap "exit 130" INT; trap "exit 143" TERM; "$@"' sh /opt/env/bin/python -I /mnt/envspec/check --config /mnt/envspec/target.json --device auto --json /mnt/results/check.json
    }
    ;;
esac

# What ends the job (scancel, its time limit) ends the checks, which report all the same; then this shell goes on.
trap : TERM
out=$run
mkdir -p "$out" && rm -f "$out/done.json" "$out/check.json"
run_check
status=$?
finish "$status"
exit "$status"
END
# submit demo-cpu
sbatch --parsable --job-name=envspec-0a1b2c3d-0 --chdir=/results --output=jobs/%j.log --nodes=1 --ntasks-per-node=1 /results/jobs/0.sh
