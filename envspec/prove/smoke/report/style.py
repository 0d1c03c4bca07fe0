"""The style of the page of smoke runs: that of envspec's other pages, with a matrix, bars and curves."""

STYLE = """
:root {
  color-scheme: light dark; --line: #8886; --soft: #8882; --page: #fff; --text: #1b1b1b; --quiet: #595959;
  --fail: #b71c1c; --error: #7a4700; --pass: #1b6e25; --skip: #595959; --link: #0b57b0;
  --l0: #0b62c4; --l1: #b45309; --l2: #15803d; --l3: #a21caf; --l4: #4b5563; --l5: #be123c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #16181b; --text: #e8e8e8; --quiet: #b0b0b0; --fail: #ff8a80; --error: #ffcc66; --pass: #81c784;
    --skip: #b0b0b0; --link: #8ab8ff;
    --l0: #6cb2ff; --l1: #ffb454; --l2: #7ddc8f; --l3: #e9a8ff; --l4: #c0c7d0; --l5: #ff9aa8;
  }
}
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem;
  background: var(--page); color: var(--text); overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; margin: 0; } h2 { font-size: 1.1rem; margin: 0; display: inline; }
h3 { font-size: 1rem; margin: 1.2rem 0 .3rem; } p { margin: .3rem 0; } a { color: var(--link); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
.quiet { color: var(--quiet); }
.pass { color: var(--pass); } .fail { color: var(--fail); } .error { color: var(--error); }
.skip { color: var(--skip); }
.banner { border-left: .4rem solid currentColor; padding: .3rem 0 .3rem .8rem; margin: 0 0 1rem; }
.banner h1 { color: inherit; }
.alarm { border: 2px solid var(--error); border-radius: .4rem; padding: .5rem 1rem; }
.said { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.scroll { overflow-x: auto; position: relative; }
table { border-collapse: collapse; } table.full { width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
table.full td, table.full th { overflow-wrap: normal; }
caption { text-align: left; color: var(--quiet); padding-bottom: .3rem; }
.matrix th, .matrix td { padding: .25rem .35rem; }
.matrix td { text-align: center; white-space: nowrap; border-left: 1px solid var(--soft); }
.matrix thead th { white-space: nowrap; }
.matrix tbody th { font-weight: 400; min-width: 9rem; max-width: 18rem; overflow-wrap: anywhere; }
.matrix .check { vertical-align: bottom; font-weight: 400; border-left: 1px solid var(--soft); }
.matrix .check span { writing-mode: vertical-rl; transform: rotate(180deg); white-space: nowrap; max-height: 14rem; }
.matrix .group { font-size: .8rem; border-left: 1px solid var(--line); overflow-wrap: normal; }
.matrix td a { color: inherit; font-weight: 700; padding: .1rem .3rem; }
.run { border-top: 1px solid var(--line); padding: .6rem 0; }
summary { cursor: pointer; padding: .2rem 0; }
.finding { border-left: .25rem solid var(--line); padding: .1rem 0 .1rem .8rem; margin: .8rem 0; }
.finding.fail { border-color: var(--fail); color: inherit; } .finding.skip { color: inherit; }
.finding h4 { font-size: 1rem; margin: 0; }
pre { background: var(--soft); padding: .6rem; margin: .4rem 0; overflow: auto; max-height: 24rem; font-size: .85rem;
  white-space: pre-wrap; }
dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1rem; margin: .4rem 0; }
dt { color: var(--quiet); } dd { margin: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; } figcaption ul { list-style: none; padding: 0; margin: .2rem 0; }
.chart { width: 100%; max-width: 32rem; height: auto; display: block; }
.chart text { fill: var(--quiet); font: 13px system-ui, sans-serif; }
.grid { stroke: var(--line); stroke-width: .5; } .axis { stroke: var(--quiet); stroke-width: 1; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; } .key { width: 28px; height: 10px; }
.l0 { stroke: var(--l0); } .l1 { stroke: var(--l1); stroke-dasharray: 7 3; }
.l2 { stroke: var(--l2); stroke-dasharray: 2 3; }
.l3 { stroke: var(--l3); stroke-dasharray: 10 3 2 3; } .l4 { stroke: var(--l4); stroke-dasharray: 14 4; }
.l5 { stroke: var(--l5); stroke-dasharray: 4 2; }
.dot { fill: var(--page); stroke-width: 2; stroke-dasharray: none; }
.bar { width: 160px; height: 16px; display: block; margin-top: .25rem; }
.allowed { fill: var(--line); } .value { fill: var(--l0); } .value.low, .value.high { fill: var(--error); }
.mark { stroke: var(--text); stroke-width: 2; }
td.number, .nobreak { white-space: nowrap; font-variant-numeric: tabular-nums; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; } dl { grid-template-columns: minmax(0, 1fr); gap: 0; } dd { margin-bottom: .3rem; }
  .stack thead { position: absolute; clip-path: inset(50%); } .stack tr { display: block; padding: .3rem 0;
  border-bottom: 1px solid var(--line); } .stack th, .stack td { display: block; border: 0; padding: 0; }
}
@media print {
  @page { size: landscape; margin: 12mm; }
  :root { color-scheme: light; }
  body { font-size: 9pt; max-width: none; margin: 0; padding: 0; }
  .scroll { overflow: visible; } pre { max-height: none; }
  .matrix th, .matrix td { padding: .1rem .2rem; }
  details::details-content { content-visibility: visible; block-size: auto; }
  .finding, figure, tr { break-inside: avoid; } h2, h3, h4, summary { break-after: avoid; }
}
"""
