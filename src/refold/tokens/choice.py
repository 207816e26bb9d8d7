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
from refold.tokens.counter import ESTIMATE, Count, Counter, custom
from refold.tokens.estimate import NAME
from refold.tokens.framing import framing_for
from refold.tokens.models import Model, model_info

EXACT = "exact"

_registered: dict[str, Counter] = {}


def register_counter(model: str, function: Count) -> None:
    """From now on conversations with this model, or one whose name begins with it, are counted
    by the function."""
    counter = function if isinstance(function, Counter) else custom(function)
    _registered[model.strip().lower()] = counter


def forget_counter(model: str) -> None:
    """Removes a registered counter; does nothing where there is none."""
    _registered.pop(model.strip().lower(), None)


def counter_for(given: Count | str | None, model: Model | str | None = None) -> Counter:
    """The counter for what a caller gave: nothing, a name (`estimate`, `exact`, a vocabulary),
    or a function. A counter is taken as it is."""
    if isinstance(given, Counter):
        return given
    model = model if isinstance(model, Model) else model_info(model)
    return replace(_chosen(given, model), framing=framing_for(model))


def _chosen(given: Count | str | None, model: Model) -> Counter:
    if given is None:
        return _registered_for(model.name) or _own_vocabulary(model) or ESTIMATE
    if isinstance(given, str):
        return _by_name(given, model)
    return custom(given)


def _registered_for(model: str) -> Counter | None:
    """The counter registered for the longest name that the model's begins with."""
    names = [name for name in _registered if model.startswith(name)]
    return _registered[max(names, key=len)] if names else None


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
