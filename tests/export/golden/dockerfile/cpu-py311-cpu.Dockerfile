# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# cpu-py311, target cpu: Python 3.11 on linux-64.
#
# In the folder above this one:
#   docker buildx build --build-arg SOURCE_DATE_EPOCH=315532800 --platform linux/amd64 \
#     -f cpu/Dockerfile -t cpu-py311-cpu .
#   docker run --rm -it --shm-size 8g -v "$PWD:/workspace" cpu-py311-cpu
# Other indexes, mirrors and logins: in a uv.toml, by --secret id=uv,src=uv.toml. It stays out of the image.
# Mirrors of apt's archives: words like debian=URL in a file, by --secret id=apt-mirrors,src=FILE.
# A mirror of the PyTorch index cpu: --build-arg PYTORCH_INDEX=URL
# hadolint global ignore=DL3002,DL3008,DL3059

ARG BASE_IMAGE="debian:trixie-slim"
ARG UV_IMAGE="astral/uv:0.13.8"

FROM ${UV_IMAGE} AS uv

# Python, at the environment's own path: scripts name the one that installs them.
FROM ${BASE_IMAGE} AS python
USER 0
COPY --from=uv /uv /layers/
COPY envspec/build envspec/bytecode.py requirements/python.json /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    sh /layers/python.sh /layers/python.json only-managed /layers/python

FROM python AS torch
ARG PYTORCH_INDEX=""
COPY requirements/torch+pytorch-cpu.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    sh /layers/install.sh torch --torch-backend cpu --require-hashes --requirements /layers/torch+pytorch-cpu.txt

FROM python AS rest
COPY requirements/rest.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    sh /layers/install.sh rest --require-hashes --requirements /layers/rest.txt

# What an image keeps of its own: one mode for all, as a checkout's depends on its owner's umask.
FROM python AS carried
COPY --chmod=0755 envspec/SHA256SUMS envspec/envspec-check.pyz envspec/bytecode.py envspec/entrypoint.sh \
        envspec/healthcheck.sh envspec/preflight.py envspec/warned.sh cpu/target.json /layers/carried/opt/envspec/
COPY --chmod=0755 requirements/torch+pytorch-cpu.txt requirements/rest.txt /layers/carried/opt/envspec/requirements/
RUN sh /layers/carried.sh /layers/carried /opt/env/bin/python

FROM ${BASE_IMAGE}
USER 0
ARG SOURCE_DATE_EPOCH=315532800
# The scripts are mounted, so that the image has none. `build` is their digest: not all builders look into mounts.
RUN --mount=type=bind,from=python,target=/run/python --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    build=… sh /run/python/layers/apt.sh ca-certificates g++ tini
RUN --mount=type=bind,from=python,target=/run/python \
    build=… sh /run/python/layers/user.sh dev
COPY --from=python /layers/python /
COPY --from=torch /layers/torch /
COPY --from=rest /layers/rest /
COPY --from=carried /layers/carried /
ENV PATH="/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" VIRTUAL_ENV="/opt/env" \
    PYTHONPATH="" ENVSPEC_SPEC="cpu-py311" ENVSPEC_TARGET="cpu" LANG="C.UTF-8" PYTHONNOUSERSITE="1" \
    PYTORCH_VERSION="2.13.0"
LABEL org.opencontainers.image.title="cpu-py311-cpu" \
    org.opencontainers.image.description="PyTorch for CPUs on Python 3.11: for tests, small machines and proving that \
a lock installs" \
    org.opencontainers.image.base.name="debian:trixie-slim" envspec.spec="cpu-py311" envspec.target="cpu"
WORKDIR /workspace
USER 1000:1000
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/opt/envspec/healthcheck.sh"]
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/envspec/entrypoint.sh"]
