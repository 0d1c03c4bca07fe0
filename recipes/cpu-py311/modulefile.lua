-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- cpu-py311, target cpu.
--
-- envspec install SPEC --target cpu --prefix "${ENVSPEC_ENVS:-$HOME/envs}/cpu-py311-cpu"
-- mkdir -p MODULES/cpu-py311 && ln -s "$PWD/modulefile.lua" MODULES/cpu-py311/cpu.lua
-- SPEC and MODULES, a folder of MODULEPATH, are yours. The link's name says which target it loads. ENVSPEC_ENVS
-- is the folder of the environments; without it, envs in the home folder.
local targets = {
    ["cpu"] = {
        about = "Python 3.11.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "cpu-py311" }, { "ENVSPEC_TARGET", "cpu" }, { "PYTHONNOUSERSITE", "1" }, { "PYTORCH_VERSION", "2.13.0" } },
    },
}

local target = myModuleVersion()
local found = targets[target]
local title = "cpu-py311" .. "-" .. target
whatis("Name: " .. title)
whatis("Description: PyTorch for CPUs on Python 3.11: for tests, small machines and proving that a lock installs")
if found then
    help("PyTorch for CPUs on Python 3.11: for tests, small machines and proving that a lock installs. " .. found.about)
end

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, title)
if mode() == "load" then
    if not found then
        LmodError("there is no target " .. target .. " of cpu-py311: name the file after one of cpu")
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
