"""Run folders, schemas with upgrades, the catalogue, the API for analysis."""
