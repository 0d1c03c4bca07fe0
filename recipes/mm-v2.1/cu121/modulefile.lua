-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- mm-v2.1, target cu121: Python 3.10 on linux-64, CUDA 12.1.
--
-- Install the environment:  envspec install SPEC --target cu121 --prefix $ENVSPEC_ENVS/mm-v2.1-cu121
-- Install this file:        cp modulefile.lua MODULEPATH/mm-v2.1/cu121.lua
-- ENVSPEC_ENVS is the folder of the environments; without it, envs in the home folder.
whatis("Name: mm-v2.1-cu121")
whatis("Description: Reproducing 2023's vision-language work: PyTorch 2.1, transformers 4.30, deepspeed 0.9 and what CLIP needs")
help("Reproducing 2023's vision-language work: PyTorch 2.1, transformers 4.30, deepspeed 0.9 and what CLIP needs. Python 3.10, CUDA 12.1.")

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, "mm-v2.1-cu121")
if mode() == "load" and not isFile(pathJoin(prefix, "bin", "python")) then
    LmodError("there is no environment in " .. prefix .. ": install it, or set ENVSPEC_ENVS to its folder")
end

-- two environments at once would mix their packages
family("envspec")
prepend_path("PATH", pathJoin(prefix, "bin"))
setenv("VIRTUAL_ENV", prefix)
unsetenv("PYTHONHOME")
unsetenv("PYTHONPATH")
setenv("ENVSPEC_SPEC", "mm-v2.1")
setenv("ENVSPEC_TARGET", "cu121")
setenv("PYTHONNOUSERSITE", "1")
setenv("PYTORCH_VERSION", "2.1.0")
setenv("TORCH_CUDA_ARCH_LIST", "7.0;8.0")
