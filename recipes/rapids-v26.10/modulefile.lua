-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- rapids-v26.10, target cu13-hopper.
--
-- envspec install SPEC --target cu13-hopper --prefix "${ENVSPEC_ENVS:-$HOME/envs}/rapids-v26.10-cu13-hopper"
-- mkdir -p MODULES/rapids-v26.10 && ln -s "$PWD/modulefile.lua" MODULES/rapids-v26.10/cu13-hopper.lua
-- SPEC and MODULES, a folder of MODULEPATH, are yours. The link's name says which target it loads. ENVSPEC_ENVS
-- is the folder of the environments; without it, envs in the home folder.
local targets = {
    ["cu13-hopper"] = {
        about = "Python 3.12, CUDA 13.0.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "rapids-v26.10" }, { "ENVSPEC_TARGET", "cu13-hopper" }, { "PYTHONNOUSERSITE", "1" }, { "TORCH_CUDA_ARCH_LIST", "8.0;9.0" } },
    },
}

local target = myModuleVersion()
local found = targets[target]
local title = "rapids-v26.10" .. "-" .. target
whatis("Name: " .. title)
whatis("Description: RAPIDS on CUDA 13: cuDF, cuML and cuGraph, with CuPy")
if found then
    help("RAPIDS on CUDA 13: cuDF, cuML and cuGraph, with CuPy. " .. found.about)
end

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, title)
if mode() == "load" then
    if not found then
        LmodError("there is no target " .. target .. " of rapids-v26.10: name the file after one of cu13-hopper")
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
