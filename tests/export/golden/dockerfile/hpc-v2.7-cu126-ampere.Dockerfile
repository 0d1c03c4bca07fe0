# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# hpc-v2.7, target cu126-ampere: Python 3.12 on linux-64, CUDA 12.6. In the folder above this one:
#   docker buildx build --build-arg SOURCE_DATE_EPOCH=315532800 --platform linux/amd64 \
#     --build-arg CONDA_CHANNEL_HOST=host.of.your.channels -f cu126-ampere/Dockerfile -t hpc-v2.7-cu126-ampere .
#   docker run --rm -it --gpus all --shm-size 8g -p 127.0.0.1:2222:2222 -v "$PWD:/workspace" hpc-v2.7-cu126-ampere
#   on all GPUs: torchrun --standalone --nproc-per-node gpu train.py; on one MIG instance: --gpus '"device=MIG-..."'
# Mirrors and logins stay outside: --secret id=uv,src=FILE, id=apt-mirrors
# Channels with a login or a certificate of their own: --secret id=netrc, id=condarc and id=ca.
# hadolint global ignore=DL3002
ARG BASE_IMAGE="debian:trixie-slim"
ARG UV_IMAGE="astral/uv:0.13.8"
ARG MICROMAMBA_IMAGE="mambaorg/micromamba:2.9.0"
FROM ${UV_IMAGE} AS uv
# The conda half, from the files that the lock names. It names no host of your channels.
FROM ${MICROMAMBA_IMAGE} AS conda
USER 0
ARG CONDA_CHANNEL_HOST
COPY envspec/build.sh envspec/bytecode.py requirements/conda@cu126-ampere.txt /layers/
RUN --mount=type=cache,target=/opt/conda/pkgs,sharing=locked --mount=type=secret,id=condarc,target=/etc/conda/condarc \
    --mount=type=secret,id=ca,target=/run/secrets/ca.pem --mount=type=secret,id=netrc \
    sh /layers/build.sh conda conda /layers/conda@cu126-ampere.txt
# Python, at the environment's own path: scripts name the one that installs them. build.sh has the steps.
FROM ${BASE_IMAGE} AS python
COPY --from=uv /uv /layers/
COPY --from=conda /layers/conda /
COPY envspec/build.sh envspec/bytecode.py /layers/
FROM python AS rest
COPY requirements/rest.txt requirements/rest@cu126-ampere,cu129-hopper.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh install rest rest
# What an image keeps of its own: one mode for all, as a checkout's depends on its owner's umask.
FROM python AS carried
COPY --chmod=0755 envspec requirements cu126-ampere/target.json /layers/
RUN sh /layers/build.sh carried carried /opt/env/bin/python common ssh

FROM ${BASE_IMAGE}
# The scripts are mounted, so that the image has none. `build` is their digest: not all builders look into mounts.
RUN --mount=from=python,source=/layers,target=/run/build --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    build=… sh /run/build/build.sh apt ca-certificates g++ ibverbs-providers libibverbs1 libnuma1 librdmacm1 \
        openssh-server tini
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/opt/envspec/healthcheck.sh"]
RUN --mount=from=python,source=/layers,target=/run/build build=… sh /run/build/build.sh own dev
COPY --from=conda /layers/conda /
COPY --from=rest /layers/rest /
COPY --from=carried /layers/carried /
ENV PATH=/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin CONDA_PREFIX=/opt/env PYTHONPATH="" \
    ENVSPEC_SPEC=hpc-v2.7 ENVSPEC_TARGET=cu126-ampere LANG=C.UTF-8 PYTHONNOUSERSITE=1 PYTORCH_VERSION=2.7.1 \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility,video TORCH_CUDA_ARCH_LIST=8.0 \
    NVIDIA_REQUIRE_CUDA="cuda>=12.6 driver>=525.60.13" MELLANOX_VISIBLE_DEVICES=all HF_HOME=/workspace/.cache/hf
LABEL envspec.spec=hpc-v2.7 envspec.target=cu126-ampere envspec.cuda=12.6 envspec.driver.floor=525.60.13
EXPOSE 2222
WORKDIR /workspace
USER 1000:1000
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/envspec/entrypoint.sh"]
