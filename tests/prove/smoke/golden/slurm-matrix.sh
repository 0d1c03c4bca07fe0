# the files for the checks of demo-cu128-hopper
# writes /results/carried/demo-cu128-hopper/check/__main__.py (15 bytes)
# writes /results/carried/demo-cu128-hopper/target.json (3 bytes)
# the environment of demo-cu128-hopper
envspec install specs/demo.toml --locks-dir locks --target cu128-hopper --prefix /cache/smoke/environments/demo-cu128-hopper-0123456789abcdef
# the files for the checks of demo-cu128-ampere
# writes /results/carried/demo-cu128-ampere/check/__main__.py (15 bytes)
# writes /results/carried/demo-cu128-ampere/target.json (3 bytes)
# the environment of demo-cu128-ampere
envspec install specs/demo.toml --locks-dir locks --target cu128-ampere --prefix /cache/smoke/environments/demo-cu128-ampere-0123456789abcdef
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
    run=/results/runs/0-demo-cu128-hopper-h100
    run_check() {
        env -u PYTHONHOME -u PYTHONPATH -u PYTHONPLATLIBDIR -u PYTHONEXECUTABLE -u PYTHONSTARTUP -u PYTHONUSERBASE -u PYTHONSAFEPATH -u PYTHONWARNINGS -u PYTHONOPTIMIZE -u PYTHONINSPECT -u VIRTUAL_ENV -u CONDA_PREFIX -u CONDA_DEFAULT_ENV -u CONDA_SHLVL PYTHONNOUSERSITE=1 bash -c '. "$0/bin/activate" && exec "$0/bin/python" "$@"' /cache/smoke/environments/demo-cu128-hopper-0123456789abcdef -I /results/carried/demo-cu128-hopper/check --config /results/carried/demo-cu128-hopper/target.json --device auto --json "$out"/check.json
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
# submit demo-cu128-hopper on h100
sbatch --parsable --job-name=envspec-0a1b2c3d-0 --chdir=/results --output=jobs/%j.log --partition=h100 --nodes=1 --ntasks-per-node=1 --account=team --time=30 --gpus-per-node=8 --cpus-per-task=8 '--constraint=a b;c' /results/jobs/0.sh
# the batch script of envspec-0a1b2c3d-1
mkdir -p /results/jobs
cat > /results/jobs/1.sh <<'END'
#!/bin/bash
# envspec-0a1b2c3d-1: written by envspec smoke
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
    run=/results/runs/1-demo-cu128-hopper-any
    run_check() {
        env -u PYTHONHOME -u PYTHONPATH -u PYTHONPLATLIBDIR -u PYTHONEXECUTABLE -u PYTHONSTARTUP -u PYTHONUSERBASE -u PYTHONSAFEPATH -u PYTHONWARNINGS -u PYTHONOPTIMIZE -u PYTHONINSPECT -u VIRTUAL_ENV -u CONDA_PREFIX -u CONDA_DEFAULT_ENV -u CONDA_SHLVL PYTHONNOUSERSITE=1 bash -c '. "$0/bin/activate" && exec "$0/bin/python" "$@"' /cache/smoke/environments/demo-cu128-hopper-0123456789abcdef -I /results/carried/demo-cu128-hopper/check --config /results/carried/demo-cu128-hopper/target.json --device auto --json "$out"/check.json
    }
    ;;
1)
    run=/results/runs/1-demo-cu128-ampere-any
    run_check() {
        env -u PYTHONHOME -u PYTHONPATH -u PYTHONPLATLIBDIR -u PYTHONEXECUTABLE -u PYTHONSTARTUP -u PYTHONUSERBASE -u PYTHONSAFEPATH -u PYTHONWARNINGS -u PYTHONOPTIMIZE -u PYTHONINSPECT -u VIRTUAL_ENV -u CONDA_PREFIX -u CONDA_DEFAULT_ENV -u CONDA_SHLVL PYTHONNOUSERSITE=1 bash -c '. "$0/bin/activate" && exec "$0/bin/python" "$@"' /cache/smoke/environments/demo-cu128-ampere-0123456789abcdef -I /results/carried/demo-cu128-ampere/check --config /results/carried/demo-cu128-ampere/target.json --device auto --json "$out"/check.json
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
# submit 2 runs on any
sbatch --parsable --job-name=envspec-0a1b2c3d-1 --chdir=/results --output=jobs/%A_%a.log --array=0-1 --partition=any --nodes=1 --ntasks-per-node=1 --account=team --time=30 --gpus-per-node=8 --cpus-per-task=8 '--constraint=a b;c' /results/jobs/1.sh
