# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# mm-v2.1, target cu118: Python 3.10 on linux-64, CUDA 11.8. In the folder above this one:
#   docker buildx build --build-arg SOURCE_DATE_EPOCH=315532800 --platform linux/amd64 \
#     -f cu118/Dockerfile -t mm-v2.1-cu118 .
#   docker run --rm -it --gpus all --shm-size 8g -v "$PWD:/workspace" mm-v2.1-cu118
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
ARG PYTORCH_INDEX=""
COPY requirements/torch.txt requirements/torch+pytorch-cu118.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh install torch torch \
    && sh /layers/build.sh install torch torch+pytorch-cu118 --torch-backend cu118
FROM python AS rest
COPY requirements/rest@cu118.txt requirements/rest.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh install rest rest
# Builds what the lock has as source only: clip, deepspeed.
FROM python AS compile
RUN --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    sh /layers/build.sh apt build-essential ca-certificates git
COPY requirements/source=deepspeed.txt requirements/built-with=deepspeed.txt requirements/source+git=clip.txt \
        requirements/built-with+git=clip.txt /layers/
RUN --mount=type=secret,id=uv sh /layers/build.sh install source source=deepspeed \
    && sh /layers/build.sh install source source+git=clip --git
# What an image keeps of its own: one mode for all, as a checkout's depends on its owner's umask.
FROM python AS carried
COPY --chmod=0755 envspec requirements cu118/target.json /layers/
RUN sh /layers/build.sh carried carried /opt/env/bin/python

FROM ${BASE_IMAGE}
# The scripts are mounted, so that the image has none. `build` is their digest: not all builders look into mounts.
RUN --mount=from=python,source=/layers,target=/run/build --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    build=… sh /run/build/build.sh apt ca-certificates g++ ibverbs-providers libibverbs1 libnuma1 librdmacm1 tini
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/opt/envspec/healthcheck.sh"]
RUN --mount=from=python,source=/layers,target=/run/build --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    build=… sh /run/build/build.sh own dev libgl1
COPY --from=python /layers/python /
COPY --from=stack /layers/torch /
COPY --from=compile /layers/source /
COPY --from=rest /layers/rest /
COPY --from=carried /layers/carried /
ENV PATH=/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin VIRTUAL_ENV=/opt/env PYTHONPATH="" \
    ENVSPEC_SPEC=mm-v2.1 ENVSPEC_TARGET=cu118 LANG=C.UTF-8 PYTHONNOUSERSITE=1 PYTORCH_VERSION=2.1.0 \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility TORCH_CUDA_ARCH_LIST="7.0;8.0" \
    NVIDIA_REQUIRE_CUDA="cuda>=11.8 driver>=450.80.02" MELLANOX_VISIBLE_DEVICES=all
LABEL envspec.spec=mm-v2.1 envspec.target=cu118 envspec.cuda=11.8 envspec.driver.floor=450.80.02
WORKDIR /workspace
USER 1000:1000
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/envspec/entrypoint.sh"]
