"""Run directories: written once, part by part, complete when `spec.json` is there."""
