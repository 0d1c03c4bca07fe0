"""The smoke check. Its name is its own, so that no module here hides one of the environment's."""
