"""The rules that a lock is judged by: one module a kind, each a pure `rule(case)` that yields what is wrong."""
