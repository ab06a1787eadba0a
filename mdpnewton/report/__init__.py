"""Figures: one look for all of them."""
