"""Recognisers that are data: one TOML file a language or a domain, see `leakmeter.text.entities.packs.pack`."""
