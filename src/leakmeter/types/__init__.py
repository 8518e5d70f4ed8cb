"""The nouns everything else is made of: prompts, requests, scores, readings, runs."""
