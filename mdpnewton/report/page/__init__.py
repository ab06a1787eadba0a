"""Run folders as one page of HTML that needs no network; it is made from their files alone."""

from mdpnewton.report.page.document import document
from mdpnewton.report.page.pages import page_of

__all__ = ["document", "page_of"]
