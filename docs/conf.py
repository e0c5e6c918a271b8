"""Sphinx configuration of the pages."""

from __future__ import annotations

import bayeseval

project = "bayeseval"
author = "bayeseval contributors"
copyright = "bayeseval contributors"
release = version = bayeseval.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3  # links such as model.md#priors
exclude_patterns = ["_build"]

html_theme = "alabaster"
html_theme_options = {"description": "Language potential and model disparity, with uncertainty"}
html_title = f"bayeseval {release}"

autodoc_typehints = "none"  # numpydoc docstrings say the types
numpydoc_show_class_members = False
