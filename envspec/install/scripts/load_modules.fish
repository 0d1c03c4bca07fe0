if not functions -q module
    set -q MODULEPATH; or set -gx MODULEPATH @path@
    source @home@/init/fish
end
set -e _ENVSPEC_MODULES
for module in @names@
    if not module is-loaded $module
        module load $module
        if not module is-loaded $module
            echo "envspec: module load $module failed" >&2
            return 1
        end
        set -g _ENVSPEC_MODULES loaded
    end
end
