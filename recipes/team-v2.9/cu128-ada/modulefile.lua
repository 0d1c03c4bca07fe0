-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- team-v2.9, target cu128-ada: Python 3.10 on linux-64, CUDA 12.8.
--
-- Install the environment:  envspec install SPEC --target cu128-ada --prefix $ENVSPEC_ENVS/team-v2.9-cu128-ada
-- Install this file:        cp modulefile.lua MODULEPATH/team-v2.9/cu128-ada.lua
-- ENVSPEC_ENVS is the folder of the environments; without it, envs in the home folder.
whatis("Name: team-v2.9-cu128-ada")
whatis("Description: A team's shared GPU box on PyTorch 2.9: JupyterLab, code-server and SSH around the language-model stack, without root")
help("A team's shared GPU box on PyTorch 2.9: JupyterLab, code-server and SSH around the language-model stack, without root. Python 3.10, CUDA 12.8.")

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, "team-v2.9-cu128-ada")
if mode() == "load" and not isFile(pathJoin(prefix, "bin", "python")) then
    LmodError("there is no environment in " .. prefix .. ": install it, or set ENVSPEC_ENVS to its folder")
end

-- two environments at once would mix their packages
family("envspec")
prepend_path("PATH", pathJoin(prefix, "bin"))
setenv("VIRTUAL_ENV", prefix)
unsetenv("PYTHONHOME")
unsetenv("PYTHONPATH")
setenv("ENVSPEC_SPEC", "team-v2.9")
setenv("ENVSPEC_TARGET", "cu128-ada")
setenv("PYTHONNOUSERSITE", "1")
setenv("PYTORCH_VERSION", "2.9.1")
setenv("TORCH_CUDA_ARCH_LIST", "8.9")
