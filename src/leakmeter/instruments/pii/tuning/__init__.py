"""Training on a model's own weights or in front of them: what a white-box adversary does, and planted truth.

soft_prompt  vectors tuned in front of a prompt, until values come out behind it
vectors      tuned vectors: kept, loaded, scored with, decoded with
plant        a copy of a model that was taught documents, as a directory
teaching     documents to rows, rows to batches, batches to steps
training     what tuning and planting share: tensors in whole files, what AdamW remembers, hashes
"""
