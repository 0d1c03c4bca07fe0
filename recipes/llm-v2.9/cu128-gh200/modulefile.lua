-- Exported by envspec. Not for editing: change the spec, then run `envspec export`.
-- llm-v2.9, target cu128-gh200: Python 3.10 on linux-aarch64, CUDA 12.8.
--
-- Install the environment:  envspec install SPEC --target cu128-gh200 --prefix $ENVSPEC_ENVS/llm-v2.9-cu128-gh200
-- Install this file:        cp modulefile.lua MODULEPATH/llm-v2.9/cu128-gh200.lua
-- ENVSPEC_ENVS is the folder of the environments; without it, envs in the home folder.
whatis("Name: llm-v2.9-cu128-gh200")
whatis("Description: Fine-tuning language models on PyTorch 2.9: transformers, peft, accelerate, datasets, and a notebook to look at the results")
help("Fine-tuning language models on PyTorch 2.9: transformers, peft, accelerate, datasets, and a notebook to look at the results. Python 3.10, CUDA 12.8.")

local envs = os.getenv("ENVSPEC_ENVS") or pathJoin(os.getenv("HOME"), "envs")
local prefix = pathJoin(envs, "llm-v2.9-cu128-gh200")
if mode() == "load" and not isFile(pathJoin(prefix, "bin", "python")) then
    LmodError("there is no environment in " .. prefix .. ": install it, or set ENVSPEC_ENVS to its folder")
end

-- two environments at once would mix their packages
family("envspec")
prepend_path("PATH", pathJoin(prefix, "bin"))
setenv("VIRTUAL_ENV", prefix)
unsetenv("PYTHONHOME")
unsetenv("PYTHONPATH")
setenv("ENVSPEC_SPEC", "llm-v2.9")
setenv("ENVSPEC_TARGET", "cu128-gh200")
setenv("PYTHONNOUSERSITE", "1")
setenv("PYTORCH_VERSION", "2.9.1")
setenv("TORCH_CUDA_ARCH_LIST", "9.0")
