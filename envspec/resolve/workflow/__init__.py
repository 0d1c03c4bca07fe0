"""The locking of a spec: the flow from the parsed spec to the new lock."""
