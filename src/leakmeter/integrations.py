"""Logs of the answers that a program gives: from LangChain, LlamaIndex, OpenTelemetry, or by hand.

None of these libraries is imported, and nothing is sent anywhere. The code is in `products/integrations`.
"""

from leakmeter.products.integrations import (
    AnswerLog,
    AnswerSpanProcessor,
    LangChainCallback,
    LlamaIndexCallback,
    answering,
    log_answer,
)

__all__ = ["AnswerLog", "AnswerSpanProcessor", "LangChainCallback", "LlamaIndexCallback", "answering", "log_answer"]
