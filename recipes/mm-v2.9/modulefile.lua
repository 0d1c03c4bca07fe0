-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- mm-v2.9, targets cpu, cu126-volta, cu128-ampere, cu128-blackwell, cu128-hopper, cu130-hopper.
-- envspec install SPEC --target cpu --prefix "${ENVSPEC_ENVS:-$HOME/envs}/mm-v2.9-cpu"
-- mkdir -p MODULES/mm-v2.9 && ln -s "$PWD/modulefile.lua" MODULES/mm-v2.9/cpu.lua
-- SPEC and MODULES, a folder of MODULEPATH, are yours. The link's name says which target it loads. ENVSPEC_ENVS
-- is the folder of the environments; without it, envs in the home folder.
local targets = {
    ["cpu"] = {
        about = "Python 3.12.", active = "VIRTUAL_ENV",
        variables = {
            { "ENVSPEC_SPEC", "mm-v2.9" }, { "ENVSPEC_TARGET", "cpu" }, { "PYTHONNOUSERSITE", "1" },
            { "PYTORCH_VERSION", "2.9.1" },
        },
    },
    ["cu126-volta"] = {
        about = "Python 3.12, CUDA 12.6.", active = "VIRTUAL_ENV",
        variables = {
            { "ENVSPEC_SPEC", "mm-v2.9" }, { "ENVSPEC_TARGET", "cu126-volta" }, { "PYTHONNOUSERSITE", "1" },
            { "PYTORCH_VERSION", "2.9.1" }, { "TORCH_CUDA_ARCH_LIST", "7.0" },
        },
    },
    ["cu128-ampere"] = {
        about = "Python 3.12, CUDA 12.8.", active = "VIRTUAL_ENV",
        variables = {
            { "ENVSPEC_SPEC", "mm-v2.9" }, { "ENVSPEC_TARGET", "cu128-ampere" }, { "PYTHONNOUSERSITE", "1" },
            { "PYTORCH_VERSION", "2.9.1" }, { "TORCH_CUDA_ARCH_LIST", "8.0" },
        },
    },
    ["cu128-blackwell"] = {
        about = "Python 3.12, CUDA 12.8.", active = "VIRTUAL_ENV",
        variables = {
            { "ENVSPEC_SPEC", "mm-v2.9" }, { "ENVSPEC_TARGET", "cu128-blackwell" }, { "PYTHONNOUSERSITE", "1" },
            { "PYTORCH_VERSION", "2.9.1" }, { "TORCH_CUDA_ARCH_LIST", "10.0;12.0" },
        },
    },
    ["cu128-hopper"] = {
        about = "Python 3.12, CUDA 12.8.", active = "VIRTUAL_ENV",
        variables = {
            { "ENVSPEC_SPEC", "mm-v2.9" }, { "ENVSPEC_TARGET", "cu128-hopper" }, { "PYTHONNOUSERSITE", "1" },
            { "PYTORCH_VERSION", "2.9.1" }, { "TORCH_CUDA_ARCH_LIST", "9.0" },
        },
    },
    ["cu130-hopper"] = {
        about = "Python 3.12, CUDA 13.0.", active = "VIRTUAL_ENV",
        variables = {
            { "ENVSPEC_SPEC", "mm-v2.9" }, { "ENVSPEC_TARGET", "cu130-hopper" }, { "PYTHONNOUSERSITE", "1" },
            { "PYTORCH_VERSION", "2.9.1" }, { "TORCH_CUDA_ARCH_LIST", "9.0" },
        },
    },
}

local target = myModuleVersion()
local found = targets[target]
local title = "mm-v2.9" .. "-" .. target
whatis("Name: " .. title)
whatis("Description: Multimodal training (text, image, video) on PyTorch 2.9: one set of versions " ..
        "from Volta to Blackwell, and for CPUs")
if found then
    help("Multimodal training (text, image, video) on PyTorch 2.9: one set of versions from Volta " ..
        "to Blackwell, and for CPUs. " .. found.about)
end

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, title)
if mode() == "load" then
    if not found then
        LmodError("there is no target " .. target ..
            " of mm-v2.9: name the file after one of cpu, cu126-volta, cu128-ampere, cu128-blackwell, " ..
        "cu128-hopper, cu130-hopper")
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
    for _, variable in ipairs({
            "PYTHONHOME", "PYTHONPATH", "PYTHONPLATLIBDIR", "PYTHONEXECUTABLE", "PYTHONSTARTUP",
            "PYTHONUSERBASE", "PYTHONSAFEPATH", "PYTHONWARNINGS", "PYTHONOPTIMIZE", "PYTHONINSPECT",
        }) do unsetenv(variable) end
    for _, variable in ipairs(found.variables) do
        setenv(variable[1], variable[2])
    end
end
