"""The main job, live: one scripted agent, the same tool stream to a sliding window and to refold.

`script` has the scratch copy, its tools and the agent's turns, `sides` the ways to send a
conversation and their cost, `questions` the search for answers at the end, `proofs` three promises,
`story` the run itself, `report` its figures and tables, `screen` the display. There is no key, no
network and no recorded text: every figure is measured in the run.
"""
