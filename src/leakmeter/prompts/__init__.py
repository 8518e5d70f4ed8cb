"""From text to prompts: templates, tokenisation by segments, units of removal, values said more than once."""
