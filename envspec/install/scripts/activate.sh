# For bash and zsh:  . @path@
# Written by envspec; it is written again by the next `envspec install`.

# Leave the environment that is active. A program of that name, which some have in PATH, isn't meant.
case "$(command -V deactivate 2>/dev/null)" in
    *function*) deactivate nondestructive ;;
esac

@finding@@load@deactivate () {
    _envspec_run deactivate.d
    local name
    for name in @names@; do _envspec_restore "$name"; done
@unload@    if [ -n "${_ENVSPEC_OLD_PS1+x}" ]; then PS1="$_ENVSPEC_OLD_PS1"; unset _ENVSPEC_OLD_PS1; fi
    if [ "${1:-}" != nondestructive ]; then
        unset -f deactivate _envspec_run _envspec_save _envspec_restore
@forgetting@    fi
    hash -r 2>/dev/null || true
}

_envspec_run () {
    if [ -n "${ZSH_VERSION:-}" ]; then setopt localoptions nonomatch; fi
    local script
    for script in @prefix@/etc/conda/"$1"/*.sh; do
        if [ -f "$script" ]; then . "$script"; fi
    done
}

# $1 becomes $2; what it was stays in _ENVSPEC_OLD_$1, and whether it was anything in _ENVSPEC_HAD_$1
_envspec_save () {
    eval "_ENVSPEC_HAD_$1=\${$1+x}; _ENVSPEC_OLD_$1=\${$1-}; $1=\$2; export $1"
}

_envspec_restore () {
    eval "if [ \${_ENVSPEC_HAD_$1:-n} = x ]; then $1=\$_ENVSPEC_OLD_$1; export $1; else unset $1; fi"
    unset "_ENVSPEC_HAD_$1" "_ENVSPEC_OLD_$1"
}

@save@
if [ -z "${VIRTUAL_ENV_DISABLE_PROMPT:-}" ] && [ -n "${PS1:-}" ]; then
    _ENVSPEC_OLD_PS1="$PS1"
    PS1=@prompt@"$PS1"
fi
_envspec_run activate.d
hash -r 2>/dev/null || true
