-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- mm-v2.1, targets cu118, cu121.
--
-- envspec install SPEC --target cu118 --prefix "${ENVSPEC_ENVS:-$HOME/envs}/mm-v2.1-cu118"
-- mkdir -p MODULES/mm-v2.1 && ln -s "$PWD/modulefile.lua" MODULES/mm-v2.1/cu118.lua
-- SPEC and MODULES, a folder of MODULEPATH, are yours. The link's name says which target it loads. ENVSPEC_ENVS
-- is the folder of the environments; without it, envs in the home folder.
local targets = {
    ["cu118"] = {
        about = "Python 3.10, CUDA 11.8.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "mm-v2.1" }, { "ENVSPEC_TARGET", "cu118" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.1.0" }, { "TORCH_CUDA_ARCH_LIST", "7.0;8.0" } },
    },
    ["cu121"] = {
        about = "Python 3.10, CUDA 12.1.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "mm-v2.1" }, { "ENVSPEC_TARGET", "cu121" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.1.0" }, { "TORCH_CUDA_ARCH_LIST", "7.0;8.0" } },
    },
}

local target = myModuleVersion()
local found = targets[target]
local title = "mm-v2.1" .. "-" .. target
whatis("Name: " .. title)
whatis("Description: Reproducing 2023's vision-language work: PyTorch 2.1, transformers 4.30, deepspeed 0.9 and CLIP")
if found then
    help("Reproducing 2023's vision-language work: PyTorch 2.1, transformers 4.30, deepspeed 0.9 and CLIP. " .. found.about)
end

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, title)
if mode() == "load" then
    if not found then
        LmodError("there is no target " .. target .. " of mm-v2.1: name the file after one of cu118, cu121")
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
