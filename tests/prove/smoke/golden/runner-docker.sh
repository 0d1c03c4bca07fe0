# the files for the checks of demo-cu128-hopper
# writes /results/carried/demo-cu128-hopper/check/__main__.py (15 bytes)
# writes /results/carried/demo-cu128-hopper/target.json (3 bytes)
# the folder of the run
mkdir -p /results/runs/demo-cu128-hopper
# the recipe of demo-cu128-hopper
# writes /cache/smoke/recipes/demo-cu128-hopper-0123456789abcdef/cu128-hopper/Dockerfile (13 bytes)
# writes /cache/smoke/recipes/demo-cu128-hopper-0123456789abcdef/cu128-hopper/apptainer.def (18 bytes)
# writes /cache/smoke/recipes/demo-cu128-hopper-0123456789abcdef/envspec/check/__main__.py (15 bytes)
# the image of demo-cu128-hopper
docker image inspect envspec-smoke/demo:cu128-hopper-0123456789abcdef >/dev/null 2>&1 || docker buildx build --load --file /cache/smoke/recipes/demo-cu128-hopper-0123456789abcdef/cu128-hopper/Dockerfile --tag envspec-smoke/demo:cu128-hopper-0123456789abcdef /cache/smoke/recipes/demo-cu128-hopper-0123456789abcdef
# the checks of demo-cu128-hopper
docker run --rm --init --read-only --network none --cap-drop all --security-opt no-new-privileges --ipc host --tmpfs /tmp:rw,exec,mode=1777 --user 1000:1000 --gpus all --env CUDA_VISIBLE_DEVICES --env CUDA_DEVICE_ORDER --mount type=bind,source=/results/carried/demo-cu128-hopper,target=/mnt/envspec,readonly --mount type=bind,source=/results/runs/demo-cu128-hopper,target=/mnt/results --env HOME=/tmp --env USER=envspec --workdir /mnt/results --entrypoint /opt/env/bin/python envspec-smoke/demo:cu128-hopper-0123456789abcdef -I /mnt/envspec/check --config /mnt/envspec/target.json --device auto --json /mnt/results/check.json
