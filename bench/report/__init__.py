"""The report of a comparison: one HTML page, its plots as PNG, and report.json."""
