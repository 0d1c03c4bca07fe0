-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- team-v2.9, targets cpu, cu128-ada, cu128-ampere, cu128-hopper.
--
-- envspec install SPEC --target cpu --prefix "${ENVSPEC_ENVS:-$HOME/envs}/team-v2.9-cpu"
-- mkdir -p MODULES/team-v2.9 && ln -s "$PWD/modulefile.lua" MODULES/team-v2.9/cpu.lua
-- SPEC and MODULES, a folder of MODULEPATH, are yours. The link's name says which target it loads. ENVSPEC_ENVS
-- is the folder of the environments; without it, envs in the home folder.
local targets = {
    ["cpu"] = {
        about = "Python 3.10.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "team-v2.9" }, { "ENVSPEC_TARGET", "cpu" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.9.1" } },
    },
    ["cu128-ada"] = {
        about = "Python 3.10, CUDA 12.8.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "team-v2.9" }, { "ENVSPEC_TARGET", "cu128-ada" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.9.1" }, { "TORCH_CUDA_ARCH_LIST", "8.9" } },
    },
    ["cu128-ampere"] = {
        about = "Python 3.10, CUDA 12.8.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "team-v2.9" }, { "ENVSPEC_TARGET", "cu128-ampere" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.9.1" }, { "TORCH_CUDA_ARCH_LIST", "8.0" } },
    },
    ["cu128-hopper"] = {
        about = "Python 3.10, CUDA 12.8.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "team-v2.9" }, { "ENVSPEC_TARGET", "cu128-hopper" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.9.1" }, { "TORCH_CUDA_ARCH_LIST", "9.0" } },
    },
}

local target = myModuleVersion()
local found = targets[target]
local title = "team-v2.9" .. "-" .. target
whatis("Name: " .. title)
whatis("Description: A team's shared GPU box on PyTorch 2.9: JupyterLab, TensorBoard, code-server and SSH around the language-model stack, without root")
if found then
    help("A team's shared GPU box on PyTorch 2.9: JupyterLab, TensorBoard, code-server and SSH around the language-model stack, without root. " .. found.about)
end

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, title)
if mode() == "load" then
    if not found then
        LmodError("there is no target " .. target .. " of team-v2.9: name the file after one of cpu, cu128-ada, cu128-ampere, cu128-hopper")
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
