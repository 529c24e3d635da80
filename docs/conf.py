"""The settings of Sphinx for these pages (make docs). The pages are written for where the repository is browsed, too."""

import re

project = "swh-scheduler in Go"
extensions = ["myst_parser"]
exclude_patterns = ["testdata", "devel/before-1.0.md"]

myst_heading_anchors = 6

html_theme = "alabaster"
html_theme_options = {"page_width": "70em", "fixed_sidebar": True}
html_show_copyright = False
html_show_sourcelink = False


def without_links_to_code(app, docname, source):
    """Replaces links to files outside of docs by their texts, as the built pages stand alone."""
    outside = r"\[([^\]]*)\]\((?:\.\./){%d}[^)]*\)" % (docname.count("/") + 1)
    source[0] = re.sub(outside, r"\1", source[0])


def setup(app):
    app.connect("source-read", without_links_to_code)
