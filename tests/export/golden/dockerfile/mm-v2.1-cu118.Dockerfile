# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# mm-v2.1, target cu118: Python 3.10 on linux-64, CUDA 11.8.
#
# In the folder above this one:
#   docker buildx build --build-arg SOURCE_DATE_EPOCH=315532800 --platform linux/amd64 -f cu118/Dockerfile -t mm-v2.1-cu118 .
#   docker run --rm -it --gpus all --shm-size 8g -v "$PWD:/workspace" mm-v2.1-cu118
#   docker run --rm --gpus all --shm-size 8g -v "$PWD:/workspace" mm-v2.1-cu118 torchrun --standalone --nproc-per-node gpu train.py
#   (a MIG instance alone: --gpus '"device=MIG-..."', by its name of nvidia-smi -L)
#
# Other indexes, mirrors and logins: in a uv.toml, by --secret id=uv,src=uv.toml. It stays out of the image.
# Mirrors of apt's archives: words like debian=URL in a file, by --secret id=apt-mirrors,src=FILE.
# A mirror of the PyTorch index cu118: --build-arg PYTORCH_INDEX=URL
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
COPY requirements/torch.txt requirements/torch+pytorch-cu118.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    set -eu && /layers/uv pip install --quiet --python /opt/env --prefix /layers/torch/opt/env --no-deps --require-hashes --only-binary :all: --requirements /layers/torch.txt \
    && { if [ -n "$PYTORCH_INDEX" ]; then set -- --default-index "$PYTORCH_INDEX"; else set -- --torch-backend cu118; fi; } && /layers/uv pip install --quiet --python /opt/env --prefix /layers/torch/opt/env --no-deps --require-hashes --only-binary :all: --requirements /layers/torch+pytorch-cu118.txt "$@" \
    && /opt/env/bin/python -ISB /layers/bytecode.py /layers/torch/opt/env/lib /opt/env/lib \
    && find /layers/torch -exec touch -h -d @315532800 {} +

FROM python AS rest
COPY requirements/rest@cu118.txt requirements/rest.txt /layers/
RUN --mount=type=cache,target=/var/cache/uv --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    set -eu && /layers/uv pip install --quiet --python /opt/env --prefix /layers/rest/opt/env --no-deps --require-hashes --only-binary :all: --requirements /layers/rest@cu118.txt --requirements /layers/rest.txt \
    && /opt/env/bin/python -ISB /layers/bytecode.py /layers/rest/opt/env/lib /opt/env/lib \
    && find /layers/rest -exec touch -h -d @315532800 {} +

# Builds what the lock has as source only: clip, deepspeed.
FROM python AS compile
ARG SOURCE_DATE_EPOCH=315532800
RUN --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    set -eu && if [ -s /run/apt-mirrors ]; then cp -a /etc/apt /var/lib/apt/site && mirrors=$(cat /run/apt-mirrors) && for one in $mirrors; do find /var/lib/apt/site \( -name '*.list' -o -name '*.sources' \) -exec sed -i "s,https\?://[^/ ]*/${one%%=*}/\?\( \|\$\),${one#*=}\1," {} + || exit; done && echo 'Dir::Etc "/var/lib/apt/site";' > /var/lib/apt/site/own.conf && export APT_CONFIG=/var/lib/apt/site/own.conf; fi \
    && export DEBIAN_FRONTEND=noninteractive && apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends build-essential ca-certificates git \
    && rm -rf /var/lib/apt/site /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb \
    && rm -rf /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old /etc/ssh/ssh_host_* && find /var/log -type f -delete
COPY requirements/source=deepspeed.txt requirements/built-with=deepspeed.txt requirements/source+git=clip.txt requirements/built-with+git=clip.txt /layers/
RUN --mount=type=secret,id=uv,target=/etc/uv/uv.toml \
    set -eu && export UV_NO_CACHE=1 UV_LINK_MODE=copy \
    && /layers/uv pip install --quiet --python /opt/env --prefix /layers/source/opt/env --no-deps --require-hashes --only-binary :all: --no-binary deepspeed --build-constraints /layers/built-with=deepspeed.txt --require-build-hashes --requirements /layers/source=deepspeed.txt \
    && /layers/uv pip install --quiet --python /opt/env --prefix /layers/source/opt/env --no-deps --only-binary :all: --no-binary clip --build-constraints /layers/built-with+git=clip.txt --require-build-hashes --requirements /layers/source+git=clip.txt \
    && /opt/env/bin/python -ISB /layers/bytecode.py /layers/source/opt/env/lib /opt/env/lib \
    && find /layers/source -exec touch -h -d @315532800 {} +

FROM python AS carried
COPY --chmod=0755 envspec/SHA256SUMS envspec/envspec-check.pyz envspec/bytecode.py envspec/entrypoint.sh envspec/healthcheck.sh envspec/preflight.py envspec/warned.sh cu118/target.json /layers/carried/opt/envspec/
COPY --chmod=0755 requirements/torch.txt requirements/torch+pytorch-cu118.txt requirements/source=deepspeed.txt requirements/source+git=clip.txt requirements/rest@cu118.txt requirements/rest.txt /layers/carried/opt/envspec/requirements/
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
    && apt-get install -y -qq --no-install-recommends ca-certificates g++ ibverbs-providers libibverbs1 libnuma1 librdmacm1 tini \
    && rm -rf /var/lib/apt/site /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb \
    && rm -rf /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old /etc/ssh/ssh_host_* && find /var/log -type f -delete \
    && find / -xdev \( -type l -o -writable \) -newermt "@$began" -exec touch -h -d @315532800 {} +
RUN --mount=type=secret,id=apt-mirrors,target=/run/apt-mirrors \
    set -eu && began=$(date +%s) \
    && if [ -s /run/apt-mirrors ]; then cp -a /etc/apt /var/lib/apt/site && mirrors=$(cat /run/apt-mirrors) && for one in $mirrors; do find /var/lib/apt/site \( -name '*.list' -o -name '*.sources' \) -exec sed -i "s,https\?://[^/ ]*/${one%%=*}/\?\( \|\$\),${one#*=}\1," {} + || exit; done && echo 'Dir::Etc "/var/lib/apt/site";' > /var/lib/apt/site/own.conf && export APT_CONFIG=/var/lib/apt/site/own.conf; fi \
    && export DEBIAN_FRONTEND=noninteractive && apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends libgl1 \
    && rm -rf /var/lib/apt/site /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb \
    && rm -rf /var/cache/ldconfig/aux-cache /var/cache/debconf/*-old /var/lib/dpkg/*-old /etc/ssh/ssh_host_* && find /var/log -type f -delete \
    && if old=$(id -nu 1000 2>/dev/null); then userdel "$old"; fi \
    && if ! getent group 1000 >/dev/null; then groupadd --gid 1000 envspec; fi \
    && useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash dev \
    && install -d -o 1000 -g 1000 /workspace \
    && echo "PATH=/opt/env/bin:\$PATH" > /etc/profile.d/envspec.sh \
    && rm -f /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/subuid- /etc/subgid- \
    && find / -xdev \( -type l -o -writable \) -newermt "@$began" -exec touch -h -d @315532800 {} +
COPY --from=python /layers/python /
COPY --from=torch /layers/torch /
COPY --from=compile /layers/source /
COPY --from=rest /layers/rest /
COPY --from=carried /layers/carried /
ENV PATH="/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" VIRTUAL_ENV="/opt/env" \
    PYTHONPATH="" ENVSPEC_SPEC="mm-v2.1" ENVSPEC_TARGET="cu118" LANG="C.UTF-8" PYTHONNOUSERSITE="1" \
    PYTORCH_VERSION="2.1.0" NVIDIA_VISIBLE_DEVICES="all" NVIDIA_DRIVER_CAPABILITIES="compute,utility" \
    NVIDIA_REQUIRE_CUDA="cuda>=11.8 driver>=450.80.02" TORCH_CUDA_ARCH_LIST="7.0;8.0" MELLANOX_VISIBLE_DEVICES="all"
LABEL org.opencontainers.image.title="mm-v2.1-cu118" \
    org.opencontainers.image.description="Reproducing 2023's vision-language work: PyTorch 2.1, transformers 4.30, deepspeed 0.9 and CLIP" \
    org.opencontainers.image.base.name="debian:trixie-slim" envspec.spec="mm-v2.1" envspec.target="cu118" \
    envspec.cuda="11.8" envspec.driver.floor="450.80.02"
WORKDIR /workspace
USER 1000:1000
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s CMD ["/opt/envspec/healthcheck.sh"]
ENTRYPOINT ["/usr/bin/tini", "--", "/opt/envspec/entrypoint.sh"]
