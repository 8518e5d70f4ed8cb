"""Run directories: measured part by part, complete when `spec.json` is there, and all that reads them again."""
