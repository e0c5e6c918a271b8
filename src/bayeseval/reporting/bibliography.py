"""Entries of the methods and data sets that results may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["ENTRIES", "SAMPLER_KEYS"]

#: Key to kind and fields of a BibTeX entry, as UTF-8.
ENTRIES: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "bayeseval": (
        "software",
        {
            "author": "{bayeseval contributors}",
            "title": "{bayeseval}: {Bayesian} multilevel models of incomplete multilingual "
            "evaluation tables",
            "note": "MIT licence",
        },
    ),
    "hu2025quantifying": (
        "misc",
        {
            "author": "Hu, Songbo and Vulić, Ivan and Korhonen, Anna",
            "title": "Quantifying Language Disparities in Multilingual Large Language Models",
            "year": "2025",
            "eprint": "2508.17162",
            "archiveprefix": "arXiv",
            "note": "Language potential and performance realisation ratio",
        },
    ),
    "saleva2025tests": (
        "misc",
        {
            "author": "Sälevä, Jonne and Ataman, Duygu and Lignos, Constantine",
            "title": "From tests to effect sizes: Quantifying uncertainty and statistical "
            "variability in multilingual and multitask {NLP} evaluation benchmarks",
            "year": "2025",
            "eprint": "2509.22612",
            "archiveprefix": "arXiv",
            "note": "Variance between replicates and its components",
        },
    ),
    "kargaran2024mexa": (
        "misc",
        {
            "author": "Kargaran, Amir Hossein and Modarressi, Ali and Nikeghbal, Nafiseh and "
            "Diesner, Jana and Yvon, François and Schütze, Hinrich",
            "title": "{MEXA}: Multilingual Evaluation of {English}-Centric {LLMs} via "
            "Cross-Lingual Alignment",
            "year": "2024",
            "eprint": "2410.05873",
            "archiveprefix": "arXiv",
        },
    ),
    "dryer2013wals": (
        "misc",
        {
            "editor": "Dryer, Matthew S. and Haspelmath, Martin",
            "title": "The World Atlas of Language Structures Online",
            "year": "2014",
            "url": "https://wals.info",
        },
    ),
    "hammarstrom2024glottolog": (
        "misc",
        {
            "author": "Hammarström, Harald and Forkel, Robert and Haspelmath, Martin and "
            "Bank, Sebastian",
            "title": "Glottolog 5.1",
            "year": "2024",
            "howpublished": "Leipzig: Max Planck Institute for Evolutionary Anthropology",
            "url": "https://glottolog.org",
        },
    ),
    "vehtari2024psis": (
        "article",
        {
            "author": "Vehtari, Aki and Simpson, Daniel and Gelman, Andrew and Yao, Yuling and "
            "Gabry, Jonah",
            "title": "{Pareto} smoothed importance sampling",
            "journal": "Journal of Machine Learning Research",
            "year": "2024",
            "volume": "25",
            "number": "72",
            "pages": "1--58",
            "eprint": "1507.02646",
            "archiveprefix": "arXiv",
        },
    ),
    "vehtari2017loo": (
        "article",
        {
            "author": "Vehtari, Aki and Gelman, Andrew and Gabry, Jonah",
            "title": "Practical {Bayesian} model evaluation using leave-one-out "
            "cross-validation and {WAIC}",
            "journal": "Statistics and Computing",
            "year": "2017",
            "volume": "27",
            "number": "5",
            "pages": "1413--1432",
            "doi": "10.1007/s11222-016-9696-4",
        },
    ),
    "vehtari2021rhat": (
        "article",
        {
            "author": "Vehtari, Aki and Gelman, Andrew and Simpson, Daniel and Carpenter, Bob and "
            "Bürkner, Paul-Christian",
            "title": "Rank-normalization, folding, and localization: An improved {R-hat} for "
            "assessing convergence of {MCMC}",
            "journal": "Bayesian Analysis",
            "year": "2021",
            "volume": "16",
            "number": "2",
            "pages": "667--718",
            "doi": "10.1214/20-BA1221",
        },
    ),
    "betancourt2016bfmi": (
        "misc",
        {
            "author": "Betancourt, Michael",
            "title": "Diagnosing suboptimal cotangent disintegrations in {Hamiltonian} "
            "{Monte} {Carlo}",
            "year": "2016",
            "eprint": "1604.00695",
            "archiveprefix": "arXiv",
        },
    ),
    "hoffman2014nuts": (
        "article",
        {
            "author": "Hoffman, Matthew D. and Gelman, Andrew",
            "title": "The {No-U-Turn} sampler: Adaptively setting path lengths in "
            "{Hamiltonian} {Monte} {Carlo}",
            "journal": "Journal of Machine Learning Research",
            "year": "2014",
            "volume": "15",
            "number": "47",
            "pages": "1593--1623",
        },
    ),
    "phan2019numpyro": (
        "misc",
        {
            "author": "Phan, Du and Pradhan, Neeraj and Jankowiak, Martin",
            "title": "Composable effects for flexible and accelerated probabilistic programming "
            "in {NumPyro}",
            "year": "2019",
            "eprint": "1912.11554",
            "archiveprefix": "arXiv",
        },
    ),
    "abrilpla2023pymc": (
        "article",
        {
            "author": "Abril-Pla, Oriol and Andreani, Virgile and Carroll, Colin and Dong, Larry "
            "and Fonnesbeck, Christopher J. and Kochurov, Maxim and Kumar, Ravin and Lao, Junpeng "
            "and Luhmann, Christian C. and Martin, Osvaldo A. and Osthege, Michael and "
            "Vieira, Ricardo and Wiecki, Thomas and Zinkov, Robert",
            "title": "{PyMC}: A modern and comprehensive probabilistic programming framework in "
            "{Python}",
            "journal": "PeerJ Computer Science",
            "year": "2023",
            "volume": "9",
            "pages": "e1516",
            "doi": "10.7717/peerj-cs.1516",
        },
    ),
    "cabezas2024blackjax": (
        "misc",
        {
            "author": "Cabezas, Alberto and Corenflos, Adrien and Lao, Junpeng and Louf, Rémi",
            "title": "{BlackJAX}: Composable {Bayesian} inference in {JAX}",
            "year": "2024",
            "eprint": "2402.10797",
            "archiveprefix": "arXiv",
        },
    ),
    "nutpie": (
        "software",
        {
            "author": "{PyMC Developers}",
            "title": "{nutpie}: a fast sampler for {Bayesian} posteriors",
            "url": "https://github.com/pymc-devs/nutpie",
        },
    ),
    "seabold2010statsmodels": (
        "inproceedings",
        {
            "author": "Seabold, Skipper and Perktold, Josef",
            "title": "statsmodels: Econometric and statistical modeling with {Python}",
            "booktitle": "Proceedings of the 9th Python in Science Conference",
            "year": "2010",
        },
    ),
    "kumar2019arviz": (
        "article",
        {
            "author": "Kumar, Ravin and Carroll, Colin and Hartikainen, Ari and Martin, Osvaldo",
            "title": "{ArviZ} a unified library for exploratory analysis of {Bayesian} models in "
            "{Python}",
            "journal": "Journal of Open Source Software",
            "year": "2019",
            "volume": "4",
            "number": "33",
            "pages": "1143",
            "doi": "10.21105/joss.01143",
        },
    ),
    "gelman2005anova": (
        "article",
        {
            "author": "Gelman, Andrew",
            "title": "Analysis of variance---why it is more important than ever",
            "journal": "The Annals of Statistics",
            "year": "2005",
            "volume": "33",
            "number": "1",
            "pages": "1--53",
            "doi": "10.1214/009053604000001048",
        },
    ),
    "gelman1996checking": (
        "article",
        {
            "author": "Gelman, Andrew and Meng, Xiao-Li and Stern, Hal",
            "title": "Posterior predictive assessment of model fitness via realized discrepancies",
            "journal": "Statistica Sinica",
            "year": "1996",
            "volume": "6",
            "number": "4",
            # With the discussion.
            "pages": "733--807",
        },
    ),
    "kallioinen2024powerscale": (
        "article",
        {
            "author": "Kallioinen, Noa and Paananen, Topi and Bürkner, Paul-Christian and "
            "Vehtari, Aki",
            "title": "Detecting and diagnosing prior and likelihood sensitivity with power-scaling",
            "journal": "Statistics and Computing",
            "year": "2024",
            "volume": "34",
            "pages": "57",
            "doi": "10.1007/s11222-023-10366-5",
        },
    ),
    "meng1996bridge": (
        "article",
        {
            "author": "Meng, Xiao-Li and Wong, Wing Hung",
            "title": "Simulating ratios of normalizing constants via a simple identity: a "
            "theoretical exploration",
            "journal": "Statistica Sinica",
            "year": "1996",
            "volume": "6",
            "number": "4",
            "pages": "831--860",
        },
    ),
}

#: NUTS of the engine ``pymc`` that are not its own, and what else they use.
SAMPLER_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "numpyro": ("phan2019numpyro",),
    "blackjax": ("cabezas2024blackjax",),
    "nutpie": ("nutpie",),
}
