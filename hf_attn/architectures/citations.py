"""BibTeX of the papers that FAMILIES cites; a card holds them for whoever uses a model."""

VASWANI = """\
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
SUTSKEVER = """\
@inproceedings{sutskever2014sequence,
  title     = {Sequence to Sequence Learning with Neural Networks},
  author    = {Sutskever, Ilya and Vinyals, Oriol and Le, Quoc V.},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2014},
  url       = {https://arxiv.org/abs/1409.3215}
}"""
BAHDANAU = """\
@inproceedings{bahdanau2015neural,
  title     = {Neural Machine Translation by Jointly Learning to Align and Translate},
  author    = {Bahdanau, Dzmitry and Cho, Kyunghyun and Bengio, Yoshua},
  booktitle = {International Conference on Learning Representations},
  year      = {2015},
  url       = {https://arxiv.org/abs/1409.0473}
}"""
LUONG = """\
@inproceedings{luong2015effective,
  title     = {Effective Approaches to Attention-based Neural Machine Translation},
  author    = {Luong, Thang and Pham, Hieu and Manning, Christopher D.},
  booktitle = {Empirical Methods in Natural Language Processing},
  year      = {2015},
  url       = {https://arxiv.org/abs/1508.04025}
}"""
