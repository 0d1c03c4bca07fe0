# the files for the checks of demo-cu128-hopper
# writes /results/carried/demo-cu128-hopper/check/__main__.py (15 bytes)
# writes /results/carried/demo-cu128-hopper/target.json (3 bytes)
# the environment of demo-cu128-hopper
envspec install specs/demo.toml --locks-dir locks --target cu128-hopper --prefix /cache/smoke/environments/demo-cu128-hopper-0123456789abcdef
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
    count_ranks() {
        env -u PYTHONHOME -u PYTHONPATH -u PYTHONPLATLIBDIR -u PYTHONEXECUTABLE -u PYTHONSTARTUP -u PYTHONUSERBASE -u PYTHONSAFEPATH -u PYTHONWARNINGS -u PYTHONOPTIMIZE -u PYTHONINSPECT -u VIRTUAL_ENV -u CONDA_PREFIX -u CONDA_DEFAULT_ENV -u CONDA_SHLVL PYTHONNOUSERSITE=1 bash -c '. "$0/bin/activate" && exec "$0/bin/python" "$@"' /cache/smoke/environments/demo-cu128-hopper-0123456789abcdef -I -c 'import torch; print(torch.cuda.device_count() if torch.cuda.is_available() else 2)'
    }
    run_multi_node() {
        timeout --foreground --kill-after=30 900 env -u PYTHONHOME -u PYTHONPATH -u PYTHONPLATLIBDIR -u PYTHONEXECUTABLE -u PYTHONSTARTUP -u PYTHONUSERBASE -u PYTHONSAFEPATH -u PYTHONWARNINGS -u PYTHONOPTIMIZE -u PYTHONINSPECT -u VIRTUAL_ENV -u CONDA_PREFIX -u CONDA_DEFAULT_ENV -u CONDA_SHLVL PYTHONNOUSERSITE=1 bash -c '. "$0/bin/activate" && exec "$0/bin/python" "$@"' /cache/smoke/environments/demo-cu128-hopper-0123456789abcdef -I -m torch.distributed.run --nnodes=2 --nproc-per-node="$ranks" --node-rank="$SLURM_NODEID" --master-addr="$address" --master-port="$port" --rdzv-conf=timeout=300 /results/carried/demo-cu128-hopper/multi_node.py --config /results/carried/demo-cu128-hopper/target.json --device auto --json "$out"/check.json
    }
    ;;
esac

# What ends the job (scancel, its time limit) ends the checks, which report all the same; then this shell goes on.
stopped=
trap 'stopped=yes' TERM
script=/results/jobs/0.sh
case "${1:-}" in
node)
    out=$run/node-$SLURM_NODEID
    mkdir -p "$out" && rm -f "$out/done.json" "$out/check.json"
    run_check
    finish "$?"
    exit 0
    ;;
multi-node)
    out=$run/multi-node
    address=$2
    port=$3
    mkdir -p "$out"
    ranks=$(count_ranks) || exit
    ranks=${ranks##*$'\n'}
    run_multi_node
    status=$?
    [ "$status" -ne 124 ] || echo "no end after 900 s: do the nodes reach each other at $address, port $port?" >&2
    exit "$status"
    ;;
esac

# The checks on each node, then all nodes at once.
steps=(--ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1)
[ -z "${SLURM_CPUS_PER_TASK:-}" ] || steps+=(--cpus-per-task="$SLURM_CPUS_PER_TASK")
srun --wait=0 "${steps[@]}" bash "$script" node
out=$run/multi-node
mkdir -p "$out" && rm -f "$out/done.json" "$out/check.json"
status=143
if [ -z "$stopped" ]; then
    # All meet on the first node, at a port that depends on the job, below those that Linux hands out (32768 and on).
    first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | sed -n 1p)
    address=$(scontrol --oneliner show node "$first" | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p') || address=
    port=$((20000 + SLURM_JOB_ID % 12000))
    # where one node has ended, the others soon have, or wait in vain
    srun --wait=60 "${steps[@]}" bash "$script" multi-node "${address:-$first}" "$port"
    status=$?
fi
finish "$status"
exit "$status"
END
# submit demo-cu128-hopper on h100
sbatch --parsable --job-name=envspec-0a1b2c3d-0 --chdir=/results --output=jobs/%j.log --partition=h100 --nodes=2 --ntasks-per-node=1 --account=team --time=30 --gpus-per-node=8 --cpus-per-task=8 '--constraint=a b;c' /results/jobs/0.sh
