"""The toy model with a chat template, so that logged chats can be measured exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leakmeter.backends.toy import ByteTokenizer, Toy


@dataclass(frozen=True, slots=True)
class ChatByteTokenizer(ByteTokenizer):
    """Bytes; each message of a chat is on a line behind its role."""

    has_chat_template: bool = True

    def render_chat(self, messages: Sequence[Mapping[str, str]], *, answer: bool) -> str:
        turns = "".join(f"<{message['role']}>{message['content']}</>\n" for message in messages)
        return turns + ("<assistant>\n" if answer else "")


class ToyChat(Toy):
    def __init__(self, *, seed: int = 0) -> None:
        super().__init__(seed=seed, scale=0.1)
        self.tokenizer = ChatByteTokenizer()
