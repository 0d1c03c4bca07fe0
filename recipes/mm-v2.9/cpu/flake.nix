# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# mm-v2.9, target cpu: Python 3.12 on linux-64.
#
# nix build path:.       the environment, as ./result
# nix develop path:.     a shell with it
# nix run path:.#check   the smoke check
{
  description = "Multimodal training (text, image, video) on PyTorch 2.9: one set of versions from Volta to Blackwell, and for CPUs";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs =
    { self, nixpkgs }:
    let
      system = "x86_64-linux";
      target = "cpu";
      pkgs = nixpkgs.legacyPackages.${system};
      lock = builtins.fromTOML (builtins.readFile ./envspec/envspec.lock);
      environmentFrom = { pkgs, indexes ? { }, libraries ? [ ] }:
        (import ./environment.nix { inherit pkgs lock indexes; }).environment {
          inherit target libraries;
          carried = ./envspec;
        };
      environment = environmentFrom {
        inherit pkgs;
        indexes = if builtins.pathExists ./indexes.nix then import ./indexes.nix else { };
      };
    in
    {
      packages.${system}.default = environment;

      devShells.${system}.default = pkgs.mkShell {
        packages = [ environment ];
        shellHook = "export ENVSPEC_SPEC=mm-v2.9\nexport ENVSPEC_TARGET=cpu\nexport LANG=C.UTF-8\nexport PYTHONNOUSERSITE=1\nexport PYTORCH_VERSION=2.9.1\n";
      };

      apps.${system}.check = {
        type = "app";
        program = "${pkgs.writeShellScript "check" ''
          # torch.compile compiles while it runs
          PATH=${pkgs.stdenv.cc}/bin:$PATH
          cd ${./envspec}
          exec ${environment}/bin/python check.py \
            --lock envspec.lock --config target.json --target ${target} "$@"
        ''}";
      };

      # for other flakes: an environment with their own nixpkgs, indexes and libraries
      lib.environment = environmentFrom;
    };
}
