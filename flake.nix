{
  description = "envspec: one environment for every lock and target in locks/, and envspec itself";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs =
    { self, nixpkgs }:
    let
      inherit (builtins) attrNames concatMap filter fromTOML head listToAttrs map pathExists readDir readFile;
      inherit (nixpkgs.lib) genAttrs;

      systems = [ "x86_64-linux" "aarch64-linux" ];
      names = filter (name: pathExists (./locks + "/${name}/envspec.lock")) (attrNames (readDir ./locks));
      locks = listToAttrs (map (name: { inherit name; value = fromTOML (readFile (./locks + "/${name}/envspec.lock")); }) names);
      indexes = if pathExists ./indexes.nix then import ./indexes.nix else { };
      read = pkgs: indexes: lock: import ./envspec/carried/environment.nix { inherit pkgs lock indexes; };

      # Every target of every lock that is for the system: { name, target, reader, carried }.
      targetsFor = pkgs: indexes:
        concatMap
          (name:
            let reader = read pkgs indexes locks.${name}; in
            map
              (target:
                let
                  recipes = ./recipes + "/${name}";
                  slice = recipes + "/${target}/target.json";
                in
                {
                  inherit target reader;
                  name = "${name}-${target}";
                  carried = if pathExists slice then { carried = ./recipes/_shared; inherit slice; } else { carried = ./locks + "/${name}"; };
                })
              reader.targets)
          names;
      environments = wanted: listToAttrs (map
        ({ name, target, reader, carried }: { inherit name; value = reader.environment ({ inherit target; } // carried); })
        wanted);

      # What develops and runs envspec is one of its own locks.
      inherit (fromTOML (readFile ./pyproject.toml)) build-system project;
      developmentFor = pkgs:
        let reader = read pkgs indexes locks.dev; in
        { inherit reader; target = head (reader.targets ++ [ (throw "locks/dev has no target for ${pkgs.stdenv.hostPlatform.system}") ]); };
      envspecFor = pkgs:
        let
          inherit (developmentFor pkgs) reader target;
          backend = reader.environment { inherit target; only = build-system.requires; name = "hatchling"; };
          wheel = pkgs.runCommand "envspec-wheel" { } ''
            cp -r ${source} source && chmod -R u+w source && cd source
            ${backend}/bin/python -m hatchling build --target wheel --directory "$out"
          '';
        in
        reader.environment {
          inherit target;
          only = project.dependencies ++ concatMap (extra: project.optional-dependencies.${extra}) [ "conda" "sbom" ];
          wheels.envspec = wheel;
          name = "envspec";
        };
      source = builtins.path {
        name = "envspec-source";
        path = ./.;
        filter = path: _: builtins.any (kept: path == toString ./. + kept || nixpkgs.lib.hasPrefix (toString ./. + kept + "/") path)
          [ "/check" "/envspec" "/pyproject.toml" "/README.md" "/LICENSE" ];
      };
      each = give: genAttrs systems (system: give nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs:
        let envspec = envspecFor pkgs; in
        environments (filter ({ target, reader, ... }: reader.problem target == null) (targetsFor pkgs indexes))
        // { inherit envspec; default = envspec; });

      # Targets that can't be built here: whoever asks for one is told why. `nix flake show` and `check` pass them by.
      legacyPackages = each (pkgs:
        environments (filter ({ target, reader, ... }: reader.problem target != null) (targetsFor pkgs indexes)));

      apps = each (pkgs: rec {
        envspec = { type = "app"; program = "${envspecFor pkgs}/bin/envspec"; };
        default = envspec;
      });

      devShells = each (pkgs:
        let inherit (developmentFor pkgs) reader target; in
        {
          default = pkgs.mkShell {
            packages = [ (reader.environment { inherit target; }) pkgs.git pkgs.gnumake pkgs.shellcheck ];
            shellHook = ''
              export PYTHONPATH=$PWD
            '';
          };
        });

      # With indexes of one's own, from another flake: envspec.lib.environments { pkgs = …; indexes.internal = "https://…"; }
      lib.environments = { pkgs, indexes ? { } }: environments (targetsFor pkgs indexes);
    };
}
