# shellcheck shell=sh
# Put a mirror in the place of the PyTorch index. Read by a script, not run: it changes the script's arguments, which
# begin with [--beside] [--torch-backend NAME]. PYTORCH_INDEX is the mirror's URL.
option=--default-index
if [ "${1:-}" = --beside ]; then
    option=--index
    shift
fi
if [ "${1:-}" = --torch-backend ] && [ -n "${PYTORCH_INDEX:-}" ]; then
    shift 2
    set -- "$option" "$PYTORCH_INDEX" "$@"
fi
if [ -s /run/secrets/netrc ]; then export NETRC=/run/secrets/netrc; fi
