-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- hpc-v2.7, target cu129-hopper: Python 3.12 on linux-64, CUDA 12.9.
--
-- Install the environment:  envspec install SPEC --target cu129-hopper --prefix $ENVSPEC_ENVS/hpc-v2.7-cu129-hopper
-- Install this file:        cp modulefile.lua MODULEPATH/hpc-v2.7/cu129-hopper.lua
-- ENVSPEC_ENVS is the folder of the environments; without it, envs in the home folder.
-- Loading runs no activation script of conda's packages. A program that needs what one sets:
--   . $CONDA_PREFIX/bin/activate
whatis("Name: hpc-v2.7-cu129-hopper")
whatis("Description: Training on clusters with PyTorch 2.7: torch, MPI, OpenSSH and ffmpeg from conda-forge, the rest from PyPI")
help("Training on clusters with PyTorch 2.7: torch, MPI, OpenSSH and ffmpeg from conda-forge, the rest from PyPI. Python 3.12, CUDA 12.9.")

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, "hpc-v2.7-cu129-hopper")
if mode() == "load" and not isFile(pathJoin(prefix, "bin", "python")) then
    LmodError("there is no environment in " .. prefix .. ": install it, or set ENVSPEC_ENVS to its folder")
end

-- two environments at once would mix their packages
family("envspec")
prepend_path("PATH", pathJoin(prefix, "bin"))
setenv("CONDA_PREFIX", prefix)
unsetenv("PYTHONHOME")
unsetenv("PYTHONPATH")
setenv("ENVSPEC_SPEC", "hpc-v2.7")
setenv("ENVSPEC_TARGET", "cu129-hopper")
setenv("PYTHONNOUSERSITE", "1")
setenv("PYTORCH_VERSION", "2.7.1")
setenv("TORCH_CUDA_ARCH_LIST", "9.0")
