"""Stage times of one job: from a model, its lengths and a GPU to seconds of rollout and training on every GPU count.

work.py      what an iteration has to generate and to train
rollout.py   seconds of generation on N instances (event simulation of the instance that ends last)
training.py  seconds of update and log-prob passes (FLOPs, pipeline bubble, measured efficiency)
options.py   the best parallel layout of each GPU count that fits into memory
anchor.py    measured times win: the law is shifted through them
"""
