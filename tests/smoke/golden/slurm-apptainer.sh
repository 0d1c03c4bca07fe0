# what the checks of demo-cpu need
# writes /results/carried/demo-cpu/check.py (15 bytes)
# writes /results/carried/demo-cpu/envspec.lock (9 bytes)
# writes /results/carried/demo-cpu/target.json (3 bytes)
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
    run=/results/runs/0-demo-cpu
    run_check() {
        apptainer exec --containall --cleanenv --no-home --mount 'type=bind,"source=/results/carried/demo-cpu",destination=/mnt/envspec,ro' --mount 'type=bind,"source='"$out"'",destination=/mnt/results' --bind /tmp --bind /dev/shm --env PYTHONNOUSERSITE=1 --pwd /mnt/results /images/x.sif env HOME=/tmp /opt/env/bin/python /mnt/envspec/check.py --lock /mnt/envspec/envspec.lock --target cpu --config /mnt/envspec/target.json --device auto --json /mnt/results/check.json
    }
    ;;
esac

out=$run
mkdir -p "$out" && rm -f "$out/done.json" "$out/check.json"
run_check
status=$?
finish "$status"
exit "$status"
END
# submit demo-cpu
sbatch --parsable --job-name=envspec-0a1b2c3d-0 --chdir=/results --output=jobs/%j.log --nodes=1 --ntasks-per-node=1 /results/jobs/0.sh
