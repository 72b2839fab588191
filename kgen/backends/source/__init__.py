"""Python source text as every back-end prints it: lines that fit, imports, the user's module, host tables."""
