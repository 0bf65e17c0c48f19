"""What the tests of models share."""

import pytest

from hf_attn.models import performer_reformer


@pytest.fixture
def small_blocks(monkeypatch):
    """Efficient attention works block by block: let rows of a few tokens fill several."""
    monkeypatch.setattr(performer_reformer, "CAUSAL_BLOCK", 3)
    monkeypatch.setattr("hf_attn.models.efficient_attention.SMALLEST_BLOCK", 2)
