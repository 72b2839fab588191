def column_sum(x):
    return x.sum(0)


reference = column_sum
