"""Which counter a conversation gets: the caller's own, one registered for the model, the exact one,
or the estimate.

Nothing asked for: the exact counter where the extra `exact` is installed and the vocabulary is the
model's own, as with OpenAI, else the estimate, which is faster and after a few replies nearly as
good. `"exact"` asks for the nearest vocabulary whatever the model; a missing package gives the
estimate and a note. Whichever it is, it carries the framing of the model's provider. Neighbours:
`counter`, `exact`, `framing`.
"""

from __future__ import annotations

from msgspec.structs import replace

from refold.checked import shown
from refold.display import suggestion
from refold.errors import Invalid
from refold.tokens import exact
from refold.tokens.counter import ESTIMATE, Count, Counter, custom, framing_for
from refold.tokens.estimate import NAME
from refold.tokens.models import Model, listed_name, model_info

EXACT = "exact"

_registered: dict[str, Counter] = {}


def register_counter(model: str, function: Count) -> None:
    """From now on conversations with this model, or one whose name begins with it and goes on with
    another word, are counted by the function."""
    counter = function if isinstance(function, Counter) else custom(function)
    _registered[model.strip().lower()] = counter


def forget_counter(model: str) -> None:
    """Removes a registered counter; does nothing where there is none."""
    _registered.pop(model.strip().lower(), None)


def counter_for(given: Count | str | None, model: str | None = None) -> Counter:
    """The counter for what a caller gave: nothing, a name (`estimate`, `exact`, a vocabulary),
    or a function. A counter is taken as it is."""
    if isinstance(given, Counter):
        return given
    info = model_info(model)
    if given is None:
        chosen = _registered_for(model or "") or _own_vocabulary(info) or ESTIMATE
    elif isinstance(given, str):
        chosen = _by_name(given, info)
    else:
        chosen = custom(given)
    return replace(chosen, framing=framing_for(info))


def _registered_for(model: str) -> Counter | None:
    """The counter registered for this model: by its name, or by the longest that its name begins
    with, as in the table of models."""
    return _registered.get(listed_name(model.strip().lower(), _registered))


def _own_vocabulary(model: Model) -> Counter | None:
    """The exact counter, if the model's own vocabulary is published and installed."""
    is_own = model.provider == "openai" and exact.installed()
    return _vocabulary_counter(exact.nearest(model.name)) if is_own else None


def _by_name(given: str, model: Model) -> Counter:
    name = given.strip().lower()
    if name == NAME:
        return ESTIMATE
    known = (NAME, EXACT, *exact.VOCABULARIES)
    if name not in known:
        raise Invalid(f"there is no counter {shown(given)}", hint=suggestion(name, known))
    if not exact.installed():
        note = f"counter={given!r} needs the extra exact, so the estimate counts; {exact.HINT}"
        return replace(ESTIMATE, note=note)
    return _vocabulary_counter(exact.nearest(model.name) if name == EXACT else name)


def _vocabulary_counter(name: str) -> Counter:
    return Counter(name, exact.vocabulary(name).count)
