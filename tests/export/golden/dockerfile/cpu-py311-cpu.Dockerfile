# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# cpu-py311, target cpu: Python 3.11 on linux-64.
#
# In the folder above this one:
#   docker buildx build --build-arg SOURCE_DATE_EPOCH=315532800 --platform linux/amd64 -f cpu/Dockerfile -t cpu-py311-cpu .
#   docker run --rm -it --shm-size 8g -v "$PWD:/workspace" cpu-py311-cpu
#
# Other indexes, mirrors and logins: in a uv.toml, by --secret id=uv,src=uv.toml. It stays out of the image.
# Mirrors of apt's archives: words like debian=URL in a file, by --secret id=apt-mirrors,src=FILE.
# A mirror of the PyTorch index cpu: --build-arg PYTORCH_INDEX=URL
# hadolint global ignore=DL3002,DL3008,DL3059

ARG BASE_IMAGE="debian:trixie-slim"
ARG UV_IMAGE="astral/uv:0.13.8"

FROM ${UV_IMAGE} AS uv

FROM ${BASE_IMAGE} AS python
USER 0
COPY --from=uv /uv /layers/uv
ENV UV_CACHE_DIR="/var/cache/uv" UV_LINK_MODE="copy" UV_PYTHON_INSTALL_DIR="/opt/python" UV_PYTHON_PREFERENCE="only-managed"
COPY envspec/bytecode.py requirements/python.json /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    set -eu && UV_PYTHON_DOWNLOADS_JSON_URL=/layers/python.json /layers/uv venv --quiet --python "$(sed -n 's/^  .cpython-\([0-9.]*\)-.*/\1/p' /layers/python.json)" /opt/env \
    && mkdir -p /layers/python/opt \
    && for one in /opt/env /opt/python; do [ ! -d $one ] || cp -a $one /layers/python/opt; done \
    && find /layers/python -exec touch -h -d @315532800 {} +

FROM python AS torch
ARG PYTORCH_INDEX=""
COPY requirements/torch+pytorch-cpu.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    set -eu && { if [ -n "$PYTORCH_INDEX" ]; then set -- --default-index "$PYTORCH_INDEX"; else set -- --torch-backend cpu; fi; } && /layers/uv pip install --quiet --python /opt/env --prefix /layers/torch/opt/env --no-deps --require-hashes --only-binary :all: --requirements /layers/torch+pytorch-cpu.txt "$@" \
    && /opt/env/bin/python -ISB /layers/bytecode.py /layers/torch/opt/env/lib /opt/env/lib \
    && find /layers/torch -exec touch -h -d @315532800 {} +

FROM python AS rest
COPY requirements/rest.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    set -eu && /layers/uv pip install --quiet --python /opt/env --prefix /layers/rest/opt/env --no-deps --require-hashes --only-binary :all: --requirements /layers/rest.txt \
    && /opt/env/bin/python -ISB /layers/bytecode.py /layers/rest/opt/env/lib /opt/env/lib \
    && find /layers/rest -exec touch -h -d @315532800 {} +

FROM python AS carried
COPY --chmod=0755 envspec/SHA256SUMS envspec/envspec-check.pyz envspec/bytecode.py envspec/entrypoint.sh envspec/healthcheck.sh envspec/preflight.py envspec/warned.sh cpu/target.json /layers/carried/opt/envspec/
COPY --chmod=0755 requirements/torch+pytorch-cpu.txt requirements/rest.txt /layers/carried/opt/envspec/requirements/
RUN set -eu && place=/layers/carried/opt/envspec \
    && /opt/env/bin/python -ISB -m zipfile -e "$place/envspec-check.pyz" "$place/check" \
    && env --chdir="$place" sha256sum --check --quiet --ignore-missing SHA256SUMS \
    && rm "$place/envspec-check.pyz" \
    && while read -r sum file; do [ ! -f "$place/$file" ] || echo "$sum  $file"; done <"$place/SHA256SUMS" >"$place/own" \
    && mv "$place/own" "$place/SHA256SUMS" \
    && find /layers/carried -exec touch -h -d @315532800 {} +

FROM ${BASE_IMAGE}
USER 0
ARG SOURCE_DATE_EPOCH=315532800
RUN --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    set -eu && began=$(date +%s) \
    && if [ -s /run/apt-mirrors ]; then cp -a /etc/apt /var/lib/apt/site && mirrors=$(cat /run/apt-mirrors) && for one in $mirrors; do find /var/lib/apt/site \( -name '*.list' -o -name '*.sources' \) -exec sed -i "s,https\?://[^/ ]*/${one%%=*}/\?\( \|\$\),${one#*=}\1," {} + || exit; done && echo 'Dir::Etc "/var/lib/apt/site";' > /var/lib/apt/site/own.conf && export APT_CONFIG=/var/lib/apt/site/own.conf; fi \
    && export DEBIAN_FRONTEND=noninteractive && apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends ca-certificates g++ tini \
    && rm -rf /var/lib/apt/site /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb \
    && rm -rf /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old /etc/ssh/ssh_host_* && find /var/log -type f -delete \
    && find / -xdev \( -type l -o -writable \) -newermt "@$began" -exec touch -h -d @315532800 {} +
RUN set -eu && began=$(date +%s) \
    && if old=$(id -nu 1000 2>/dev/null); then userdel "$old"; fi \
    && if ! getent group 1000 >/dev/null; then groupadd --gid 1000 envspec; fi \
    && useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash dev \
    && install -d -o 1000 -g 1000 /workspace \
    && echo "PATH=/opt/env/bin:\$PATH" > /etc/profile.d/envspec.sh \
    && rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid- \
    && find / -xdev \( -type l -o -writable \) -newermt "@$began" -exec touch -h -d @315532800 {} +
COPY --from=python /layers/python /
COPY --from=torch /layers/torch /
COPY --from=rest /layers/rest /
COPY --from=carried /layers/carried /
ENV PATH="/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" VIRTUAL_ENV="/opt/env" \
    PYTHONPATH="" ENVSPEC_SPEC="cpu-py311" ENVSPEC_TARGET="cpu" LANG="C.UTF-8" PYTHONNOUSERSITE="1" \
    PYTORCH_VERSION="2.13.0"
LABEL org.opencontainers.image.title="cpu-py311-cpu" \
    org.opencontainers.image.description="PyTorch for CPUs on Python 3.11: for tests, small machines and proving that a lock installs" \
    org.opencontainers.image.base.name="debian:trixie-slim" envspec.spec="cpu-py311" envspec.target="cpu"
WORKDIR /workspace
USER 1000:1000
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/opt/envspec/healthcheck.sh"]
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/envspec/entrypoint.sh"]
