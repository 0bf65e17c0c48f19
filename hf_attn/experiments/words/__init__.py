"""Words of a text: their pieces, n-grams, order and vectors, as the Language tab shows them."""
