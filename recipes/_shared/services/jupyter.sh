#!/bin/sh
# JupyterLab in the foreground.
#   JUPYTER_TOKEN, JUPYTER_TOKEN_FILE   the token; without one, a new one is made and told once on stderr
#   JUPYTER_PORT                        8888
#   JUPYTER_BASE_URL                    /
#   ENVSPEC_BIND                        the address to listen at
# shellcheck source=common.sh
. "$(dirname -- "$0")/common.sh"

port=${JUPYTER_PORT:-8888}
base=${JUPYTER_BASE_URL:-/}
# Jupyter reads the token from the environment by itself: a command line can be seen by everybody.
settle JUPYTER_TOKEN "jupyter: http://127.0.0.1:$port$base?token="
export JUPYTER_TOKEN
JUPYTER_RUNTIME_DIR=$runtime/jupyter
export JUPYTER_RUNTIME_DIR

serve "$prefix/bin/jupyter" lab --no-browser --ip="$bind" --port="$port" \
    --ServerApp.port_retries=0 --ServerApp.base_url="$base" --ServerApp.root_dir="$PWD"
