"""The callbacks within LangChain, LlamaIndex and OpenTelemetry themselves: `pip install 'leakmeter[integrations]'`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from leakmeter.products.integrations import (
    AnswerLog,
    AnswerSpanProcessor,
    LangChainCallback,
    LlamaIndexCallback,
    answering,
)

# What those libraries warn of is theirs.
pytestmark = pytest.mark.filterwarnings("default")
INSTALL = "not installed: pip install 'leakmeter[integrations]'"
TEXT = "Anna Ek called at nine."


def logged(log: AnswerLog) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in log.path.read_bytes().splitlines()] if log.path.exists() else []
    log.path.unlink(missing_ok=True)
    return lines


# --- LangChain --------------------------------------------------------------------------------------------------------


@pytest.fixture
def lc(log: AnswerLog) -> Iterator[SimpleNamespace]:
    """A chain of a retriever, a prompt and a model of LangChain, and what its calls are given."""
    pytest.importorskip("langchain_core", reason=INSTALL)
    from langchain_core.documents import Document
    from langchain_core.language_models import FakeListChatModel
    from langchain_core.output_parsers import StrOutputParser
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.retrievers import BaseRetriever
    from langchain_core.runnables import RunnablePassthrough

    class Retriever(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Any]:
            return [
                Document(page_content=TEXT, id="call-1"),
                Document(page_content="Soup.", metadata={"source": "menu"}),
            ]

    def joined(documents: Any) -> str:
        return "\n".join(document.page_content for document in documents)

    def model(*answers: str, **more: Any) -> Any:
        return FakeListChatModel(responses=list(answers), **more)

    made = SimpleNamespace(callback=LangChainCallback(log), model=model, retriever=Retriever(), joined=joined)
    made.prompt = ChatPromptTemplate.from_messages([("system", "Notes:\n{notes}"), ("human", "{question}")])
    made.given = {"notes": made.retriever | joined, "question": RunnablePassthrough()}
    made.chain = made.given | made.prompt | model("Anna Ek.", "Anna Ek.") | StrOutputParser()
    made.config = {"callbacks": [made.callback], "metadata": {"recipient": "desk 4"}}
    yield made
    assert not made.callback._of
    assert not made.callback._traces


def test_langchain_in_every_way_of_calling(lc: SimpleNamespace, log: AnswerLog) -> None:
    from langchain_core.runnables import RunnableParallel

    chain, config = lc.chain, lc.config

    def check_answers(*questions: str) -> None:
        found = sorted(logged(log), key=lambda line: line["messages"][1]["content"])
        assert len({line["trace_id"] for line in found}) == len(found) == len(questions)
        for line, question in zip(found, questions, strict=True):
            system = {"role": "system", "content": f"Notes:\n{TEXT}\nSoup."}
            assert line["messages"] == [system, {"role": "user", "content": question}]
            assert line["documents"] == [{"id": "call-1", "text": TEXT}, {"id": "menu", "text": "Soup."}]
            assert (line["answer"], line["recipient"], line["hidden_calls"]) == ("Anna Ek.", "desk 4", 0)

    async def asynchronous() -> None:
        await asyncio.gather(*(chain.ainvoke(f"question {i}", config=config) for i in range(5)))
        assert [text async for text in chain.astream("question 5", config=config)]
        await chain.abatch(["question 6", "question 7"], config=config)

    chain.invoke("question", config=config)
    check_answers("question")
    assert "".join(chain.stream("question", config=config)) == "Anna Ek."
    check_answers("question")
    asyncio.run(asynchronous())
    check_answers(*(f"question {i}" for i in range(8)))
    chain.batch([f"question {i}" for i in range(9)], config=config)
    check_answers(*(f"question {i}" for i in range(9)))
    # Beside one another in one trace.
    RunnableParallel(a=chain, b=chain).invoke("q", config=config)
    assert len(logged(log)) == 2
    chain.map().invoke(["q", "r", "s"], config={**config, "max_concurrency": 1})
    assert sorted(line["messages"][1]["content"] for line in logged(log)) == ["q", "r", "s"]


def test_langchain_rewriting_retries_and_errors(lc: SimpleNamespace, log: AnswerLog) -> None:
    from langchain_core.output_parsers import JsonOutputParser, StrOutputParser
    from langchain_core.runnables import RunnableLambda

    rewritten = lc.model("Who called at nine?") | StrOutputParser() | lc.given | lc.prompt | lc.model("Anna Ek.")
    rewritten.invoke("who?", config=lc.config)
    (line,) = logged(log)
    assert (line["answer"], line["hidden_calls"]) == ("Anna Ek.", 1)
    assert line["messages"][1]["content"] == "Who called at nine?"

    parsed = lc.prompt | lc.model("no JSON", '{"x": 1}') | JsonOutputParser()
    retried = parsed.with_retry(stop_after_attempt=2, wait_exponential_jitter=False)
    retried.invoke({"notes": "", "question": ""}, config=lc.config)
    (line,) = logged(log)
    assert (line["answer"], line["hidden_calls"]) == ('{"x": 1}', 1)

    def broken(_: Any) -> Any:
        raise ConnectionError

    for failing in (lc.chain | broken, RunnableLambda(broken) | lc.model("never")):
        with pytest.raises(ConnectionError):
            failing.invoke("q", config=lc.config)
    assert logged(log) == []
    RunnableLambda(broken).with_fallbacks([lc.chain]).invoke("q", config=lc.config)
    assert len(logged(log)) == 1


def test_langchain_tools(lc: SimpleNamespace, log: AnswerLog) -> None:
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import RunnableLambda
    from langchain_core.tools import tool

    @tool
    def clock(zone: str) -> str:
        """Say the time."""
        return "nine"

    call = {"name": "clock", "args": {"zone": "x"}, "id": "1", "type": "tool_call"}
    answers = iter([AIMessage(content="", tool_calls=[call]), AIMessage(content="At nine.")])
    model = GenericFakeChatModel(messages=answers)

    def agent(question: str, config: Any) -> str:
        asked = model.invoke(question, config=config)
        said = clock.invoke(asked.tool_calls[0], config=config)
        return str(model.invoke([("user", question), asked, said], config=config).content)

    RunnableLambda(agent).invoke("When?", config=lc.config)
    called, line = logged(log)
    assert (called["answer"], called["tool_calls"]) == ("", [{"name": "clock", "arguments": '{"zone": "x"}'}])
    assert (called["hidden_calls"], called["messages"]) == (0, [{"role": "user", "content": "When?"}])
    assert (line["answer"], line["turn"], line["hidden_calls"], line["unmeasured_calls"]) == ("At nine.", 2, 2, 0)
    assert [message["role"] for message in line["messages"]] == ["user", "assistant", "tool"]
    assert line["messages"][1]["tool_calls"] == [{"name": "clock", "arguments": '{"zone": "x"}'}]
    assert line["messages"][2]["content"] == "nine"


def test_langchain_caches_blocks_and_streams_that_break_off(lc: SimpleNamespace, log: AnswerLog) -> None:
    from langchain_core.caches import InMemoryCache

    model = lc.model("one", "two", cache=InMemoryCache())
    for question in ("q", "q", "r"):
        model.invoke(question, config=lc.config)
    first, second, other = logged(log)
    # A cached answer has the id of its draw.
    assert first["answer"] == second["answer"] == "one"
    assert first["response_id"] == second["response_id"] != other["response_id"]
    assert first["span_id"] != second["span_id"]
    # A retriever that runs before, and a callback of the model.
    with answering("desk 5"):
        documents = lc.retriever.invoke("q", config=lc.config)
        prompt = lc.prompt.invoke({"notes": lc.joined(documents), "question": "q"})
        lc.model("Anna Ek.", callbacks=[lc.callback]).invoke(prompt)
    (line,) = logged(log)
    assert (line["recipient"], len(line["documents"])) == ("desk 5", 2)
    with pytest.raises(Exception):  # noqa: B017 - the fake model's own
        list(lc.model("Anna Ek.", error_on_chunk_number=4).stream("q", config=lc.config))
    stream = lc.model("Anna Ek.").stream("q", config=lc.config)
    assert next(stream).content == "A"
    stream.close()
    assert [(line["answer"], line["interrupted"]) for line in logged(log)] == [("Anna", True), ("A", True)]


# --- LlamaIndex -------------------------------------------------------------------------------------------------------


@pytest.fixture
def li(log: AnswerLog) -> Iterator[SimpleNamespace]:
    """An index and a model of LlamaIndex, and the callback with its dispatcher."""
    pytest.importorskip("llama_index.core", reason=INSTALL)
    from llama_index.core import MockEmbedding, VectorStoreIndex
    from llama_index.core.instrumentation import get_dispatcher
    from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
    from llama_index.core.llms.callbacks import llm_completion_callback
    from llama_index.core.schema import TextNode

    class Invented(CustomLLM):
        temperature: float = 0.7
        answers: tuple[str, ...] = ("Anna Ek.",)

        @property
        def metadata(self) -> Any:
            return LLMMetadata(model_name="invented-7b")

        @llm_completion_callback()
        def complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            if not self.answers:
                raise ConnectionError
            text, *later = self.answers
            self.answers = tuple(later) or (text,)
            return CompletionResponse(text=text)

        @llm_completion_callback()
        def stream_complete(self, prompt: str, formatted: bool = False, **kwargs: Any) -> Any:
            return (CompletionResponse(text="Anna Ek."[:end], delta="Anna Ek."[end - 1]) for end in range(1, 9))

    callback = LlamaIndexCallback(log)
    dispatcher = get_dispatcher()
    kept = list(dispatcher.event_handlers), list(dispatcher.span_handlers)
    dispatcher.add_event_handler(callback)
    dispatcher.add_span_handler(callback)
    nodes = [TextNode(text=TEXT, id_="n1", metadata={"file": "calls.txt"}), TextNode(text="Soup.", id_="n2")]
    index = VectorStoreIndex(nodes, embed_model=MockEmbedding(embed_dim=2))
    yield SimpleNamespace(callback=callback, index=index, model=Invented, nodes=nodes)
    dispatcher.event_handlers, dispatcher.span_handlers = kept
    assert not callback._of
    assert log.lost == 0


def test_llamaindex_in_every_way_of_calling(li: SimpleNamespace, log: AnswerLog) -> None:
    from llama_index.core.instrumentation.dispatcher import instrument_tags

    engine = li.index.as_query_engine(llm=li.model())
    with instrument_tags({"recipient": "desk 4"}):
        engine.query("Who called?")
    (line,) = logged(log)
    assert line["documents"] == [{"id": "n1", "text": TEXT}, {"id": "n2", "text": "Soup."}]
    assert all(text in line["prompt"] for text in (TEXT, "Who called?"))
    assert (line["answer"], line["recipient"], line["model"]) == ("Anna Ek.", "desk 4", "invented-7b")
    assert (line["sampling"]["temperature"], line["hidden_calls"]) == (0.7, 0)

    async def asynchronous() -> None:
        await asyncio.gather(*(engine.aquery(f"question {i}") for i in range(4)))

    asyncio.run(asynchronous())
    found = logged(log)
    assert len({line["trace_id"] for line in found}) == 4
    assert all(len(line["documents"]) == 2 for line in found)


def test_llamaindex_streams_in_a_block(li: SimpleNamespace, log: AnswerLog, caplog: pytest.LogCaptureFixture) -> None:
    engine = li.index.as_query_engine(llm=li.model(), streaming=True)
    for question in ("first", "second"):
        with answering("desk 4"):
            assert "".join(engine.query(question).response_gen) == "Anna Ek."
    with answering():
        left = engine.query("third").response_gen
        assert [next(left), next(left)] == ["A", "n"]
        left.close()

    async def asynchronous() -> None:
        with answering():
            response = await engine.aquery("fourth")
            assert [text async for text in response.async_response_gen()]

    asyncio.run(asynchronous())
    found = logged(log)
    for line, question in zip(found, ("first", "second", "third", "fourth"), strict=True):
        assert question in line["prompt"]
        assert [document["id"] for document in line["documents"]] == ["n1", "n2"]
    assert len({line["trace_id"] for line in found}) == 4
    assert (found[0]["recipient"], found[0]["hidden_calls"], "interrupted" in found[1]) == ("desk 4", 0, False)
    assert (found[2]["interrupted"], found[2]["answer"][:2]) == (True, "An")
    # One that is read outside of a block is counted.
    stream = engine.query("q").response_gen
    assert log.lost
    assert "within `answering`" in caplog.text
    assert TEXT not in caplog.text
    log.lost = 0
    assert "".join(stream) == "Anna Ek."
    assert logged(log)[0]["documents"] == []


def test_llamaindex_chats_refinements_and_errors(li: SimpleNamespace, log: AnswerLog) -> None:
    from llama_index.core.memory import ChatMemoryBuffer

    memory = ChatMemoryBuffer.from_defaults(token_limit=1000)
    given = {"chat_mode": "condense_plus_context", "memory": memory}
    li.index.as_chat_engine(llm=li.model(), **given).chat("Who called?")
    engine = li.index.as_chat_engine(llm=li.model(answers=["better query", "Anna Ek."]), **given)
    engine.chat("And when?")
    first, second = logged(log)
    assert (first["hidden_calls"], second["hidden_calls"], second["answer"]) == (0, 1, "Anna Ek.")
    assert len(second["documents"]) == 2
    with answering():
        list(engine.stream_chat("And where?").response_gen)
    (line,) = logged(log)
    assert (line["hidden_calls"], len(line["documents"])) == (1, 2)

    refined = li.index.as_query_engine(llm=li.model(answers=["first", "Anna Ek."]), response_mode="refine")
    refined.query("Who called?")
    (line,) = logged(log)
    assert (line["answer"], line["hidden_calls"]) == ("Anna Ek.", 1)

    with pytest.raises(ConnectionError):
        li.index.as_query_engine(llm=li.model(answers=[])).query("Who called?")
    assert logged(log) == []

    with answering("desk 5"):
        (found, _) = li.index.as_retriever().retrieve("q")
        li.model().complete(f"Notes: {found.node.text}")
    assert logged(log)[0]["recipient"] == "desk 5"


# --- OpenTelemetry ----------------------------------------------------------------------------------------------------


def test_opentelemetry_spans(log: AnswerLog) -> None:
    pytest.importorskip("opentelemetry.sdk", reason=INSTALL)
    from opentelemetry.sdk.trace import SpanLimits, TracerProvider

    processor = AnswerSpanProcessor(log)
    providers = (TracerProvider(), TracerProvider(span_limits=SpanLimits(max_span_attribute_length=20)))
    model = {
        "openinference.span.kind": "LLM",
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": f"{TEXT} Who called?",
        "llm.output_messages.0.message.content": "Anna Ek.",
    }
    found = {"retrieval.documents.0.document.id": "call-1", "retrieval.documents.0.document.content": TEXT}
    for one in providers:
        one.add_span_processor(processor)
        tracer = one.get_tracer("program")
        with tracer.start_as_current_span("question") as root:
            root.set_attribute("user.id", "desk 4")
            with tracer.start_as_current_span("retriever") as span:
                span.set_attributes({"openinference.span.kind": "RETRIEVER", **found})
            with tracer.start_as_current_span("model") as span:
                span.set_attributes(model)
        with tracer.start_as_current_span("model") as span:
            span.set_attributes({f"other {number}": number for number in range(130)} | model)
        one.shutdown()
    first, *cut = logged(log)
    assert first["documents"] == [{"id": "call-1", "text": TEXT}]
    assert first["messages"] == [{"role": "user", "content": f"{TEXT} Who called?"}]
    assert (first["answer"], first["recipient"], "incomplete" in first) == ("Anna Ek.", "desk 4", False)
    assert [line["incomplete"] for line in cut] == [True] * 3
    assert not processor._of
