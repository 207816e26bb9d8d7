"""The main job, live: one scripted agent, the same tool stream to a sliding window and to refold.

`workshop` holds the scratch copy and the real tools, `script` what the agent does with them,
`sides` the three ways to send a conversation, `billing` what each request costs, `questions` what
can still be found, `story` the run itself, `screen` and `tables` how it looks. No key, no network,
no recorded text: every figure is measured in the run.
"""
