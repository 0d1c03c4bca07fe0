# shellcheck shell=sh
# shellcheck disable=SC2034 # packages: the scripts that read this use it
# What builds with a compiler know. Read by a script, not run.
if [ -z "${MAX_JOBS:-}" ]; then
    # As many compilers as fit: CUDA's takes up to 4 GB.
    MAX_JOBS=$(awk -v n="$(nproc)" '/MemTotal/ {j = int($2 / 4194304) + 1; print j < n ? j : n}' /proc/meminfo)
    export MAX_JOBS
fi
packages=$(/opt/env/bin/python -IB -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
