-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- mm-v2.9, target cu128-hopper: Python 3.12 on linux-64, CUDA 12.8.
--
-- Install the environment:  envspec install SPEC --target cu128-hopper --prefix $ENVSPEC_ENVS/mm-v2.9-cu128-hopper
-- Install this file:        cp modulefile.lua MODULEPATH/mm-v2.9/cu128-hopper.lua
-- ENVSPEC_ENVS is the folder of the environments; without it, envs in the home folder.
whatis("Name: mm-v2.9-cu128-hopper")
whatis("Description: Multimodal training (text, image, video) on PyTorch 2.9: one set of versions from Volta to Blackwell, and for CPUs")
help("Multimodal training (text, image, video) on PyTorch 2.9: one set of versions from Volta to Blackwell, and for CPUs. Python 3.12, CUDA 12.8.")

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, "mm-v2.9-cu128-hopper")
if mode() == "load" and not isFile(pathJoin(prefix, "bin", "python")) then
    LmodError("there is no environment in " .. prefix .. ": install it, or set ENVSPEC_ENVS to its folder")
end

-- two environments at once would mix their packages
family("envspec")
prepend_path("PATH", pathJoin(prefix, "bin"))
setenv("VIRTUAL_ENV", prefix)
unsetenv("PYTHONHOME")
unsetenv("PYTHONPATH")
setenv("ENVSPEC_SPEC", "mm-v2.9")
setenv("ENVSPEC_TARGET", "cu128-hopper")
setenv("PYTHONNOUSERSITE", "1")
setenv("PYTORCH_VERSION", "2.9.1")
setenv("TORCH_CUDA_ARCH_LIST", "9.0")
