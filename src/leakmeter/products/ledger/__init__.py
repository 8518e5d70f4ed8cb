"""The ledger of what has leaked to whom: nats of logged answers, by document, person and recipient."""
