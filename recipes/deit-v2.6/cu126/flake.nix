# Exported by envspec. Not for editing: change the spec, then run `envspec export`.
# deit-v2.6, target cu126: Python 3.11 on linux-64, CUDA 12.6.
#
# nix build path:.       the environment, as ./result
# nix develop path:.     a shell with it
# nix run path:.#check   the smoke check
{
  description = "Training vision transformers with distillation on PyTorch 2.6 and timm, on cards up to Hopper";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs =
    { self, nixpkgs }:
    let
      system = "x86_64-linux";
      target = "cu126";
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
        shellHook = "export ENVSPEC_SPEC=deit-v2.6\nexport ENVSPEC_TARGET=cu126\nexport LANG=C.UTF-8\nexport PYTHONNOUSERSITE=1\nexport PYTORCH_VERSION=2.6.0\nexport TORCH_CUDA_ARCH_LIST='8.0;9.0'\nif [ -e /run/opengl-driver/lib/libcuda.so.1 ]; then export TRITON_LIBCUDA_PATH=/run/opengl-driver/lib; fi\n";
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
