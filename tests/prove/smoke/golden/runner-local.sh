# the files for the checks of demo-cu128-hopper
# writes /results/carried/demo-cu128-hopper/check/__main__.py (15 bytes)
# writes /results/carried/demo-cu128-hopper/target.json (3 bytes)
# the folder of the run
mkdir -p /results/runs/demo-cu128-hopper
# the environment of demo-cu128-hopper
python3 -m envspec install specs/demo.toml --locks-dir locks --target cu128-hopper --prefix /cache/smoke/environments/demo-cu128-hopper-0123456789abcdef
# the checks of demo-cu128-hopper
env -u PYTHONHOME -u PYTHONPATH -u PYTHONPLATLIBDIR -u PYTHONEXECUTABLE -u PYTHONSTARTUP -u PYTHONUSERBASE -u PYTHONSAFEPATH -u PYTHONWARNINGS -u PYTHONOPTIMIZE -u PYTHONINSPECT -u VIRTUAL_ENV -u CONDA_PREFIX -u CONDA_DEFAULT_ENV -u CONDA_SHLVL PYTHONNOUSERSITE=1 bash -c '. "$0/bin/activate" && exec "$0/bin/python" "$@"' /cache/smoke/environments/demo-cu128-hopper-0123456789abcdef -I /results/carried/demo-cu128-hopper/check --config /results/carried/demo-cu128-hopper/target.json --device auto --json /results/runs/demo-cu128-hopper/check.json
