"""Cross-lingual alignment of a model's sentence embeddings (MEXA), from text to covariate.

`alignment` scores arrays, `extract` makes them with torch, `parallel` reads the
sentences, `covariate` joins the scores to a benchmark's languages, `downstream` is the
paper's line from alignment to a task's scores. The method is that
of Kargaran and others, "MEXA: Multilingual Evaluation of English-Centric LLMs via
Cross-Lingual Alignment", arXiv:2410.05873.
"""

from bayeseval.mexa.alignment import chance, mu, pool, score
from bayeseval.mexa.covariate import load_covariate
from bayeseval.mexa.report import alignment_figure
from bayeseval.mexa.tables import read_alignment

__all__ = ["alignment_figure", "chance", "load_covariate", "mu", "pool", "read_alignment", "score"]
