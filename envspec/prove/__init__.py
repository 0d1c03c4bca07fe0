"""How far a target is proved: smoke run, doctor, link, compiles, and the ladder of proof."""
