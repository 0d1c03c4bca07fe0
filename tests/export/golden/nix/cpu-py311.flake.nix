# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# cpu-py311, target cpu.
# In the repository's own folder, once git knows these files:
# nix build './recipes/cpu-py311#cpu'       # an environment, as ./result
# nix develop './recipes/cpu-py311#cpu'     # a shell with it
# nix run './recipes/cpu-py311#cpu-check'   # the smoke check
# Python 3.11 is that of nixpkgs, not the build that the lock names.
{
  description = "PyTorch for CPUs on Python 3.11: for tests, small machines and proving that a lock installs";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs =
    { self, nixpkgs }:
    let
      # What a shell of each target sets.
      variables = {
        "x86_64-linux" = {
          "cpu" = "unset PYTHONPATH\nexport ENVSPEC_SPEC=cpu-py311\nexport ENVSPEC_TARGET=cpu\nexport LANG=C.UTF-8\nexport PYTHONNOUSERSITE=1\nexport PYTORCH_VERSION=X.Y.Z\n";
        };
      };

      indexes = if builtins.pathExists ./indexes.nix then import ./indexes.nix else { };
      environmentFrom = { pkgs, target, indexes ? { }, libraries ? [ ] }:
        let
          file = ./. + "/${target}/target.json";
          own =
            if builtins.pathExists file then builtins.fromJSON (builtins.readFile file)
            else throw "there is no target ${target} here";
          # what stands behind each package that is installed
          rowsIn = path: map builtins.fromJSON (builtins.filter
            (text: builtins.isString text && builtins.substring 0 1 text == "{")
            (builtins.split "  # |\n" (builtins.readFile (./. + "/${path}"))));
          rows = builtins.sort (one: other: one.name < other.name) (builtins.concatMap rowsIn own.parts.pip);
          lock = own.lock // { pip = rows; };
          slice = pkgs.writeText "target.json" (builtins.toJSON (own // { inherit lock; parts = [ ]; }));
        in
        (import ./../_shared/environment.nix { inherit pkgs lock indexes; }).environment {
          inherit target libraries slice;
          carried = ./../_shared;
        };

      # For each system: a name and a value for each target, and `default` where there is one target.
      each = give: builtins.mapAttrs
        (system: targets:
          let
            pkgs = nixpkgs.legacyPackages.${system};
            environment = target: environmentFrom { inherit pkgs target indexes; };
            all = builtins.attrValues (builtins.mapAttrs
              (target: hook: give { inherit pkgs target hook; environment = environment target; })
              targets);
            only = if builtins.length all == 1 then map (one: one // { name = one.short; }) all else [ ];
          in
          builtins.listToAttrs (all ++ only))
        variables;
    in
    {
      packages = each ({ target, environment, ... }: { name = target; short = "default"; value = environment; });

      devShells = each ({ pkgs, target, hook, environment }: {
        name = target;
        short = "default";
        value = pkgs.mkShell {
          packages = [ environment ];
          shellHook = hook;
        };
      });

      apps = each ({ pkgs, target, environment, ... }: {
        name = "${target}-check";
        short = "check";
        value = {
          type = "app";
          program = "${pkgs.writeShellScript "check" ''
            # torch.compile compiles while it runs
            PATH=${pkgs.stdenv.cc}/bin:$PATH
            carried=${environment}/share/envspec
            exec ${environment}/bin/python -I "$carried/check" --config "$carried/target.json" "$@"
          ''}";
        };
      });

      # for other flakes: an environment with their own nixpkgs, indexes and libraries
      lib.environment = environmentFrom;
    };
}
