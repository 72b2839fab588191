def matvec(a, x):
    return a @ x


reference = matvec
