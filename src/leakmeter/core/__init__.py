"""The engine: prompts, requests, the prefix tree that answers them, and what a measure and an instrument are."""
