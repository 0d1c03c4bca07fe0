"""Proofs of a target: smoke run, doctor, link, compiles, and the ladder of proof."""
