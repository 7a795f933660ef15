"""The memory bill: what lies on each GPU and each host, in every phase, and what would make it fit.

To read in this order. `setup`: the inputs. `amount`: a number of bytes with the words to check it. `parameters`,
`terms` and `kv`: the laws, one function per term. `roles`: which terms a role holds in which phase. `bill`: the sum,
and whether it fits. `explain`: which field dominates. `changes`, `fitting` and `minimum`: what would fit.
"""
