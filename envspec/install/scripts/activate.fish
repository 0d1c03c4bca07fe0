# For fish:  source @path@
# Written by envspec; it is written again by the next `envspec install`.

functions -q deactivate; and deactivate

@finding@@load@function deactivate -d 'Leave the environment @name@'
    _envspec_run deactivate.d
    for name in @names@
        set -l had _ENVSPEC_HAD_$name
        set -l old _ENVSPEC_OLD_$name
        if set -q $had
            set -gx $name $$old
        else
            set -e $name
        end
        set -e $had
        set -e $old
    end
@unload@    if functions -q _envspec_old_fish_prompt
        functions -e fish_prompt
        functions -c _envspec_old_fish_prompt fish_prompt
        functions -e _envspec_old_fish_prompt
    end
    functions -e _envspec_run _envspec_save
    functions -e deactivate
end

function _envspec_run
    for script in @prefix@/etc/conda/$argv[1]/*.fish
        source $script
    end
end

function _envspec_save
    if set -q $argv[1]
        set -g _ENVSPEC_HAD_$argv[1] x
        set -g _ENVSPEC_OLD_$argv[1] $$argv[1]
    end
    set -gx $argv[1] $argv[2..-1]
end

@save@
if test -z "$VIRTUAL_ENV_DISABLE_PROMPT"; and functions -q fish_prompt
    functions -c fish_prompt _envspec_old_fish_prompt
    function fish_prompt
        set -l status_before $status
        printf '%s' @prompt@
        # the prompt of before sees the status of before
        sh -c "exit $status_before"
        _envspec_old_fish_prompt
    end
end
_envspec_run activate.d
