"""stack: the packages that are locked beside torch, each by what it is installed for."""
