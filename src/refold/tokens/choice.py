"""Which counter a conversation gets: the caller's own, one plugged in for the model, the exact one,
or the estimate.

Nothing asked for: the exact counter where the extra `exact` is installed and the vocabulary is the
model's own, as with OpenAI, else the estimate, which is faster and after a few replies nearly as
good. `"exact"` asks for the nearest vocabulary whatever the model; a missing package gives the
estimate and a note. Whichever it is, it carries the framing of the model's provider. Neighbours:
`counter`, `exact`, `framing`.
"""

from __future__ import annotations

from msgspec.structs import replace

from refold.display import suggestion
from refold.errors import Invalid
from refold.tokens import exact
from refold.tokens.counter import ESTIMATE, Count, Counter, custom
from refold.tokens.estimate import NAME
from refold.tokens.framing import framing_for
from refold.tokens.models import Model, model_info

EXACT = "exact"

_plugged: dict[str, Counter] = {}


def plug(model: str, function: Count) -> None:
    """From now on conversations with this model, or one whose name begins with it, are counted
    by the function."""
    _plugged[model.strip().lower()] = (
        function if isinstance(function, Counter) else custom(function)
    )


def unplug(model: str) -> None:
    """Takes a plugged counter away again; does nothing where there is none."""
    _plugged.pop(model.strip().lower(), None)


def counter_for(given: Count | str | None, model: Model | str | None = None) -> Counter:
    """The counter for what a caller gave: nothing, a name (`estimate`, `exact`, a vocabulary),
    or a function. A counter is taken as it is."""
    if isinstance(given, Counter):
        return given
    model = model if isinstance(model, Model) else model_info(model)
    return replace(_chosen(given, model), framing=framing_for(model))


def _chosen(given: Count | str | None, model: Model) -> Counter:
    if given is None:
        return _plugged_for(model.name) or _own_vocabulary(model) or ESTIMATE
    return _by_name(given, model) if isinstance(given, str) else custom(given)


def _plugged_for(model: str) -> Counter | None:
    names = [name for name in _plugged if model.startswith(name)]
    return _plugged[max(names, key=len)] if names else None


def _own_vocabulary(model: Model) -> Counter | None:
    own = model.provider == "openai" and exact.installed()
    return _vocabulary_counter(exact.nearest(model.name)) if own else None


def _by_name(given: str, model: Model) -> Counter:
    name = given.strip().lower()
    if name == NAME:
        return ESTIMATE
    known = (NAME, EXACT, *exact.VOCABULARIES)
    if name not in known:
        raise Invalid(f"there is no counter {given!r}", hint=suggestion(name, known))
    if not exact.installed():
        return replace(
            ESTIMATE,
            note=f"counter={given!r} needs the extra exact, so the estimate counts; {exact.HINT}",
        )
    return _vocabulary_counter(exact.nearest(model.name) if name == EXACT else name)


def _vocabulary_counter(name: str) -> Counter:
    return Counter(name, exact.vocabulary(name).count)
