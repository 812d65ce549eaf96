"""The look of a matrix's pages: one style sheet, light and dark, for wide and narrow screens."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #22303c; --soft: #55636f;
  --line: #dfe4e9; --rise: #f4f6f8; --link: #1766a6; --good: #14713f; --bad: #b3400f;
  --note: #fff4e0; --note-line: #d99a2b; }
@media (prefers-color-scheme: dark) { :root { --ground: #14191f; --text: #dde4ea;
  --soft: #a3b0bb; --line: #2c3640; --rise: #1c232b; --link: #7dbdf5; --good: #6fd39a;
  --bad: #ff9a62; --note: #33290f; --note-line: #a87a22; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1280px; padding: 24px 20px 60px; background: var(--ground);
  color: var(--text); font: 16px/1.5 "Segoe UI", "Helvetica Neue", "DejaVu Sans", Arial,
  sans-serif; overflow-wrap: break-word; }
h1 { font-size: 27px; line-height: 1.25; margin: 0 0 6px; }
h2 { font-size: 21px; margin: 48px 0 4px; padding-top: 14px; border-top: 2px solid var(--line); }
h3 { font-size: 17px; margin: 28px 0 4px; }
a { color: var(--link); } a:focus-visible, [tabindex]:focus-visible, summary:focus-visible {
  outline: 3px solid var(--link); outline-offset: 2px; }
.soft, .caption { color: var(--soft); } .caption { margin: 4px 0 12px; font-size: 15px; }
.lead { font-size: 18px; margin: 10px 0; } .lead ul, ul.verdicts { padding-left: 22px; }
ul.verdicts li { margin: 6px 0; }
.note { background: var(--note); border-left: 4px solid var(--note-line); padding: 10px 14px;
  margin: 14px 0; } .note ul { margin: 6px 0; padding-left: 22px; }
.wide { overflow-x: auto; margin: 8px 0; }
table { border-collapse: collapse; font-size: 15px; min-width: min(100%, 720px); }
th, td { padding: 5px 10px; text-align: right; border-bottom: 1px solid var(--line);
  vertical-align: top; font-variant-numeric: tabular-nums; }
th { font-weight: 600; } thead th { vertical-align: bottom; border-bottom: 2px solid var(--soft); }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--ground); }
tr.group th { background: var(--rise); }
td .range { display: block; color: var(--soft); font-size: 12.5px; white-space: nowrap; }
td { white-space: nowrap; }
td.words, thead th.words { white-space: normal; text-align: left; min-width: 15em; }
td.good { color: var(--good); font-weight: 600; } td.bad { color: var(--bad); font-weight: 600; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(320px, 1fr)); gap: 18px; }
figure { margin: 8px 0; } figure img { display: block; width: 100%; height: auto; }
figcaption { font-weight: 600; margin-bottom: 4px; }
dt { font-weight: 600; margin-top: 10px; } dd { margin: 0 0 0 20px; color: var(--soft); }
@media (max-width: 600px) { body { padding: 16px 12px 40px; } th, td { padding: 4px 7px; }
  table { font-size: 14px; } th:first-child { max-width: 38vw; }
  .figures { grid-template-columns: 1fr; } }
@media print { .wide { overflow: visible; } }
"""


def page(title: str, body: str) -> str:
    """A whole page; `title` is escaped already."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f"<title>{title}</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )
