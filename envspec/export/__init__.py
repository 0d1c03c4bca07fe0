"""Recipes: files that make images and environments from a lock. One `Plan` per target, one pure renderer per format.

Why it is so: docs/design/21-recipes.md.
"""
