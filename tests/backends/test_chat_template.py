"""A model's chat template is a foreign program: whatever it does, it ends, and makes no gigabytes."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import TemplateError

from leakmeter.backends.hf import chat_template
from leakmeter.backends.hf.chat_template import TooMuchError
from leakmeter.errors import UsageError

MESSAGES = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": " Who called? "}]
DOUBLING = "{% set ns = namespace(x='ab') %}{% for i in range(99) %}"
LONG = "{% set a = 'x' * 1000000 %}"


def of(source: str) -> Any:
    return SimpleNamespace(special_tokens_map={"bos_token": "<s>"}, get_chat_template=lambda: source)


def rendered(source: str) -> str:
    return chat_template.rendered(of(source), MESSAGES, answer=True)


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'x' * 2000000000 }}",
        "{{ 'x' * 1000000 * 1000000 }}",
        "{{ (range(99999) | list) * 60000 }}",
        "{{ 2 ** 10000000 }}",
        "{{ 3 * 2 ** 4000 * 2 ** 4000 }}",
        "{{ '%2000000000d' % 1 }}",
        "{{ '%*d' | format(999999999, 1) }}",
        "{{ '{:2000000000}'.format(1) }}",
        "{{ '{:{}}'.format(1, 2000000000) }}",
        "{{ 'x'.ljust(2000000000) }}",
        "{{ 'x' | center(2000000000) }}",
        "{{ 'x' | indent(2000000000) }}",
        "{{ lipsum(n=100000000) }}",
        "{{ [1] | batch(2000000000, 'x') | list }}",
        "{{ 'x'.translate({120: 'y' * 1000000}) }}",
        "{% set a = '\n' * 1000000 %}{{ a | indent(a) }}",
        LONG + "{{ a.replace('x', a) }}",
        LONG + "{{ a | replace('x', a) }}",
        LONG + "{{ [a, a, a] | join(a * 50) }}",
        LONG + "{{ (a * 50).join([a, a, a]) }}",
        LONG + "{% for i in range(99) %}{{ a }}{% endfor %}",
        DOUBLING + "{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        DOUBLING + "{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        DOUBLING + "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}{{ ns.x }}",
        "{% macro f(t) %}{{ t }}{{ t }}{% endmacro %}" + DOUBLING + "{% set ns.x = f(ns.x) %}{% endfor %}",
    ],
)
def test_a_template_that_makes_too_much_is_refused(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "MOST_CHARACTERS", 2**22)
    with pytest.raises(TooMuchError, match=r"^makes a "):
        rendered(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ '' }}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        LONG + "{{ a | map('replace', 'x', 'yy') | list | length }}",
    ],
)
def test_a_template_that_takes_too_long_is_refused(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "SECONDS_AT_MOST", 0.1)
    before = sys.gettrace()
    with pytest.raises(TooMuchError, match=r"^takes more than 0\.1 s$"):
        rendered(source)
    assert sys.gettrace() is before


def test_what_templates_do_otherwise_is_as_in_the_library() -> None:
    from transformers.utils.chat_template_utils import render_jinja_template

    for source in (
        "{{ bos_token }}{% for m in messages %}<{{ m.role | upper }}>{{ m['content'] | trim ~ '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}<ASSISTANT>{% endif %}",
        "{%- for m in messages %}\n    {{- loop.index0 * 2 + 1 }} {{ '%s-%03d' % (m.role, 7) }}\n{% endfor %}",
        "{{ messages | tojson(indent=2) }}{{ ', '.join(['a', 'b']) }}{{ ['a', 'b'] | join('/') }}",
        "{{ '{} and {:>8}'.format('a', 'b') }}{{ messages[1].content.strip().split(' ')[0] }}",
        "{{ messages | map(attribute='role') | list }}{{ messages | selectattr('role', 'equalto', 'user') | list }}",
        "{% macro say(t) %}[{{ t }}]{% endmacro %}{{ say(messages[0].content) }}{% set x %}a{{ 1 }}{% endset %}{{ x }}",
        "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m.content | replace('W', 'w') }}"
        "{% endfor %}",
        "{% generation %}{{ messages | length }}{% endgeneration %}{{ tools is none }}{{ documents is defined }}",
        "{{ 'a\nb' | indent(2) }}{{ dict(a=1) | items | list }}{{ namespace(a=1).a }}{{ [3, 1] | sort | first }}",
    ):
        plain = render_jinja_template([MESSAGES], chat_template=source, add_generation_prompt=True, bos_token="<s>")
        assert rendered(source) == plain[0][0]
    with pytest.raises(TemplateError, match="no"):
        rendered("{{ raise_exception('no') }}")


def test_it_is_said_in_one_line(chat_tokenizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_tokenizer.library, "chat_template", "{{ 'x' * 2000000000 }}")
    with pytest.raises(UsageError, match=r"^the model's chat template makes a text of more than .* characters; repair"):
        chat_tokenizer.render_chat(MESSAGES, answer=True)
