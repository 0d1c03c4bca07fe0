# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# team-v2.9, target cu128-hopper: Python 3.10 on linux-64, CUDA 12.8.
#
# nix build path:.       the environment, as ./result
# nix develop path:.     a shell with it
# nix run path:.#check   the smoke check
{
  description = "A team's shared GPU box on PyTorch 2.9: JupyterLab, code-server and SSH around the language-model stack, without root";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs =
    { self, nixpkgs }:
    let
      system = "x86_64-linux";
      target = "cu128-hopper";
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
        shellHook = "export ENVSPEC_SPEC=team-v2.9\nexport ENVSPEC_TARGET=cu128-hopper\nexport LANG=C.UTF-8\nexport PYTHONNOUSERSITE=1\nexport PYTORCH_VERSION=2.9.1\nexport TORCH_CUDA_ARCH_LIST=9.0\nif [ -e /run/opengl-driver/lib/libcuda.so.1 ]; then export TRITON_LIBCUDA_PATH=/run/opengl-driver/lib; fi\n";
      };

      apps.${system}.check = {
        type = "app";
        program = "${pkgs.writeShellScript "check" ''
          # torch.compile compiles while it runs
          PATH=${pkgs.stdenv.cc}/bin:$PATH
          if [ -e /run/opengl-driver/lib/libcuda.so.1 ]; then export TRITON_LIBCUDA_PATH=/run/opengl-driver/lib; fi
          cd ${./envspec}
          exec ${environment}/bin/python check.py \
            --lock envspec.lock --config target.json --target ${target} "$@"
        ''}";
      };

      # for other flakes: an environment with their own nixpkgs, indexes and libraries
      lib.environment = environmentFrom;
    };
}
