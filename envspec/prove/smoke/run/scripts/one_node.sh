# What ends the job (scancel, its time limit) ends the checks, which report all the same; then this shell goes on.
trap : TERM
out=$run
mkdir -p "$out" && rm -f "$out/@done@" "$out/@report@"
run_check
status=$?
finish "$status"
exit "$status"
