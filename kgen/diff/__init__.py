"""`kgen diff`: what changed between two sets of plans, and what turned each choice.

Above the pipeline: `sides` reads what is compared (packages, records, or two devices planned here), `changes` says what
differs, `replan` plans anew wherever the compiler at hand can, and `choices`, `turns` and `kernels` find out why.
"""
