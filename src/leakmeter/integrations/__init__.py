"""Logs of the answers that a program gives: from LangChain, LlamaIndex, OpenTelemetry, or by hand.

None of these libraries is imported, and nothing is sent anywhere.
"""

from leakmeter.integrations.langchain import LangChainCallback
from leakmeter.integrations.llama_index import LlamaIndexCallback
from leakmeter.integrations.log import AnswerLog, log_answer
from leakmeter.integrations.opentelemetry import AnswerSpanProcessor
from leakmeter.integrations.runs import answering

__all__ = ["AnswerLog", "AnswerSpanProcessor", "LangChainCallback", "LlamaIndexCallback", "answering", "log_answer"]
