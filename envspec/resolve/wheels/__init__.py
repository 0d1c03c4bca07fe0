"""What the wheels of a resolution say themselves, which their METADATA leaves out."""
