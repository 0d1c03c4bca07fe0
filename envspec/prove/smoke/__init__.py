"""The smoke run: `run/` starts the smoke check somewhere, `report/` reads and shows its report."""
