"""Recipes: what a lock becomes for those who run it. One `Plan` a target, and one pure renderer a format."""
