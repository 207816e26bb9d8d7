"""`refold chat`: a small agent in a terminal, to be used and to be read as an example.

`loop` is the agent: request, stream, record, tools, again. Around it: `tools`, `workspace` and
`process` (what the model may do), `lines` and `prompt` (what the person types), `slash` (commands),
`shown` (what is printed), `scripted` (an agent without a model)."""
