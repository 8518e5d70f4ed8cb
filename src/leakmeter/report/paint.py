"""How the terminal shows colours of the scale: as backgrounds where there is colour, as blocks where not.

Text only ever enters through `visible` and `rich.text.Text`, so neither the terminal nor rich's markup gets to
interpret any of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from leakmeter.core.plain import visible
from leakmeter.report import scale

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType
    from rich.style import Style
    from rich.text import Text

BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True, repr=False)
class Composed:
    """Parts from top to bottom, made when printed, since only the console knows whether it has colours."""

    parts: Callable[[Paint, int], Iterator[RenderableType]]
    """A paint and a width in columns to what is shown."""
    width: int | None = None
    """Columns at most."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the parts from top to bottom."""
        from rich.padding import Padding

        paint = Paint(coloured=console.color_system is not None and not console.no_color, dark=_dark_terminal())
        columns = min(self.width or options.max_width, options.max_width)
        for part in self.parts(paint, columns):
            yield Padding(part, (0, options.max_width - columns, 0, 0))

    def _repr_mimebundle_(self, include: Sequence[str] = (), exclude: Sequence[str] = (), **_: Any) -> dict[str, str]:
        """What a notebook shows of it as the last line of a cell: rich's own way, of which it would need the base."""
        from rich.jupyter import JupyterMixin

        return JupyterMixin._repr_mimebundle_(cast("ConsoleRenderable", self), include, exclude)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, for rich.print or the last line of a notebook cell>"


@dataclass(frozen=True, slots=True)
class Paint:
    """How to show a colour of the scale on this console."""

    coloured: bool
    dark: bool

    def style(self, heat: int) -> Style | str:
        """Background and readable ink of a heat; nothing for heat 0 or without colour."""
        from rich.style import Style

        if not heat or not self.coloured:
            return ""
        swatch = scale.ramp(dark=self.dark)[heat - 1]
        return Style(color=swatch.ink, bgcolor=swatch.paper)

    def bar(self, nats: float, heat: int, columns: int) -> Text:
        """A bar on the common scale, to an eighth of a column."""
        from rich.style import Style
        from rich.text import Text

        eighths = round(scale.position(nats) * columns * 8)
        text = "█" * (eighths // 8) + ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")[eighths % 8]
        if not self.coloured:
            return Text(text)
        # The palest tints vanish on the terminal's own background; a bar needs the stronger half of the ramp.
        return Text(text, style=Style(color=scale.ramp(dark=self.dark)[max(heat, 9) - 1].paper))


def _dark_terminal() -> bool:
    """Whether the background is dark: terminals that say so do it in COLORFGBG ("15;0"); most are."""
    return os.environ.get("COLORFGBG", "").rpartition(";")[2] not in {"7", "15"}


def heading(words: str) -> Text:
    """A line above a part."""
    from rich.text import Text

    return Text(words, style="bold underline")


def facts(told: Mapping[str, str]) -> Text:
    """How something was measured, on a few dim lines; the hash of the weights is for pages."""
    from rich.text import Text

    shown = (f"{name.lower()} {value}" for name, value in told.items() if name != "Weights (SHA-256)")
    return Text(" · ".join(shown), style="dim")


def shaded(tokens: Sequence[str], nats: Sequence[float], floor_nats: float, paint: Paint) -> Text:
    """A response, each token shaded by its nats."""
    from rich.text import Text

    text = Text()
    for token, value in zip(tokens, nats, strict=True):
        heat = scale.heat(value, floor_nats)
        text.append(visible(token), paint.style(heat))
        if heat and not paint.coloured:
            text.append(block(heat))
    return text


def block(heat: int) -> str:
    """A colour of the scale where there is none."""
    return BLOCKS[(heat - 1) * len(BLOCKS) // scale.BINS]


def legend(paint: Paint, quiet: str = "", *, after: str = "") -> Text:
    """The ticks of the scale in their colours; `quiet` says what has none."""
    from rich.text import Text

    text = Text("nats  ", style="dim")
    text.append(quiet, "dim")
    for tick in scale.TICKS_NATS:
        heat = scale.heat(tick, 0.0)
        mark = "" if paint.coloured else block(heat)
        text.append(f" {mark}{tick:g}{'+' if tick == scale.TOP_NATS else ''} ", paint.style(heat))
    text.append(after, "dim")
    return text
