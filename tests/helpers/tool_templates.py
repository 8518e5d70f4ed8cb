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


_IN_TURNS: Final = """
{%- for message in messages %}
{%- if message.role == 'tool' or message.tool_calls %}{{ raise_exception('no calls of tools') }}{% endif %}
{%- if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{%- endfor %}"""
NO_SYSTEM: Final = (
    "<bos>{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    + _IN_TURNS
    + """
{%- for message in messages %}
{{- '<start>' ~ ('model' if message.role == 'assistant' else message.role) ~ '\\n' }}
{{- message.content | trim ~ '<end>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start>model\\n' }}{% endif %}"""
)
"""As Gemma 2: no system prompt, no tools, user and assistant in turns, texts without white space at their ends."""
INSTRUCTED: Final = (
    "<s>"
    + _IN_TURNS
    + """
{%- for message in messages %}
{{- '[INST] ' ~ message.content ~ ' [/INST]' if message.role == 'user' else message.content ~ '</s>' }}
{%- endfor %}"""
)
"""As Mistral 7B Instruct 0.1 and 0.2: user and assistant in turns, and nothing else."""
SYSTEM_WITH_LAST: Final = """<s>
{%- set said = messages[1:] if messages[0].role == 'system' else messages %}
{%- set turn = namespace(number=0) %}
{%- for message in said %}
{%- if message.role != 'tool' and not message.tool_calls %}
{%- if (message.role == 'user') != (turn.number % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{%- set turn.number = turn.number + 1 %}
{%- endif %}
{%- endfor %}
{%- for message in said %}
{%- if message.role == 'user' %}
{{- '[INST] ' ~ (messages[0].content ~ '\\n\\n' if loop.last and said != messages else '') }}
{{- message.content ~ '[/INST]' }}
{%- elif message.tool_calls %}{{ '[TOOL_CALLS] [' }}
{%- for called in message.tool_calls %}
{{- ', ' if not loop.first }}{{ called.function | tojson }}
{%- endfor %}{{ ']</s>' }}
{%- elif message.role == 'tool' %}
{{- '[TOOL_RESULTS] {"content": ' ~ message.content ~ ', "call_id": "' ~ message.tool_call_id ~ '"}[/TOOL_RESULTS]' }}
{%- elif message.role == 'assistant' %}{{ ' ' ~ message.content ~ '</s>' }}
{%- else %}{{ raise_exception('unknown role') }}{% endif %}
{%- endfor %}"""
"""As Mistral 7B Instruct 0.3: tools, and the system prompt in the user's turn, if that is the last message."""
SYSTEM_WITH_FIRST: Final = (
    "<bos>{% set told = messages[0].content ~ '\\n\\n' if messages[0].role == 'system' else '' %}"
    "{% set messages = messages[1:] if messages[0].role == 'system' else messages %}"
    + _IN_TURNS
    + """
{%- for message in messages %}
{{- '<start>' ~ ('model' if message.role == 'assistant' else message.role) ~ '\\n' ~ (told if loop.first else '') }}
{{- message.content | trim ~ '<end>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start>model\\n' }}{% endif %}"""
)
"""As Gemma 3: the system prompt stands in the user's first turn."""
TURN_TEMPLATES: Final[Mapping[str, str]] = {
    "no system": NO_SYSTEM,
    "instructed": INSTRUCTED,
    "system with last": SYSTEM_WITH_LAST,
    "system with first": SYSTEM_WITH_FIRST,
}
