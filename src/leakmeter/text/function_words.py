"""Words that hold a sentence together and say nothing by themselves, in four languages.

Words of negation and of time are not among them, except 'now': 'not', 'never' and 'yesterday' tell something.
"""

from __future__ import annotations

from typing import Final

from leakmeter.text import matching

_WORDS: Final = (
    "a an and are as at be been but by can could did do does for from had has have he her here him his how i if "
    "in is it its just me my now of on only or our per she since so still than that the their them then there "
    "these they this those through to too us was we were what when where which while who whom whose why will with "
    "would you your",
    "aber als am an auch auf aus bei bis da dann das dass dem den der des die dort du durch ein eine einem einen "
    "einer es für hat haben her hier ich ihr im in ins ist jetzt mit nach nun nur ob oder sein seine sich sie "
    "sind so um und uns vom von vor war waren was wenn wer wie wird wir wo wurde zu zum zur",
    "à alors au aux avec ce ces cette chez comme dans de des donc du elle en est et eux il ils je la le les leur "
    "lui ma mais me mes moi mon notre nous on ou où par pour puis quand que qui sa se ses son sont sur ta te tes "
    "tu un une vos votre vous y maintenant",
    "al ahora aunque como con cuando de del donde el ella ellos en entre es esta este ha han la las le les lo los "
    "luego me mi mis o para pero por porque que se ser son su sus también te tu un una y ya",
)
_TITLES: Final = "dr herr frau mr mrs ms miss mx prof sir mme mlle monsieur madame señor señora sr sra"
_FOLDED: Final = frozenset(matching.folded(word) for line in (*_WORDS, _TITLES) for word in line.split())


def are_all(text: str) -> bool:
    """Whether a text has no other words; true also of one without words."""
    return all(word in _FOLDED for word, _, _ in matching.words(text))
