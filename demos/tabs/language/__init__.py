"""Language: tokens, word order, counts and word vectors."""
