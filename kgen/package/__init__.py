"""A package: the folder of readable files a compile ends in. Its texts, and the only code that writes them."""
