-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- cpu-py311, target cpu: Python 3.11 on linux-64.
--
-- Install the environment:  envspec install SPEC --target cpu --prefix $ENVSPEC_ENVS/cpu-py311-cpu
-- Install this file:        cp modulefile.lua MODULEPATH/cpu-py311/cpu.lua
-- ENVSPEC_ENVS is the folder of the environments; without it, envs in the home folder.
whatis("Name: cpu-py311-cpu")
whatis("Description: PyTorch for CPUs on Python 3.11: for tests, small machines and proving that a lock installs")
help("PyTorch for CPUs on Python 3.11: for tests, small machines and proving that a lock installs. Python 3.11.")

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, "cpu-py311-cpu")
if mode() == "load" and not isFile(pathJoin(prefix, "bin", "python")) then
    LmodError("there is no environment in " .. prefix .. ": install it, or set ENVSPEC_ENVS to its folder")
end

-- two environments at once would mix their packages
family("envspec")
prepend_path("PATH", pathJoin(prefix, "bin"))
setenv("VIRTUAL_ENV", prefix)
unsetenv("PYTHONHOME")
unsetenv("PYTHONPATH")
setenv("ENVSPEC_SPEC", "cpu-py311")
setenv("ENVSPEC_TARGET", "cpu")
setenv("PYTHONNOUSERSITE", "1")
setenv("PYTORCH_VERSION", "2.13.0")
