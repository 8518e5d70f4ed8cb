"""The engine: requests of many trials become one prefix tree, run once and answered together."""
