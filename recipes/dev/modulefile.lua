-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- dev, targets py311-linux-64, py311-linux-aarch64.
--
-- Install an environment:  envspec install SPEC --target py311-linux-64 --prefix $ENVSPEC_ENVS/dev-py311-linux-64
-- Link this file:          ln -s $PWD/modulefile.lua MODULEPATH/dev/py311-linux-64.lua
-- The link's name says which target it loads. ENVSPEC_ENVS is the folder of the environments; without it, envs in
-- the home folder.
local targets = {
    ["py311-linux-64"] = {
        about = "Python 3.11.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "dev" }, { "ENVSPEC_TARGET", "py311-linux-64" }, { "PYTHONNOUSERSITE", "1" } },
    },
    ["py311-linux-aarch64"] = {
        about = "Python 3.11.", active = "VIRTUAL_ENV",
        variables = { { "ENVSPEC_SPEC", "dev" }, { "ENVSPEC_TARGET", "py311-linux-aarch64" }, { "PYTHONNOUSERSITE", "1" } },
    },
}

local target = myModuleVersion()
local found = targets[target]
local title = "dev" .. "-" .. target
whatis("Name: " .. title)
whatis("Description: What envspec is developed and tested with")
if found then
    help("What envspec is developed and tested with. " .. found.about)
end

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, title)
if mode() == "load" then
    if not found then
        LmodError("there is no target " .. target .. " of dev: name the file after one of py311-linux-64, py311-linux-aarch64")
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
    unsetenv("PYTHONHOME")
    unsetenv("PYTHONPATH")
    for _, variable in ipairs(found.variables) do
        setenv(variable[1], variable[2])
    end
end
