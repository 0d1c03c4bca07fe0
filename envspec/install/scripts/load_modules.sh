if ! command -v module >/dev/null 2>&1; then
    if [ -z "${MODULEPATH:-}" ]; then export MODULEPATH=@path@; fi
    if [ -n "${ZSH_VERSION:-}" ]; then _ENVSPEC_MODULES=zsh; else _ENVSPEC_MODULES=${BASH_VERSION:+ba}sh; fi
    . @home@/init/"$_ENVSPEC_MODULES"
fi
unset _ENVSPEC_MODULES
for _ENVSPEC_MODULE in @names@; do
    if ! module is-loaded "$_ENVSPEC_MODULE"; then
        module load "$_ENVSPEC_MODULE"
        if ! module is-loaded "$_ENVSPEC_MODULE"; then
            echo "envspec: module load $_ENVSPEC_MODULE failed" >&2
            return 1
        fi
        _ENVSPEC_MODULES=loaded
    fi
done
