{
  description = "As much of nixpkgs as envspec's flakes use, on the host's own tools: for tests where nixpkgs can't be had";

  outputs =
    { self }:
    let
      inherit (builtins) concatStringsSep head listToAttrs map removeAttrs replaceStrings substring;

      # What the test says of its host: folders with bin/python, bin/uv …, and where indexes are.
      host = {
        tools = "/usr";
        bash = "/bin/bash";
        pypi = "https://pypi.invalid/packages";
        pytorch = "https://pytorch.invalid/whl";
        buildTools = "/usr";
        pythons = [ "3.10" "3.11" "3.12" ];
      } // (if builtins.pathExists ./host.json then builtins.fromJSON (builtins.readFile ./host.json) else { });

      lib = rec {
        fakeSha256 = "0000000000000000000000000000000000000000000000000000000000000000";
        genAttrs = names: give: listToAttrs (map (name: { inherit name; value = give name; }) names);
        hasPrefix = prefix: text: substring 0 (builtins.stringLength prefix) text == prefix;
        makeLibraryPath = packages: concatStringsSep ":" (map (package: "${package}/lib") packages);
        toLower = replaceStrings (letters "ABCDEFGHIJKLMNOPQRSTUVWXYZ") (letters "abcdefghijklmnopqrstuvwxyz");
        letters = text: builtins.genList (at: substring at 1 text) (builtins.stringLength text);
      };

      # Nix kills a builder as soon as nothing has its log open any more. Some kernels let that count although the builder
      # had just ended by itself; so something of another process group has the log open for a moment longer.
      lingering = "\nsetsid sleep 0.3 &\n";

      packagesOf = system: rec {
        inherit lib;

        runCommand = name: arguments: script:
          let
            tools = arguments.nativeBuildInputs or [ ];
            built = derivation (removeAttrs arguments [ "passthru" "meta" "nativeBuildInputs" ] // {
              inherit name system;
              builder = host.bash;
              PATH = concatStringsSep ":" (map (tool: "${tool}/bin") tools ++ [ "/usr/bin" "/bin" ]);
              args = [ "-c" ("set -euo pipefail\n" + script + lingering) ];
            });
          in
          built // (arguments.passthru or { }) // { meta = arguments.meta or { }; };
        runCommandCC = runCommand;
        linkFarm = name: entries: runCommand name { } (''
          mkdir "$out"
        '' + concatStringsSep "" (map (entry: ''
          ln -s ${entry.path} "$out/"'${entry.name}'
        '') entries));
        writeText = builtins.toFile;
        writeShellScript = name: text: runCommand name { inherit text; } ''
          printf '#!%s\n%s\n' ${host.bash} "$text" > "$out" && chmod +x "$out"
        '';
        mkShell = arguments: derivation {
          name = "shell";
          inherit system;
          inherit (arguments) packages shellHook;
          builder = host.bash;
        };

        fetchurl = { name ? baseNameOf (head urls), urls, sha256 }: derivation {
          inherit name;
          url = head urls;
          system = "builtin";
          builder = "builtin:fetchurl";
          outputHash = sha256;
          outputHashAlgo = "sha256";
          outputHashMode = "flat";
          executable = false;
          unpack = false;
        } // { inherit urls; };
        # nixpkgs makes a wheel's URL from these parts, a source archive's from those.
        fetchPypi = { pname, version, sha256, format ? "setuptools", extension ? "tar.gz", dist ? "py2.py3", python ? "py2.py3", abi ? "none", platform ? "any" }:
          fetchurl {
            inherit sha256;
            urls = [
              (if format == "wheel"
              then "${host.pypi}/${dist}/${substring 0 1 pname}/${pname}/${pname}-${version}-${python}-${abi}-${platform}.whl"
              else "${host.pypi}/source/${substring 0 1 pname}/${pname}/${pname}-${version}.${extension}")
            ];
          };
        python3Packages = if host.pytorch == null then { } else { torch-bin.src.urls = [ "${host.pytorch}/cu130/torch-2.10.0%2Bcu130-cp313-cp313-manylinux_2_28_x86_64.whl" ]; };

        stdenv = {
          hostPlatform.system = system;
          cc = { outPath = "/usr"; cc = { outPath = "/usr"; }; bintools.dynamicLinker = host.dynamicLinker or "/lib64/ld-linux-x86-64.so.2"; };
        };
        addDriverRunpath.driverLink = "/run/opengl-driver";
        pythonManylinuxPackages.manylinux2014 = [ ];
        uv = { outPath = host.tools; };
        patchelf = uv;
        git = uv;
        gnumake = uv;
        shellcheck = uv;
      } // listToAttrs (map
        (version: {
          name = "python${replaceStrings [ "." ] [ "" ] version}";
          value = {
            outPath = host.tools;
            sitePackages = "lib/python${version}/site-packages";
            withPackages = _: { outPath = host.buildTools; };
          };
        })
        host.pythons);
    in
    { inherit lib; legacyPackages = lib.genAttrs [ "x86_64-linux" "aarch64-linux" ] packagesOf; };
}
