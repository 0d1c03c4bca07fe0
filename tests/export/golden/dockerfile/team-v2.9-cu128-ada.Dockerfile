# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# team-v2.9, target cu128-ada: Python 3.10 on linux-64, CUDA 12.8. In the folder above this one:
#   docker buildx build --build-arg SOURCE_DATE_EPOCH=315532800 --platform linux/amd64 \
#     -f cu128-ada/Dockerfile -t team-v2.9-cu128-ada .
#   docker run --rm -it --gpus all --shm-size 8g -p 127.0.0.1:8888:8888 -p 127.0.0.1:2222:2222 \
#     -p 127.0.0.1:8080:8080 -p 127.0.0.1:6006:6006 -v "$PWD:/workspace" team-v2.9-cu128-ada
#   on all GPUs: torchrun --standalone --nproc-per-node gpu train.py; on one MIG instance: --gpus '"device=MIG-..."'
# Mirrors and logins stay outside: --secret id=uv,src=FILE, id=apt-mirrors
ARG BASE_IMAGE="debian:bookworm-slim"
ARG UV_IMAGE="astral/uv:0.13.8"
ARG CODE_SERVER_IMAGE="codercom/code-server:4.138.0"
ARG NVCC_IMAGE="nvidia/cuda:12.8.1-devel-ubuntu22.04"
FROM ${UV_IMAGE} AS uv
FROM ${CODE_SERVER_IMAGE} AS code-server
FROM ${NVCC_IMAGE} AS nvcc
# Python, at the environment's own path: scripts name the one that installs them. build.sh has the steps.
FROM ${BASE_IMAGE} AS python
COPY --from=uv /uv /layers/
COPY envspec/build.sh envspec/bytecode.py requirements/python.json /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh python python python.json
FROM python AS stack
COPY requirements/nvidia.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh install nvidia nvidia
COPY requirements/torch.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh install torch torch
FROM python AS rest
COPY requirements/rest.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh install rest rest
# What an image keeps of its own: one mode for all, as a checkout's depends on its owner's umask.
FROM python AS carried
COPY --chmod=0755 envspec requirements cu128-ada/target.json /layers/
RUN sh /layers/build.sh carried carried /opt/env/bin/python code-server common jupyter ssh tensorboard

FROM ${BASE_IMAGE}
# The scripts are mounted, so that the image has none. `build` is their digest: not all builders look into mounts.
RUN --mount=from=python,source=/layers,target=/run/build --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    build=… sh /run/build/build.sh apt ca-certificates g++ ibverbs-providers libibverbs1 libnuma1 librdmacm1 \
        openssh-server tini
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/opt/envspec/healthcheck.sh"]
RUN --mount=from=python,source=/layers,target=/run/build --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    build=… sh /run/build/build.sh own dev --cuda targets/x86_64-linux curl git less procps
COPY --from=code-server /usr/lib/code-server /usr/lib/code-server
COPY --from=nvcc /usr/local/cuda-12.8/bin /usr/local/cuda/bin
COPY --from=nvcc /usr/local/cuda-12.8/nvvm /usr/local/cuda/nvvm
COPY --from=nvcc /usr/local/cuda-12.8/targets/x86_64-linux/include /usr/local/cuda/targets/x86_64-linux/include
COPY --from=nvcc /usr/local/cuda-12.8/targets/x86_64-linux/lib/libcuda* /usr/local/cuda/targets/x86_64-linux/lib/
COPY --from=python /layers/python /
COPY --from=stack /layers/nvidia /
COPY --from=stack /layers/torch /
COPY --from=rest /layers/rest /
COPY --from=carried /layers/carried /
ENV PATH=/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin VIRTUAL_ENV=/opt/env PYTHONPATH="" \
    ENVSPEC_SPEC=team-v2.9 ENVSPEC_TARGET=cu128-ada LANG=C.UTF-8 PYTHONNOUSERSITE=1 PYTORCH_VERSION=2.9.1 \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility TORCH_CUDA_ARCH_LIST=8.9 \
    NVIDIA_REQUIRE_CUDA="cuda>=12.8 driver>=525.60.13" MELLANOX_VISIBLE_DEVICES=all CUDA_HOME=/usr/local/cuda
LABEL envspec.spec=team-v2.9 envspec.target=cu128-ada envspec.cuda=12.8 envspec.driver.floor=525.60.13
EXPOSE 8888 2222 8080 6006
WORKDIR /workspace
USER 1000:1000
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/envspec/entrypoint.sh"]
