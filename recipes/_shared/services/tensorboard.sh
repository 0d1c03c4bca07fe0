#!/bin/sh
# TensorBoard in the foreground. It knows no login, so it answers only below a path that nobody can guess.
#   TENSORBOARD_TOKEN, TENSORBOARD_TOKEN_FILE   the path; without one, a new one is made and told once on stderr
#   TENSORBOARD_LOGDIR                          runs
#   TENSORBOARD_PORT                            6006
#   ENVSPEC_BIND                                the address to listen at
# shellcheck source=common.sh
. "$(dirname -- "$0")/common.sh"

TENSORBOARD_PORT=${TENSORBOARD_PORT:-6006}
TENSORBOARD_LOGDIR=${TENSORBOARD_LOGDIR:-$PWD/runs}
settle TENSORBOARD_TOKEN "tensorboard: http://127.0.0.1:$TENSORBOARD_PORT/" /
case $TENSORBOARD_TOKEN in
*[!A-Za-z0-9_-]*) fail 'TENSORBOARD_TOKEN may hold letters, digits, "-" and "_" alone: it is a path' ;;
esac
bind_address=$bind
export TENSORBOARD_TOKEN TENSORBOARD_PORT TENSORBOARD_LOGDIR bind_address

# Its options are set in the process: a command line can be seen by everybody.
serve "$python" -I -c '
import os
import sys

from tensorboard.main import run_main

given = os.environ
options = {
    "logdir": given["TENSORBOARD_LOGDIR"],
    "host": given["bind_address"],
    "port": given["TENSORBOARD_PORT"],
    "path_prefix": "/" + given.pop("TENSORBOARD_TOKEN"),
    "reuse_port": "false",
}
sys.argv[1:] = [f"--{name}={value}" for name, value in options.items()]
run_main()
'
