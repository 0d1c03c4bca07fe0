# shellcheck shell=sh
# shellcheck disable=SC2034 # uv: the scripts that read this use it
# uv's settings in images that are built. Read by a script, not run.
uv=${UV:-/layers/uv}
export UV_CACHE_DIR=/var/cache/uv UV_LINK_MODE=copy UV_PYTHON_INSTALL_DIR=/opt/python
