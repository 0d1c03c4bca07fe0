# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# cpu-py311, target cpu: Python 3.11 on linux-64. In the folder above this one:
#   docker buildx build --build-arg SOURCE_DATE_EPOCH=315532800 --platform linux/amd64 \
#     -f cpu/Dockerfile -t cpu-py311-cpu .
#   docker run --rm -it --shm-size 8g -v "$PWD:/workspace" cpu-py311-cpu
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
COPY requirements/torch+pytorch-cpu.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv \
    sh /layers/build.sh install torch torch+pytorch-cpu --torch-backend cpu
FROM python AS rest
COPY requirements/rest.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv sh /layers/build.sh install rest rest
# What an image keeps of its own: one mode for all, as a checkout's depends on its owner's umask.
FROM python AS carried
COPY --chmod=0755 envspec requirements cpu/target.json /layers/
RUN sh /layers/build.sh carried carried /opt/env/bin/python

FROM ${BASE_IMAGE}
# The scripts are mounted, so that the image has none. `build` is their digest: not all builders look into mounts.
RUN --mount=from=python,source=/layers,target=/run/build --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    build=… sh /run/build/build.sh apt ca-certificates g++ tini
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/opt/envspec/healthcheck.sh"]
RUN --mount=from=python,source=/layers,target=/run/build build=… sh /run/build/build.sh own dev
COPY --from=python /layers/python /
COPY --from=stack /layers/torch /
COPY --from=rest /layers/rest /
COPY --from=carried /layers/carried /
ENV PATH=/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin VIRTUAL_ENV=/opt/env PYTHONPATH="" \
    ENVSPEC_SPEC=cpu-py311 ENVSPEC_TARGET=cpu LANG=C.UTF-8 PYTHONNOUSERSITE=1 PYTORCH_VERSION=2.13.0
LABEL envspec.spec=cpu-py311 envspec.target=cpu
WORKDIR /workspace
USER 1000:1000
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/envspec/entrypoint.sh"]
