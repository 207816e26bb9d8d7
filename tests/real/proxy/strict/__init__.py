"""An upstream as strict as the providers, for tests of what stands between an agent and a model.

Written from the providers' documents only: nothing here imports refold, so what it refuses is an
outside check. Every rule names the row of the reference it comes from (T1 to T5, P1 to P9, A1, A2,
C1, X1 to X3). `server.serving(...)` runs it; `script` says what it answers.
"""

from __future__ import annotations
