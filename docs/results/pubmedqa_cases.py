"""Turns the published PubMedQA file `ori_pqal.json` into cases for `leakmeter influence --data`.

    python docs/results/pubmedqa_cases.py ori_pqal.json 20 > pubmedqa20.jsonl

Takes the first N records in the file's order; each abstract section is a document of the context.
"""

import json
import sys
from pathlib import Path

records = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
for pubmed_id, record in list(records.items())[: int(sys.argv[2])]:
    sections = [{"name": name, "text": text} for name, text in zip(record["LABELS"], record["CONTEXTS"], strict=True)]
    sys.stdout.write(json.dumps({"id": pubmed_id, "context": sections, "query": record["QUESTION"]}) + "\n")
