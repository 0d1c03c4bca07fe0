# what the checks of demo-cu128-hopper need
# writes /results/carried/demo-cu128-hopper/check.py (15 bytes)
# writes /results/carried/demo-cu128-hopper/envspec.lock (9 bytes)
# writes /results/carried/demo-cu128-hopper/target.json (3 bytes)
# the environment of demo-cu128-hopper
envspec install specs/demo.toml --locks-dir locks --target cu128-hopper --prefix /cache/smoke/environments/demo-cu128-hopper-0123456789abcdef
# the batch script of envspec-0a1b2c3d-0
cat > /results/jobs/0.sh <<'END'
#!/bin/bash
# envspec-0a1b2c3d-0: written by envspec smoke
set -u
umask 022

# $1: the exit status. What stands in done.json is over.
finish() {
    printf '{"status": %d, "node": "%s", "job": "%s"}\n' "$1" "${SLURMD_NODENAME:-$(hostname)}" "$SLURM_JOB_ID" \
        >"$out/.done.$$" && mv "$out/.done.$$" "$out/done.json"
}

case "${SLURM_ARRAY_TASK_ID:-0}" in
0)
    run=/results/runs/0-demo-cu128-hopper-h100
    run_check() {
        env -u PYTHONHOME -u PYTHONPATH -u PYTHONSTARTUP -u PYTHONUSERBASE -u PYTHONPLATLIBDIR -u PYTHONSAFEPATH -u PYTHONWARNINGS -u PYTHONOPTIMIZE -u VIRTUAL_ENV -u CONDA_PREFIX -u CONDA_DEFAULT_ENV -u CONDA_SHLVL PYTHONNOUSERSITE=1 bash -c '. "$0/bin/activate" && exec "$0/bin/python" "$@"' /cache/smoke/environments/demo-cu128-hopper-0123456789abcdef /results/carried/demo-cu128-hopper/check.py --lock /results/carried/demo-cu128-hopper/envspec.lock --target cu128-hopper --config /results/carried/demo-cu128-hopper/target.json --device auto --json "$out"/check.json
    }
    run_across() {
        env -u PYTHONHOME -u PYTHONPATH -u PYTHONSTARTUP -u PYTHONUSERBASE -u PYTHONPLATLIBDIR -u PYTHONSAFEPATH -u PYTHONWARNINGS -u PYTHONOPTIMIZE -u VIRTUAL_ENV -u CONDA_PREFIX -u CONDA_DEFAULT_ENV -u CONDA_SHLVL PYTHONNOUSERSITE=1 bash -c '. "$0/bin/activate" && exec "$0/bin/python" "$@"' /cache/smoke/environments/demo-cu128-hopper-0123456789abcdef -m torch.distributed.run --nnodes=2 --nproc-per-node=gpu --node-rank="$SLURM_NODEID" --master-addr="$address" --master-port="$port" /results/carried/demo-cu128-hopper/across.py --config /results/carried/demo-cu128-hopper/target.json --device auto --json "$out"/check.json
    }
    ;;
esac

script=/results/jobs/0.sh
case "${1:-}" in
node)
    out=$run/node-$SLURM_NODEID
    mkdir -p "$out" && rm -f "$out/done.json" "$out/check.json"
    run_check
    finish "$?"
    exit 0
    ;;
across)
    out=$run/across
    address=$2
    port=$3
    mkdir -p "$out"
    run_across
    exit
    ;;
esac

# The checks on each node, then all nodes at once. torchrun meets on the first; the port is the job's own.
steps=(--ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1)
[ -z "${SLURM_CPUS_PER_TASK:-}" ] || steps+=(--cpus-per-task="$SLURM_CPUS_PER_TASK")
srun "${steps[@]}" bash "$script" node
out=$run/across
mkdir -p "$out" && rm -f "$out/done.json" "$out/check.json"
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
address=$(scontrol --oneliner show node "$first" | sed -n 's/.* NodeAddr=\([^ ]*\).*/\1/p')
srun "${steps[@]}" bash "$script" across "${address:-$first}" "$((20000 + SLURM_JOB_ID % 20000))"
status=$?
finish "$status"
exit "$status"
END
# submit demo-cu128-hopper on h100
sbatch --parsable --job-name=envspec-0a1b2c3d-0 --chdir=/results --output=jobs/%j.log --partition=h100 --nodes=2 --ntasks-per-node=1 --account=team --time=30 --gpus-per-node=8 '--constraint=a b;c' /results/jobs/0.sh
