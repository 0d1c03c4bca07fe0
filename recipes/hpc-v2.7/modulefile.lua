-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- hpc-v2.7, targets cu126-ampere, cu128-gh200, cu129-hopper.
--
-- envspec install SPEC --target cu126-ampere --prefix "${ENVSPEC_ENVS:-$HOME/envs}/hpc-v2.7-cu126-ampere"
-- mkdir -p MODULES/hpc-v2.7 && ln -s "$PWD/modulefile.lua" MODULES/hpc-v2.7/cu126-ampere.lua
-- SPEC and MODULES, a folder of MODULEPATH, are yours. The link's name says which target it loads. ENVSPEC_ENVS
-- is the folder of the environments; without it, envs in the home folder.
-- Loading runs no activation script of conda's packages. A program that needs what one sets:
--   . $CONDA_PREFIX/bin/activate
local targets = {
    ["cu126-ampere"] = {
        about = "Python 3.12, CUDA 12.6.", active = "CONDA_PREFIX",
        variables = { { "ENVSPEC_SPEC", "hpc-v2.7" }, { "ENVSPEC_TARGET", "cu126-ampere" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.7.1" }, { "TORCH_CUDA_ARCH_LIST", "8.0" } },
    },
    ["cu128-gh200"] = {
        about = "Python 3.12, CUDA 12.8.", active = "CONDA_PREFIX",
        variables = { { "ENVSPEC_SPEC", "hpc-v2.7" }, { "ENVSPEC_TARGET", "cu128-gh200" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.7.1" }, { "TORCH_CUDA_ARCH_LIST", "9.0" } },
    },
    ["cu129-hopper"] = {
        about = "Python 3.12, CUDA 12.9.", active = "CONDA_PREFIX",
        variables = { { "ENVSPEC_SPEC", "hpc-v2.7" }, { "ENVSPEC_TARGET", "cu129-hopper" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.7.1" }, { "TORCH_CUDA_ARCH_LIST", "9.0" } },
    },
}

local target = myModuleVersion()
local found = targets[target]
local title = "hpc-v2.7" .. "-" .. target
whatis("Name: " .. title)
whatis("Description: Training on clusters with PyTorch 2.7: torch, MPI, OpenSSH and ffmpeg from conda-forge, the rest from PyPI")
if found then
    help("Training on clusters with PyTorch 2.7: torch, MPI, OpenSSH and ffmpeg from conda-forge, the rest from PyPI. " .. found.about)
end

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, title)
if mode() == "load" then
    if not found then
        LmodError("there is no target " .. target .. " of hpc-v2.7: name the file after one of cu126-ampere, cu128-gh200, cu129-hopper")
    end
    if not isFile(pathJoin(prefix, "bin", "python")) then
        LmodError("there is no environment in " .. prefix .. ": install it, or set ENVSPEC_ENVS to its folder")
    end
end

if found then
    -- two environments at once would mix their packages
    family("envspec")
    prepend_path("PATH", pathJoin(prefix, "bin"))
    setenv(found.active, prefix)
    for _, variable in ipairs({ "PYTHONHOME", "PYTHONPATH", "PYTHONPLATLIBDIR", "PYTHONEXECUTABLE", "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONSAFEPATH", "PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONINSPECT" }) do unsetenv(variable) end
    for _, variable in ipairs(found.variables) do
        setenv(variable[1], variable[2])
    end
end
