# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# team-v2.9, target cu128-ada: Python 3.10 on linux-64, CUDA 12.8.
#
# In the folder above this one:
#   docker buildx build --build-arg SOURCE_DATE_EPOCH=315532800 --platform linux/amd64 \
#     -f cu128-ada/Dockerfile -t team-v2.9-cu128-ada .
#   docker run --rm -it --gpus all --shm-size 8g -p 127.0.0.1:8888:8888 -p 127.0.0.1:2222:2222 \
#     -p 127.0.0.1:8080:8080 -p 127.0.0.1:6006:6006 -v "$PWD:/workspace" team-v2.9-cu128-ada
#   docker run --rm --gpus all --shm-size 8g -v "$PWD:/workspace" team-v2.9-cu128-ada \
#     torchrun --standalone --nproc-per-node gpu train.py
#   (a MIG instance alone: --gpus '"device=MIG-..."', by its name of nvidia-smi -L)
# Other indexes, mirrors and logins: in a uv.toml, by --secret id=uv,src=uv.toml. It stays out of the image.
# Mirrors of apt's archives: words like debian=URL in a file, by --secret id=apt-mirrors,src=FILE.
# hadolint global ignore=DL3002,DL3008,DL3059

ARG BASE_IMAGE="debian:bookworm-slim"
ARG UV_IMAGE="astral/uv:0.13.8"
ARG CODE_SERVER_IMAGE="codercom/code-server:4.138.0"
ARG NVCC_IMAGE="nvidia/cuda:12.8.1-devel-ubuntu22.04"

FROM ${UV_IMAGE} AS uv

FROM ${CODE_SERVER_IMAGE} AS code-server

FROM ${NVCC_IMAGE} AS nvcc

# Python, at the environment's own path: scripts name the one that installs them.
FROM ${BASE_IMAGE} AS python
USER 0
COPY --from=uv /uv /layers/
COPY envspec/build envspec/bytecode.py requirements/python.json /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    sh /layers/python.sh /layers/python.json only-managed /layers/python

FROM python AS nvidia
COPY requirements/nvidia.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    sh /layers/install.sh nvidia --require-hashes --requirements /layers/nvidia.txt

FROM python AS torch
COPY requirements/torch.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    sh /layers/install.sh torch --require-hashes --requirements /layers/torch.txt

FROM python AS rest
COPY requirements/rest.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    sh /layers/install.sh rest --require-hashes --requirements /layers/rest.txt

# What an image keeps of its own: one mode for all, as a checkout's depends on its owner's umask.
FROM python AS carried
COPY --chmod=0755 envspec/SHA256SUMS envspec/envspec-check.pyz envspec/bytecode.py envspec/entrypoint.sh \
        envspec/healthcheck.sh envspec/preflight.py envspec/warned.sh cu128-ada/target.json /layers/carried/opt/envspec/
COPY --chmod=0755 envspec/services/code-server.sh envspec/services/common.sh envspec/services/jupyter.sh \
        envspec/services/ssh.sh envspec/services/tensorboard.sh /layers/carried/opt/envspec/services/
COPY --chmod=0755 requirements/nvidia.txt requirements/torch.txt requirements/rest.txt \
        /layers/carried/opt/envspec/requirements/
RUN sh /layers/carried.sh /layers/carried /opt/env/bin/python

FROM ${BASE_IMAGE}
USER 0
ARG SOURCE_DATE_EPOCH=315532800
# The scripts are mounted, so that the image has none. `build` is their digest: not all builders look into mounts.
RUN --mount=type=bind,from=python,target=/run/python --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    build=… sh /run/python/layers/apt.sh ca-certificates g++ ibverbs-providers libibverbs1 libnuma1 librdmacm1 \
        openssh-server tini
RUN --mount=type=bind,from=python,target=/run/python --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    build=… sh /run/python/layers/apt.sh curl git less procps \
    && sh /run/python/layers/links.sh /usr/local/cuda include targets/x86_64-linux/include lib64 \
        targets/x86_64-linux/lib \
    && sh /run/python/layers/user.sh dev
COPY --from=code-server /usr/lib/code-server /usr/lib/code-server
COPY --from=nvcc /usr/local/cuda-12.8/bin /usr/local/cuda/bin
COPY --from=nvcc /usr/local/cuda-12.8/nvvm /usr/local/cuda/nvvm
COPY --from=nvcc /usr/local/cuda-12.8/targets/x86_64-linux/include /usr/local/cuda/targets/x86_64-linux/include
COPY --from=nvcc /usr/local/cuda-12.8/targets/x86_64-linux/lib/libcuda* /usr/local/cuda/targets/x86_64-linux/lib/
COPY --from=python /layers/python /
COPY --from=nvidia /layers/nvidia /
COPY --from=torch /layers/torch /
COPY --from=rest /layers/rest /
COPY --from=carried /layers/carried /
ENV PATH="/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" VIRTUAL_ENV="/opt/env" \
    PYTHONPATH="" ENVSPEC_SPEC="team-v2.9" ENVSPEC_TARGET="cu128-ada" LANG="C.UTF-8" PYTHONNOUSERSITE="1" \
    PYTORCH_VERSION="2.9.1" NVIDIA_VISIBLE_DEVICES="all" NVIDIA_DRIVER_CAPABILITIES="compute,utility" \
    NVIDIA_REQUIRE_CUDA="cuda>=12.8 driver>=525.60.13" TORCH_CUDA_ARCH_LIST="8.9" MELLANOX_VISIBLE_DEVICES="all" \
    CUDA_HOME="/usr/local/cuda"
LABEL org.opencontainers.image.title="team-v2.9-cu128-ada" \
    org.opencontainers.image.description="A team's shared GPU box on PyTorch 2.9: JupyterLab, TensorBoard, code-server \
and SSH around the language-model stack, without root" \
    org.opencontainers.image.base.name="debian:bookworm-slim" envspec.spec="team-v2.9" envspec.target="cu128-ada" \
    envspec.cuda="12.8" envspec.driver.floor="525.60.13"
EXPOSE 8888 2222 8080 6006
WORKDIR /workspace
USER 1000:1000
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/opt/envspec/healthcheck.sh"]
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/envspec/entrypoint.sh"]
