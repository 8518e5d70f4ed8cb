"""Training on a model's own weights or in front of them: what a white-box adversary does, and copies with canaries.

soft_prompt  vectors tuned in front of a prompt, until values come out behind it
vectors      tuned vectors: kept, loaded, scored with, decoded with
finetune     a copy of a model that was fine-tuned on documents, as a directory
training     what tuning and fine-tuning share: tensors in whole files, what AdamW remembers, hashes
"""

from leakmeter.core.spinning import limit_spinning

limit_spinning()
