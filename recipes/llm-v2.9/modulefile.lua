-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- llm-v2.9, targets cu128-ampere, cu128-gh200, cu128-hopper.
--
-- envspec install SPEC --target cu128-ampere --prefix "${ENVSPEC_ENVS:-$HOME/envs}/llm-v2.9-cu128-ampere"
-- mkdir -p MODULES/llm-v2.9 && ln -s "$PWD/modulefile.lua" MODULES/llm-v2.9/cu128-ampere.lua
-- SPEC and MODULES, a folder of MODULEPATH, are yours. The link's name says which target it loads. ENVSPEC_ENVS
-- is the folder of the environments; without it, envs in the home folder.
local targets = {
    ["cu128-ampere"] = {
        about = "Python 3.10, CUDA 12.8.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "llm-v2.9" }, { "ENVSPEC_TARGET", "cu128-ampere" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.9.1" }, { "TORCH_CUDA_ARCH_LIST", "8.0" } },
    },
    ["cu128-gh200"] = {
        about = "Python 3.10, CUDA 12.8.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "llm-v2.9" }, { "ENVSPEC_TARGET", "cu128-gh200" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.9.1" }, { "TORCH_CUDA_ARCH_LIST", "9.0" } },
    },
    ["cu128-hopper"] = {
        about = "Python 3.10, CUDA 12.8.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "llm-v2.9" }, { "ENVSPEC_TARGET", "cu128-hopper" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.9.1" }, { "TORCH_CUDA_ARCH_LIST", "9.0" } },
    },
}

local target = myModuleVersion()
local found = targets[target]
local title = "llm-v2.9" .. "-" .. target
whatis("Name: " .. title)
whatis("Description: Fine-tuning language models on PyTorch 2.9: transformers, peft, accelerate, datasets, and a notebook to look at the results")
if found then
    help("Fine-tuning language models on PyTorch 2.9: transformers, peft, accelerate, datasets, and a notebook to look at the results. " .. found.about)
end

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, title)
if mode() == "load" then
    if not found then
        LmodError("there is no target " .. target .. " of llm-v2.9: name the file after one of cu128-ampere, cu128-gh200, cu128-hopper")
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
