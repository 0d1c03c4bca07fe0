# the files for the checks of demo-cu128-hopper
# writes /results/carried/demo-cu128-hopper/check/__main__.py (15 bytes)
# writes /results/carried/demo-cu128-hopper/target.json (3 bytes)
# the folder of the run
mkdir -p /results/runs/demo-cu128-hopper
# the checks of demo-cu128-hopper
docker run --rm --init --read-only --network none --cap-drop all --security-opt no-new-privileges --ipc host --tmpfs /tmp:rw,exec,mode=1777 --user 1000:1000 --gpus all --env CUDA_VISIBLE_DEVICES --env CUDA_DEVICE_ORDER --mount type=bind,source=/results/carried/demo-cu128-hopper,target=/mnt/envspec,readonly --mount type=bind,source=/results/runs/demo-cu128-hopper,target=/mnt/results --env HOME=/tmp --env USER=envspec --workdir /mnt/results --entrypoint /opt/env/bin/python site/train:1 -I /mnt/envspec/check --config /mnt/envspec/target.json --device auto --json /mnt/results/check.json
