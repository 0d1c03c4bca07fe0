-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- deit-v2.6, target cu124: Python 3.11 on linux-64, CUDA 12.4.
--
-- Install the environment:  envspec install SPEC --target cu124 --prefix $ENVSPEC_ENVS/deit-v2.6-cu124
-- Install this file:        cp modulefile.lua MODULEPATH/deit-v2.6/cu124.lua
-- ENVSPEC_ENVS is the folder of the environments; without it, envs in the home folder.
whatis("Name: deit-v2.6-cu124")
whatis("Description: Training vision transformers with distillation on PyTorch 2.6 and timm, on cards up to Hopper")
help("Training vision transformers with distillation on PyTorch 2.6 and timm, on cards up to Hopper. Python 3.11, CUDA 12.4.")

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, "deit-v2.6-cu124")
if mode() == "load" and not isFile(pathJoin(prefix, "bin", "python")) then
    LmodError("there is no environment in " .. prefix .. ": install it, or set ENVSPEC_ENVS to its folder")
end

-- two environments at once would mix their packages
family("envspec")
prepend_path("PATH", pathJoin(prefix, "bin"))
setenv("VIRTUAL_ENV", prefix)
unsetenv("PYTHONHOME")
unsetenv("PYTHONPATH")
setenv("ENVSPEC_SPEC", "deit-v2.6")
setenv("ENVSPEC_TARGET", "cu124")
setenv("PYTHONNOUSERSITE", "1")
setenv("PYTORCH_VERSION", "2.6.0")
setenv("TORCH_CUDA_ARCH_LIST", "7.0;8.0;9.0")
