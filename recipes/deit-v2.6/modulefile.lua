-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- deit-v2.6, targets cu124, cu124-rtx3090, cu126.
--
-- envspec install SPEC --target cu124 --prefix "${ENVSPEC_ENVS:-$HOME/envs}/deit-v2.6-cu124"
-- mkdir -p MODULES/deit-v2.6 && ln -s "$PWD/modulefile.lua" MODULES/deit-v2.6/cu124.lua
-- SPEC and MODULES, a folder of MODULEPATH, are yours. The link's name says which target it loads. ENVSPEC_ENVS
-- is the folder of the environments; without it, envs in the home folder.
local targets = {
    ["cu124"] = {
        about = "Python 3.11, CUDA 12.4.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "deit-v2.6" }, { "ENVSPEC_TARGET", "cu124" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.6.0" }, { "TORCH_CUDA_ARCH_LIST", "7.0;8.0;9.0" } },
    },
    ["cu124-rtx3090"] = {
        about = "Python 3.11, CUDA 12.4.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "deit-v2.6" }, { "ENVSPEC_TARGET", "cu124-rtx3090" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.6.0" }, { "TORCH_CUDA_ARCH_LIST", "8.6" } },
    },
    ["cu126"] = {
        about = "Python 3.11, CUDA 12.6.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "deit-v2.6" }, { "ENVSPEC_TARGET", "cu126" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.6.0" }, { "TORCH_CUDA_ARCH_LIST", "8.0;9.0" } },
    },
}

local target = myModuleVersion()
local found = targets[target]
local title = "deit-v2.6" .. "-" .. target
whatis("Name: " .. title)
whatis("Description: Training vision transformers with distillation on PyTorch 2.6 and timm, on cards up to Hopper")
if found then
    help("Training vision transformers with distillation on PyTorch 2.6 and timm, on cards up to Hopper. " .. found.about)
end

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, title)
if mode() == "load" then
    if not found then
        LmodError("there is no target " .. target .. " of deit-v2.6: name the file after one of cu124, cu124-rtx3090, cu126")
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
