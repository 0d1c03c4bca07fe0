"""Files that travel into environments and images besides the smoke check: preflight, scripts, Nix functions."""
