"""What a new lock changes: two locks compared, what each change means, and the answer as text, Markdown, HTML, JSON."""
