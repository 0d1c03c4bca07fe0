"""The rules that a lock is judged by: one module a kind, each rule a pure `rule(case)` that yields findings."""
