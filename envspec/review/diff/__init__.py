"""The review of a new lock: two locks compared, the meaning of each change, and the answer as text, Markdown, HTML,
JSON.

Why it is so: docs/design/14-reviews.md.
"""
