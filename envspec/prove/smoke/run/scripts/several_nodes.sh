# What ends the job (scancel, its time limit) ends the checks, which report all the same; then this shell goes on.
stopped=
trap 'stopped=yes' TERM
script=@script@
case "${1:-}" in
node)
    out=$run/node-$SLURM_NODEID
    mkdir -p "$out" && rm -f "$out/@done@" "$out/@report@"
    run_check
    finish "$?"
    exit 0
    ;;
multi-node)
    out=$run/@multi_node@
    address=$2
    port=$3
    mkdir -p "$out"
    ranks=$(count_ranks) || exit
    ranks=${ranks##*$'\n'}
    run_multi_node
    status=$?
    [ "$status" -ne 124 ] || echo "no end after @limit@ s: do the nodes reach each other at $address, port $port?" >&2
    exit "$status"
    ;;
esac

# The checks on each node, then all nodes at once.
steps=(--ntasks="$SLURM_JOB_NUM_NODES" --ntasks-per-node=1)
[ -z "${SLURM_CPUS_PER_TASK:-}" ] || steps+=(--cpus-per-task="$SLURM_CPUS_PER_TASK")
srun --wait=0 "${steps[@]}" bash "$script" node
out=$run/@multi_node@
mkdir -p "$out" && rm -f "$out/@done@" "$out/@report@"
status=143
if [ -z "$stopped" ]; then
@meeting@
    # where one node has ended, the others soon have, or wait in vain
    srun --wait=60 "${steps[@]}" bash "$script" multi-node "${address:-$first}" "$port"
    status=$?
fi
finish "$status"
exit "$status"
