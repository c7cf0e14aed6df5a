"""Settings of the documentation site. `make docs` builds it without network; every warning is an error.

The source folder is the root of the repository, so that links from pages to results, settings and code are the same
files on the site and in a clone.
"""

import os
import tempfile
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

import remp

# The examples draw their characters into a home of their own, on one thread: pages do not depend on the machine.
os.environ.setdefault("REMP_HOME", os.path.join(tempfile.gettempdir(), "remp-docs-home"))
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).parent.parent

project = "remp"
author = "The authors of remp"
project_copyright = "the authors of remp (MIT licence)"
version = release = remp.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
root_doc = "docs/index"
include_patterns = ["docs/**", "results/**.md", "benchmarks/README.md", *(path.name for path in ROOT.glob("*.md"))]
exclude_patterns = [
    ".*",
    "docs/_build",
    "docs/_templates",
    "docs/gallery/*.ipynb",
    "runs",
    "src",
    "tests",
    "examples",
    "build",
    "dist",
]
nitpicky = True
# Names of other libraries and type variables; their pages would have to be fetched from the network.
nitpick_ignore_regex = [
    (r"py:.*", r"(torch|numpy|np|pathlib|sklearn|collections|typing|nn|scipy)\..*"),
    (r"py:.*", r"(Tensor|Path|Any|Callable|Literal|ClassVar|optional|default.*)"),
]
suppress_warnings = [
    "config.cache",  # the settings of the gallery hold a function
    "myst.header",  # tables that benchmarks print start with a smaller heading
]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

templates_path = [str(Path(__file__).parent / "_templates")]
autosummary_generate = True
autodoc_typehints = "none"  # types stand beside the parameters
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "docs/gallery",
    "filename_pattern": r"/\d\d_",
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "within_subsection_order": "FileNameSortKey",
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "remp"
html_static_path = ["_static"]
html_css_files = ["remp.css"]
html_show_sphinx = False
html_copy_source = False
html_math_renderer = "mathml"
html_extra_path = ["_root"]
html_sidebars = {"docs/index": [], "docs/glossary": []}
html_theme_options: dict[str, Any] = {
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_prev_next": True,
    "header_links_before_dropdown": 8,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}


def _mathml(node: nodes.Element, block: bool) -> str:
    try:
        return tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        logging.getLogger(__name__).warning("formula %r: %s", node.astext(), error, location=node)
        return ""


def _inline_formula(translator: Any, node: nodes.math) -> None:
    translator.body.append(_mathml(node, block=False))
    raise nodes.SkipNode


def _formula(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="formula">{_mathml(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    # Formulas as MathML, which browsers draw by themselves: MathJax would be fetched from the network.
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_formula, None))
