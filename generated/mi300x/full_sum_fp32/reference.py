def full_sum(x):
    return x.sum()


reference = full_sum
