"""Detached signatures by SSH keys, made and checked by OpenSSH's own `ssh-keygen -Y`."""
