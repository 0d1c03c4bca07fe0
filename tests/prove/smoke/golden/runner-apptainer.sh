# the files for the checks of demo-cu128-hopper
# writes /results/carried/demo-cu128-hopper/check/__main__.py (15 bytes)
# writes /results/carried/demo-cu128-hopper/target.json (3 bytes)
# the folder of the run
mkdir -p /results/runs/demo-cu128-hopper
# the recipe of demo-cu128-hopper
# writes /cache/smoke/recipes/demo-cu128-hopper-0123456789abcdef/cu128-hopper/Dockerfile (13 bytes)
# writes /cache/smoke/recipes/demo-cu128-hopper-0123456789abcdef/cu128-hopper/apptainer.def (18 bytes)
# writes /cache/smoke/recipes/demo-cu128-hopper-0123456789abcdef/envspec/check/__main__.py (15 bytes)
# the folder of images
mkdir -p /cache/smoke/images
# the image of demo-cu128-hopper
test -f /cache/smoke/images/demo-cu128-hopper-0123456789abcdef.sif >/dev/null 2>&1 || (cd /cache/smoke/recipes/demo-cu128-hopper-0123456789abcdef && apptainer build --notest --force /cache/smoke/images/demo-cu128-hopper-0123456789abcdef.sif.part cu128-hopper/apptainer.def)
# the image is complete: give it its name
test -f /cache/smoke/images/demo-cu128-hopper-0123456789abcdef.sif >/dev/null 2>&1 || mv /cache/smoke/images/demo-cu128-hopper-0123456789abcdef.sif.part /cache/smoke/images/demo-cu128-hopper-0123456789abcdef.sif
# the checks of demo-cu128-hopper
bash -c 'for name in ${!SLURM_@} ${!PMI@} CUDA_VISIBLE_DEVICES CUDA_DEVICE_ORDER ${!NCCL_@} ${!TORCH_NCCL_@} ${!GLOO_@} ${!UCX_@} ${!FI_@} ${!OMP_@}; do [ -z "${!name+set}" ] || export "APPTAINERENV_$name=${!name}"; done; [ -z "${ENVSPEC_LIBRARIES-}" ] || export "APPTAINERENV_LD_LIBRARY_PATH=$ENVSPEC_LIBRARIES"; for path in /dev/cxi* /dev/infiniband; do [ ! -e "$path" ] || set -- "$1" --bind "$path" "${@:2}"; done; exec "$0" "$@"' apptainer exec --containall --cleanenv --no-home --nv --mount 'type=bind,"source=/results/carried/demo-cu128-hopper",destination=/mnt/envspec,ro' --mount 'type=bind,"source=/results/runs/demo-cu128-hopper",destination=/mnt/results' --bind /tmp --bind /dev/shm --env PYTHONNOUSERSITE=1 --pwd /mnt/results /cache/smoke/images/demo-cu128-hopper-0123456789abcdef.sif sh -c 'HOME=$(mktemp -d) || exit; export HOME; trap '"'"'rm -rf -- "$HOME"'"'"' EXIT; trap "exit 130" INT; trap "exit 143" TERM; "$@"' sh /opt/env/bin/python -I /mnt/envspec/check --config /mnt/envspec/target.json --device auto --json /mnt/results/check.json
