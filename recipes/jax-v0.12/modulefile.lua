-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- jax-v0.12, targets cpu, cu12-ampere, cu13-blackwell.
--
-- envspec install SPEC --target cpu --prefix "${ENVSPEC_ENVS:-$HOME/envs}/jax-v0.12-cpu"
-- mkdir -p MODULES/jax-v0.12 && ln -s "$PWD/modulefile.lua" MODULES/jax-v0.12/cpu.lua
-- SPEC and MODULES, a folder of MODULEPATH, are yours. The link's name says which target it loads. ENVSPEC_ENVS
-- is the folder of the environments; without it, envs in the home folder.
local targets = {
    ["cpu"] = {
        about = "Python 3.12.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "jax-v0.12" }, { "ENVSPEC_TARGET", "cpu" }, { "PYTHONNOUSERSITE", "1" } },
    },
    ["cu12-ampere"] = {
        about = "Python 3.12, CUDA 12.9.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "jax-v0.12" }, { "ENVSPEC_TARGET", "cu12-ampere" }, { "PYTHONNOUSERSITE", "1" }, { "TORCH_CUDA_ARCH_LIST", "8.0;9.0" } },
    },
    ["cu13-blackwell"] = {
        about = "Python 3.12, CUDA 13.0.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "jax-v0.12" }, { "ENVSPEC_TARGET", "cu13-blackwell" }, { "PYTHONNOUSERSITE", "1" }, { "TORCH_CUDA_ARCH_LIST", "9.0;10.0" } },
    },
}

local target = myModuleVersion()
local found = targets[target]
local title = "jax-v0.12" .. "-" .. target
whatis("Name: " .. title)
whatis("Description: Training with JAX on CUDA 12, on CUDA 13 and on CPUs: Flax, Optax and Orbax")
if found then
    help("Training with JAX on CUDA 12, on CUDA 13 and on CPUs: Flax, Optax and Orbax. " .. found.about)
end

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, title)
if mode() == "load" then
    if not found then
        LmodError("there is no target " .. target .. " of jax-v0.12: name the file after one of cpu, cu12-ampere, cu13-blackwell")
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
