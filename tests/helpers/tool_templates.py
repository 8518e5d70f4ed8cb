"""Chat templates that write calls and results of tools as widely used families of models do, each as short as that
behaviour allows, and a tokenizer of bytes that has one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

from jinja2 import TemplateError

from leakmeter.backends.hf import chat_template
from leakmeter.backends.toy import ByteTokenizer
from leakmeter.errors import UsageError
from leakmeter.overriding import override

_CALLS: Final = """
{%- for called in message.tool_calls %}
{{- '\\n' if spoken or not loop.first }}<call>{"name": "{{ called.function.name }}", "arguments": {# -#}
{{ called.function.arguments | tojson }}}</call>
{%- endfor %}
"""
_RESULT: Final = """
{%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|start|>user{% endif %}
{{- '\\n<result>\\n' ~ message.content ~ '\\n</result>' }}
{%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{ '<|end|>\\n' }}{% endif %}
"""
_ANSWER: Final = "{% if add_generation_prompt %}{{ '<|start|>assistant\\n' }}{% endif %}"
LINE_IF_SAID: Final = (
    """
{%- if messages[0].role != 'system' %}{{ '<|start|>system\\nBe of help.<|end|>\\n' }}{% endif %}
{%- for message in messages %}
{%- if message.role == 'tool' %}"""
    + _RESULT
    + """
{%- elif message.tool_calls %}
{{- '<|start|>assistant' }}{% if message.content %}{{ '\\n' ~ message.content }}{% endif %}
{%- set spoken = true %}"""
    + _CALLS
    + """{{- '<|end|>\\n' }}
{%- else %}{{ '<|start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|end|>\\n' }}{% endif %}
{%- endfor %}"""
    + _ANSWER
)
"""As Qwen2.5: a turn that calls has a line for what it says, if it says something; results are a turn of the user's."""
THOUGHT_LAST: Final = (
    """
{%- set found = namespace(asked=0) %}
{%- for message in messages %}{% if message.role == 'user' %}{% set found.asked = loop.index0 %}{% endif %}{% endfor %}
{%- for message in messages %}
{%- if message.role == 'tool' %}"""
    + _RESULT
    + """
{%- elif message.role == 'assistant' %}
{{- '<|start|>assistant\\n' }}
{%- if loop.last and loop.index0 > found.asked %}{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{{- message.content }}{% set spoken = message.content %}"""
    + _CALLS
    + """{{- '<|end|>\\n' }}
{%- else %}{{ '<|start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|end|>\\n' }}{% endif %}
{%- endfor %}"""
    + _ANSWER
)
"""As Qwen3: a line break between what a turn says and its calls, and an empty thought in a last turn."""
ESCAPED_RESULTS: Final = """
{%- for message in messages %}
{%- if 'tool_calls' in message %}
{%- if message.tool_calls | length != 1 %}{{ raise_exception('one call at once') }}{% endif %}
{%- set called = message.tool_calls[0].function %}
{{- '<|head|>assistant\\n\\n{"name": "' ~ called.name ~ '", "parameters": ' }}{{ called.arguments | tojson }}}<|end|>
{%- elif message.role == 'tool' %}
{{- '<|head|>tool\\n\\n' }}{{ message.content | tojson }}<|end|>
{%- else %}
{{- '<|head|>' ~ message.role ~ '\\n\\n' ~ message.content | trim ~ '<|end|>' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|head|>assistant\\n\\n' }}{% endif %}"""
"""As Llama 3.1 to 3.3: results are escaped, and a turn has one call and says nothing beside it."""
TOOL_TEMPLATES: Final[Mapping[str, str]] = {
    "line if said": LINE_IF_SAID,
    "thought last": THOUGHT_LAST,
    "escaped results": ESCAPED_RESULTS,
}


@dataclass(frozen=True, slots=True)
class TemplateTokenizer(ByteTokenizer):
    """Bytes, and a chat template."""

    has_chat_template: bool = True
    source: str = ""

    @override
    def render_chat(self, messages: Sequence[Mapping[str, Any]], *, answer: bool) -> str:
        library = SimpleNamespace(special_tokens_map={}, get_chat_template=lambda: self.source)
        try:
            return chat_template.rendered(library, messages, answer=answer)
        except TemplateError as error:
            raise UsageError(f"the model's chat template refuses the messages: {error}") from error
