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
if [ -z "${JUPYTER_TOKEN:-}" ] && [ -n "${JUPYTER_TOKEN_FILE:-}" ]; then
    JUPYTER_TOKEN=$(cat "$JUPYTER_TOKEN_FILE") || fail "JUPYTER_TOKEN_FILE can't be read: $JUPYTER_TOKEN_FILE"
fi
unset JUPYTER_TOKEN_FILE
if [ -z "${JUPYTER_TOKEN:-}" ]; then
    JUPYTER_TOKEN=$(new_secret)
    say "jupyter: http://127.0.0.1:$port$base?token=$JUPYTER_TOKEN"
fi
export JUPYTER_TOKEN
JUPYTER_RUNTIME_DIR=$runtime/jupyter
export JUPYTER_RUNTIME_DIR

serve "$prefix/bin/jupyter" lab --no-browser --ip="$bind" --port="$port" \
    --ServerApp.port_retries=0 --ServerApp.base_url="$base" --ServerApp.root_dir="$PWD"
