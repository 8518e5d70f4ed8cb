"""Logs of the answers that a program gives: from LangChain, LlamaIndex, OpenTelemetry, or by hand.

None of these libraries is imported, and nothing is sent anywhere.
"""

from leakmeter.products.integrations.langchain import LangChainCallback
from leakmeter.products.integrations.llama_index import LlamaIndexCallback
from leakmeter.products.integrations.log import AnswerLog, log_answer
from leakmeter.products.integrations.opentelemetry import AnswerSpanProcessor
from leakmeter.products.integrations.runs import answering

__all__ = ["AnswerLog", "AnswerSpanProcessor", "LangChainCallback", "LlamaIndexCallback", "answering", "log_answer"]
