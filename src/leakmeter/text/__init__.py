"""From text to prompts: templates, one tokenisation, units of ablation, repeated values, personal data."""
