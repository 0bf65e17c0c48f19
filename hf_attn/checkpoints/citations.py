"""What to cite for a model: BibTeX by model type and architecture."""

from hf_attn.architectures.families import FAMILIES

TRANSFORMER = """\
@inproceedings{vaswani2017attention,
  title     = {Attention Is All You Need},
  author    = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and
               Gomez, Aidan N. and Kaiser, {\\L}ukasz and Polosukhin, Illia},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2017},
  url       = {https://arxiv.org/abs/1706.03762}
}"""
LSTM = """\
@article{hochreiter1997lstm,
  title   = {Long Short-Term Memory},
  author  = {Hochreiter, Sepp and Schmidhuber, J{\\"u}rgen},
  journal = {Neural Computation},
  year    = {1997},
  doi     = {10.1162/neco.1997.9.8.1735}
}"""
SEQUENCE_TO_SEQUENCE = """\
@inproceedings{sutskever2014sequence,
  title     = {Sequence to Sequence Learning with Neural Networks},
  author    = {Sutskever, Ilya and Vinyals, Oriol and Le, Quoc V.},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2014},
  url       = {https://arxiv.org/abs/1409.3215}
}"""
ADDITIVE = """\
@inproceedings{bahdanau2015neural,
  title     = {Neural Machine Translation by Jointly Learning to Align and Translate},
  author    = {Bahdanau, Dzmitry and Cho, Kyunghyun and Bengio, Yoshua},
  booktitle = {International Conference on Learning Representations},
  year      = {2015},
  url       = {https://arxiv.org/abs/1409.0473}
}"""
MULTIPLICATIVE = """\
@inproceedings{luong2015effective,
  title     = {Effective Approaches to Attention-based Neural Machine Translation},
  author    = {Luong, Thang and Pham, Hieu and Manning, Christopher D.},
  booktitle = {Empirical Methods in Natural Language Processing},
  year      = {2015},
  url       = {https://arxiv.org/abs/1508.04025}
}"""


def cite(model_type: str, architecture: str) -> tuple[str, ...]:
    """BibTeX entries of a model's architecture.

    Args:
        model_type: a key of `FAMILIES`.
        architecture: a name in `ARCHITECTURES`; one that is not known cites the family alone.
    """
    if not FAMILIES[model_type].is_recurrent:
        return (TRANSFORMER,)
    by_score = {
        "none": (SEQUENCE_TO_SEQUENCE,),
        "additive": (ADDITIVE,),
        **dict.fromkeys(("dot", "general", "concat"), (MULTIPLICATIVE,)),
    }
    return (LSTM, *by_score.get(architecture, ()))
