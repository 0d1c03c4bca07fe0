#!/bin/sh
# code-server in the foreground.
#   PASSWORD, HASHED_PASSWORD   the password; without one, a new one is made and told once on stderr
#   CODE_SERVER_PORT            8080
#   ENVSPEC_BIND                the address to listen at
# shellcheck source=common.sh
. "$(dirname -- "$0")/common.sh"

port=${CODE_SERVER_PORT:-8080}
# code-server reads the password from the environment by itself, and hides it from what it starts.
if [ -z "${PASSWORD:-}" ] && [ -z "${HASHED_PASSWORD:-}" ]; then
    PASSWORD=$(new_secret)
    say "code-server: http://127.0.0.1:$port/ password $PASSWORD"
    export PASSWORD
fi

program=/usr/lib/code-server/bin/code-server
[ -x "$program" ] || program=$(command -v code-server) || fail 'there is no code-server'
# Its own configuration file would hold a password of its own.
: >"$runtime/code-server.yaml"
case $bind in *:*) bind="[$bind]" ;; esac
serve "$program" --config "$runtime/code-server.yaml" --bind-addr "$bind:$port" --auth password \
    --disable-telemetry --disable-update-check "$PWD"
