# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# mm-v2.9, target cu126-volta: Python 3.12 on linux-64, CUDA 12.6. In the folder above this one:
#   docker buildx build --build-arg SOURCE_DATE_EPOCH=315532800 --platform linux/amd64 \
#     -f cu126-volta/Dockerfile -t mm-v2.9-cu126-volta .
#   docker run --rm -it --gpus all --shm-size 8g -p 127.0.0.1:8888:8888 -v "$PWD:/workspace" mm-v2.9-cu126-volta
#   on all GPUs: torchrun --standalone --nproc-per-node gpu train.py; on one MIG instance: --gpus '"device=MIG-..."'
# Mirrors and logins stay outside: --secret id=uv,src=FILE, id=apt-mirrors, --build-arg PYTORCH_INDEX=URL
ARG BASE_IMAGE="debian:trixie-slim"
ARG UV_IMAGE="astral/uv:0.13.8"
FROM ${UV_IMAGE} AS uv
# Python, at the environment's own path: scripts name the one that installs them. build.sh has the steps.
FROM ${BASE_IMAGE} AS python
COPY --from=uv /uv /layers/
COPY envspec/build.sh envspec/bytecode.py requirements/python.json /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh python python python.json
FROM python AS stack
COPY requirements/nvidia@cu126-volta.txt requirements/nvidia@cu126-volta,cu128-ampere,cu128-blackwell,cu128-hopper.txt \
        /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh install nvidia nvidia
ARG PYTORCH_INDEX=""
COPY requirements/torch.txt requirements/torch+pytorch-cu126.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh install torch torch \
    && sh /layers/build.sh install torch torch+pytorch-cu126 --torch-backend cu126
FROM python AS rest
COPY requirements/rest.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh install rest rest
# Builds what the lock has as source only: deepspeed.
FROM python AS compile
RUN --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors sh /layers/build.sh apt build-essential ca-certificates
COPY requirements/source=deepspeed.txt requirements/built-with=deepspeed.txt /layers/
RUN --mount=type=secret,id=uv sh /layers/build.sh install source source=deepspeed
# What an image keeps of its own: one mode for all, as a checkout's depends on its owner's umask.
FROM python AS carried
COPY --chmod=0755 envspec requirements cu126-volta/target.json /layers/
RUN sh /layers/build.sh carried carried /opt/env/bin/python common jupyter

FROM ${BASE_IMAGE}
# The scripts are mounted, so that the image has none. `build` is their digest: not all builders look into mounts.
RUN --mount=from=python,source=/layers,target=/run/build --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    build=… sh /run/build/build.sh apt ca-certificates g++ ibverbs-providers libibverbs1 libnuma1 librdmacm1 tini
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/opt/envspec/healthcheck.sh"]
RUN --mount=from=python,source=/layers,target=/run/build build=… sh /run/build/build.sh own dev
COPY --from=python /layers/python /
COPY --from=stack /layers/nvidia /
COPY --from=stack /layers/torch /
COPY --from=compile /layers/source /
COPY --from=rest /layers/rest /
COPY --from=carried /layers/carried /
ENV PATH=/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin VIRTUAL_ENV=/opt/env PYTHONPATH="" \
    ENVSPEC_SPEC=mm-v2.9 ENVSPEC_TARGET=cu126-volta LANG=C.UTF-8 PYTHONNOUSERSITE=1 PYTORCH_VERSION=2.9.1 \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility TORCH_CUDA_ARCH_LIST=7.0 \
    NVIDIA_REQUIRE_CUDA="cuda>=12.6 driver>=525.60.13" MELLANOX_VISIBLE_DEVICES=all HF_HOME=/workspace/.cache/hf
LABEL envspec.spec=mm-v2.9 envspec.target=cu126-volta envspec.cuda=12.6 envspec.driver.floor=525.60.13
EXPOSE 8888
WORKDIR /workspace
USER 1000:1000
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/envspec/entrypoint.sh"]
