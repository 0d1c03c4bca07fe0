# Environments out of an envspec.lock: one derivation a target. The repository's flake.nix and every flake that
# `envspec export --format nix` writes import this very file.
#
#   pkgs       nixpkgs for the system that the environment is for
#   lock       what builtins.fromTOML made of envspec.lock, or builtins.fromJSON of the `lock` in a target.json
#   indexes    where indexes are: name -> a URL or a path below which the files lie flat, or a function
#              { name, version, index, file, sha256 } -> URL. "pytorch" stands for all of "pytorch/cu128",
#              "pytorch/cpu" …
#
# Nothing of nixpkgs' own CUDA or Python packages gets in: the files that the lock pins, each by its hash, and around
# them nixpkgs' Python, C++ runtime and the libraries that manylinux wheels may expect of a system.
{ pkgs, lock, indexes ? { } }:
let
  inherit (builtins) attrNames concatStringsSep dirOf elem elemAt filter foldl' fromTOML genericClosure genList head
    isFunction isPath isString listToAttrs map match readFile replaceStrings split toString tryEval;

  system = pkgs.stdenv.hostPlatform.system;
  subdirs = { "linux-64" = "x86_64-linux"; "linux-aarch64" = "aarch64-linux"; };

  checked =
    if lock.lock-version == 5 && !(lock ? base) then lock
    else throw "envspec.lock has lock-version ${toString lock.lock-version}${if lock ? base then " and a base" else ""}; this environment.nix reads 5, without a base: export it anew with a newer envspec";
  targetOf = name: checked.targets.${name} or (throw "the lock of ${checked.env.name} has no target ${name}");
  title = name: "${checked.env.name}, target ${name}";

  # What the lock has of one target. A package or an artifact without `targets` is every target's.
  has = target: value: elem target (value.targets or [ target ]);
  pins = target: filter (has target) (checked.pip or [ ]);
  condaPins = target: filter (has target) (checked.conda or [ ]);
  artifactOf = target: pin:
    let found = filter (has target) (pin.artifacts or [ ]); in if found == [ ] then null else head found;
  # A variant's wheel under the name of a plain one, which every installer takes: the lock has chosen already.
  plainly = artifact:
    if artifact ? variant then replaceStrings [ "-${artifact.variant}.whl" ] [ ".whl" ] artifact.file
    else artifact.file;
  requirementsOf = target: pin:
    map (line: line.requires or line) (filter (line: isString line || has target line) (pin.dependencies or [ ]));

  overwrittenBy = target: pin:
    map (one: one.package or one) (filter (one: isString one || has target one) (pin.overwrites or [ ]));

  greater = one: other: if one > other then one else other;

  # The package that a requirement names, normalised as in PEP 503.
  nameOf = requirement:
    let name = match "[[:space:]]*([A-Za-z0-9]+([-_.]+[A-Za-z0-9]+)*).*" requirement;
    in concatStringsSep "-"
      (filter (part: isString part && part != "") (split "[-_.]+" (pkgs.lib.toLower (head name))));

  # Pins that the requirements reach.
  reached = target: requirements:
    let
      all = listToAttrs (map (pin: { name = pin.name; value = pin; }) (pins target));
      nodes = requirements: map (key: { inherit key; }) (filter (name: all ? ${name}) (map nameOf requirements));
      closure = genericClosure {
        startSet = nodes requirements;
        operator = node: nodes (requirementsOf target all.${node.key});
      };
    in map (node: all.${node.key}) closure;

  # --- Files ---------------------------------------------------------------------------------------------------------

  unique = texts: attrNames (listToAttrs (map (name: { inherit name; value = null; }) texts));

  # What names in the store may not have.
  safe = text: concatStringsSep "-" (filter (part: isString part && part != "") (split "[^A-Za-z0-9+._?=-]+" text));
  quoted = replaceStrings [ "%" "+" "!" " " "#" "?" ] [ "%25" "%2B" "%21" "%20" "%23" "%3F" ];
  isWheel = file: match ".*\\.whl" file != null;

  # A wheel's name as PEP 427 has it: name-version(-build)-python-abi-platform.whl. A build tag goes with the version.
  pypi = { file, ... }:
    let
      wheel = match "([^-]+)-(.+)-([^-]+)-([^-]+)-([^-]+)\\.whl" file;
      source = match "(.+)-([^-]+)\\.(tar\\.[a-z0-9]+|tgz|zip)" file;
    in
    (pkgs.fetchPypi (
      if wheel != null then {
        pname = elemAt wheel 0; version = elemAt wheel 1; format = "wheel"; dist = elemAt wheel 2;
        python = elemAt wheel 2; abi = elemAt wheel 3; platform = elemAt wheel 4; sha256 = pkgs.lib.fakeSha256;
      }
      else if source != null then
        {
          pname = elemAt source 0; version = elemAt source 1; extension = elemAt source 2;
          sha256 = pkgs.lib.fakeSha256;
        }
      else throw "${file} is neither a wheel nor a source archive"
    )).urls;

  # nixpkgs knows where PyTorch's wheels are, too: its own torch-bin comes from <place>/<variant>/<file>.
  pytorch =
    let url = tryEval (head (pkgs.python3Packages.torch-bin.src.urls or [ null ]));
    in if url.success && url.value != null then dirOf (dirOf url.value) else null;

  # The place of an index: { under, folder }; `folder` is what of its name `under` doesn't stand for. Null when unknown.
  placeOf = index:
    let variant = match "pytorch/(.+)" index;
    in
    if indexes ? ${index} then { under = indexes.${index}; folder = null; }
    else if index == "pypi" then { under = pypi; folder = null; }
    else if variant == null then null
    else if indexes ? pytorch then { under = indexes.pytorch; folder = head variant; }
    else if pytorch != null then { under = pytorch; folder = head variant; }
    else null;

  fetch = target: pin:
    let
      artifact = artifactOf target pin;
      place = placeOf pin.index;
      inherit (place) under folder;
      below = if folder == null then [ "" ] else [ "/${folder}" "" ];
      asked = under ({ inherit (pin) name version index; inherit (artifact) file sha256; });
      download = urls: pkgs.fetchurl { inherit urls; inherit (artifact) sha256; name = safe artifact.file; };
    in
    if pin.index == "url" then download [ pin.url ]
    else if isFunction under then (if isString asked then download [ asked ] else download asked)
    else if isPath under then
      builtins.path {
        path = under + "/${artifact.file}"; name = safe artifact.file; recursive = false; inherit (artifact) sha256;
      }
    else download (map (folder: "${under}${folder}/${quoted artifact.file}") below);

  # --- What stands in the way ----------------------------------------------------------------------------------------

  pythonName = target: "python${replaceStrings [ "." ] [ "" ] (targetOf target).python}";
  # An attribute that throws is how nixpkgs tells that it has dropped a version.
  interpreter = target:
    let found = tryEval (let python = pkgs.${pythonName target} or null; in builtins.seq python python);
    in if found.success then found.value else null;

  # Why there is no environment of a target here, or null.
  problem = target:
    let
      locked = targetOf target;
      named = filter (index: !elem index [ "git" "url" ]) (map (pin: pin.index) (pins target));
      unknown = filter (index: placeOf index == null) (unique named);
    in
    if (subdirs.${locked.platform} or null) != system then
      "${title target} is for ${locked.platform}, not for ${system}"
    else if condaPins target != [ ] then
      "${title target} has conda packages, and Nix environments are made from wheels: use `envspec install`, or the target's Dockerfile or apptainer.def"
    else if pins target == [ ] then
      "${title target} has no packages"
    else if interpreter target == null then
      "${title target} needs Python ${locked.python}, and this nixpkgs has no ${pythonName target}: use another release of nixpkgs (--override-input nixpkgs …)"
    else if unknown != [ ] then
      "${title target} has files from ${concatStringsSep ", " unknown}: say where these indexes have their files, in indexes.nix beside flake.nix: { ${
        concatStringsSep " " (map (index: ''"${index}" = "https://…";'') unknown)} }"
    else null;

  # --- The environment -----------------------------------------------------------------------------------------------

  # only        requirements: of the target's pins those that these reach (all when null)
  # wheels      more wheels, in folders: { package = folder }
  # libraries   packages of nixpkgs whose libraries the wheels find, beside those of manylinux
  # buildTools  nixpkgs' Python packages that source packages are built with: pythonPackages -> list
  # project     the folder of the spec's own project, which is built with what the lock has and installed last
  # carried     a folder that the environment keeps as share/envspec
  # slice       a file that it keeps there as target.json
  build =
    { target, only ? null, wheels ? { }, project ? null, libraries ? [ ], buildTools ? defaultTools, carried ? null
    , slice ? null, name ? "${checked.env.name}-${target}" }:
    let
      locked = targetOf target;
      python = interpreter target;
      selected = if only == null then pins target else reached target only;
      isSource = pin: pin.index == "git" || !isWheel (artifactOf target pin).file;
      ready = filter (pin: !isSource pin) selected;
      sources = filter isSource selected;

      requirement = pin: "${pin.name}==${pin.version} --hash=sha256:${(artifactOf target pin).sha256}\n";
      # uv installs side by side: what overwrites files of others comes after them.
      level = pin: foldl' (most: one: greater most (1 + level one)) 0
        (filter (one: elem one.name (overwrittenBy target pin)) ready);
      wave = number:
        let
          inWave = filter (pin: level pin == number) ready;
          list = pkgs.writeText "requirements.txt" (concatStringsSep "" (map requirement inWave));
        in "install --require-hashes --find-links ${house} -r ${list}";
      waves = genList wave (1 + foldl' (most: pin: greater most (level pin)) 0 ready);
      house = pkgs.linkFarm "wheels"
        (map (pin: { name = plainly (artifactOf target pin); path = fetch target pin; }) ready);

      # A source archive keeps its own name, which tells its kind. Of git comes the tree of the pinned commit.
      source = pin:
        if pin.index == "git" then
          "${builtins.fetchGit { inherit (pin.git) url; rev = pin.git.commit; allRefs = true; submodules = true; }}${
            if pin.git ? subdirectory then "/${pin.git.subdirectory}" else ""}"
        else "${pkgs.linkFarm "source" [ { name = (artifactOf target pin).file; path = fetch target pin; } ]}/${(artifactOf target pin).file}";
      # What a source is built with, where the lock says it: these wheels, each by its hash, in place of nixpkgs' tools.
      # The target's own file is from the target's index, every other one from PyPI.
      indexed = filter (pin: pin.index != "git") (pins target);
      isOwn = row: pin: pin.name == row.name && (artifactOf target pin).sha256 == row.sha256;
      indexOf = row: (head (filter (isOwn row) indexed ++ [ { index = "pypi"; } ])).index;
      builtWith = pin:
        map (row: { inherit (row) name version; index = indexOf row; artifacts = [ { inherit (row) file sha256; } ]; })
          (filter (has target) pin.built-with);
      toolsOf = pin:
        let
          wheels = builtWith pin;
          farm = pkgs.linkFarm "built-with"
            (map (pin: { name = (artifactOf target pin).file; path = fetch target pin; }) wheels);
          list = pkgs.writeText "built-with.txt" (concatStringsSep "" (map requirement wheels));
        in if wheels == [ ] then "" else ''
          install --target "$TMPDIR/built-with" --require-hashes --find-links ${farm} -r ${list}
          patch_all "$TMPDIR/built-with"
        '';
      fromSource = pin: ''
        rm -rf "$TMPDIR/built-with"
        ${if pin ? built-with then "mkdir \"$TMPDIR/built-with\"\n${toolsOf pin}" else ""}
        build ${shell (source pin)}
        install --find-links built ${shell pin.name}
      '';
      # setuptools would pack what an earlier build left in the folder
      own = ''
        printf '[build]\nbuild_base = %s\n' "$TMPDIR/build-base" >setuptools.cfg
        DIST_EXTRA_CONFIG=$TMPDIR/setuptools.cfg build ${project}
        install --find-links built ${shell (fromTOML (readFile (project + "/pyproject.toml"))).project.name}
      '';
      more = package: "install --find-links ${wheels.${package}} ${shell package}\n";

      # What manylinux wheels may expect of a system (PEP 599), then the driver: its libraries are the machine's.
      manylinux = pkgs.pythonManylinuxPackages.manylinux2014 or [ pkgs.zlib ];
      driver = (pkgs.addDriverRunpath or pkgs.addOpenGLRunpath).driverLink;
      runtimePath = "${pkgs.lib.makeLibraryPath ([ pkgs.stdenv.cc.cc ] ++ libraries ++ manylinux)}:${driver}/lib";
      tools = python.withPackages buildTools;
    in
    (if sources == [ ] && project == null then pkgs.runCommand else pkgs.runCommandCC) "envspec-${safe name}"
      {
        nativeBuildInputs = [ pkgs.uv pkgs.patchelf ];
        inherit runtimePath;
        dynamicLinker = pkgs.stdenv.cc.bintools.dynamicLinker;
        disallowedReferences = [ house ];
        passthru = { inherit python lock target; };
        meta.description =
          "${title target}: Python ${locked.python}${if locked ? cuda then ", CUDA ${locked.cuda}" else ""}";
        meta.mainProgram = "python";
        meta.platforms = [ subdirs.${locked.platform} ];
      }
      ''
        export HOME=$TMPDIR UV_NO_CONFIG=1 UV_OFFLINE=1 UV_CACHE_DIR=$TMPDIR/cache UV_PYTHON_DOWNLOADS=never
        cd "$TMPDIR"

        install() { uv pip install --quiet --python "$out/bin/python" --no-index --no-deps "$@"; }

        # The wheels' own ways of finding libraries come first, then the system's and the driver's. RPATH, not RUNPATH:
        # it holds for what a library loads in turn, too.
        patch_all() {
          find "''${1:-$out}" -type f \( -name '*.so*' -o -perm -0100 \) -print0 | while IFS= read -r -d "" file; do
            magic=
            IFS= read -r -n 4 magic < "$file" || true
            [ "$magic" = $'\x7fELF' ] || continue
            # objects and code for GPUs are ELF, too, and have none
            rpath=$(patchelf --print-rpath "$file" 2>/dev/null) || continue
            case ":$rpath:" in
              *":$runtimePath:"*) ;;
              *) patch "$file" --force-rpath --set-rpath "''${rpath:+$rpath:}$runtimePath" ;;
            esac
            linker=$(patchelf --print-interpreter "$file" 2>/dev/null) || continue
            [ "$linker" = "$dynamicLinker" ] || patch "$file" --set-interpreter "$dynamicLinker"
          done
        }
        : >patched
        patch() {
          local file=$1
          shift
          if patchelf "$@" "$file"; then printf '%s\0' "$file" >>"$TMPDIR/patched"; else echo "left as it is: $file" >&2; fi
        }

        # Building a package runs its code, with what the lock has: for its build, else for the environment beside
        # nixpkgs' build tools.
        build() {
          rm -rf source built
          if [ -d "$1" ]; then
            cp -r "$1" source && chmod -R u+w source
            set -- source
          fi
          tools=${if sources == [ ] then "" else "${tools}/${python.sitePackages}"}
          [ ! -d "$TMPDIR/built-with" ] || tools=$TMPDIR/built-with
          PYTHONDONTWRITEBYTECODE=1 PATH=$TMPDIR/built-with/bin:$PATH PYTHONPATH=$out/${python.sitePackages}:$tools \
            uv build --quiet --wheel --python "$out/bin/python" --no-build-isolation --no-index --out-dir built "$1"
        }

        ${python}/bin/python -I -m venv --without-pip "$out"
        ${if ready == [ ] then "" else concatStringsSep "\n" waves}
        patch_all
        ${concatStringsSep "" (map fromSource sources)}
        ${concatStringsSep "" (map more (attrNames wheels))}
        ${if project == null then "" else own}
        ${if sources == [ ] && wheels == { } && project == null then "" else "patch_all"}
        "$out/bin/python" -I -c ${shell restate} "$out/${python.sitePackages}" patched
        # uv notes when it saw a wheel: nothing that stays
        find "$out" -path '*.dist-info/uv_cache.json' -delete
        find "$out" -path '*.dist-info/RECORD' -exec sed -i '/\.dist-info\/uv_cache\.json,/d' {} +
        rm -f "$out/.lock"
        # Times are all the same in the store, so compiled files are never checked against them.
        "$out/bin/python" -I -m compileall -q -j 0 --invalidation-mode unchecked-hash "$out/${python.sitePackages}" >/dev/null || true
        ${if carried == null then "" else ''mkdir -p "$out/share" && cp -r ${carried} "$out/share/envspec" && chmod -R u+w "$out/share/envspec"''}
        if [ -f "$out/share/envspec/envspec-check.pyz" ]; then
          cd "$out/share/envspec"
          "$out/bin/python" -ISB -m zipfile -e envspec-check.pyz check
          sha256sum --check --quiet --ignore-missing SHA256SUMS
          # what only builds of images run stays out, as in an image
          rm -rf envspec-check.pyz build.sh
          sed -i '/  envspec-check[.]pyz$/d; /  build[.]sh$/d' SHA256SUMS
        fi
        ${if slice == null then "" else ''cp ${slice} "$out/share/envspec/target.json"''}
      '';

  # The files that were patched are no longer what their packages' RECORD says, by which the check tells damaged ones.
  restate = ''
    import base64, csv, hashlib, os, pathlib, sys
    site = pathlib.Path(sys.argv[1])
    patched = set(pathlib.Path(sys.argv[2]).read_text().split("\0"))
    for record in sorted(site.glob("*.dist-info/RECORD")):
        with record.open(newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        own = [row for row in rows if os.path.normpath(site / row[0]) in patched]
        for row in own:
            data = (site / row[0]).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            row[1:] = ["sha256=" + digest, str(len(data))]
        if own:
            with record.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file, lineterminator="\n").writerows(rows)
  '';
  defaultTools = python: [ python.setuptools python.wheel python.hatchling python.flit-core python.poetry-core ];
  shell = text: "'${replaceStrings [ "'" ] [ "'\\''" ] text}'";
in
{
  inherit problem;
  targets =
    filter (target: (subdirs.${checked.targets.${target}.platform} or null) == system) (attrNames checked.targets);
  environment = arguments@{ target, ... }: if problem target == null then build arguments else throw (problem target);
}
