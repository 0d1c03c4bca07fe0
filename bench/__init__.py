"""Benchmarks: each measures envspec beside a named peer in one run, and prints ratios. Nothing here is a test."""
