"""How the page looks: on a screen of any width, light or dark, and on paper.

Colours of series are those of Okabe and Ito, which people with any kind of colour vision can tell apart, darkened or
lightened for the background. The script reads them from here, so plots and page never disagree.
"""

from typing import Final

_LIGHT = """--ink:#16202b;--soft:#5b6876;--line:#dde3ea;--paper:#ffffff;--ground:#f4f6f9;--accent:#0b5cad;
--good:#0a7350;--good-ground:#e3f4ed;--warn:#9a5b00;--warn-ground:#fdf1dc;--bad:#b3261e;--bad-ground:#fce8e6;
--calm:#44546a;--calm-ground:#e9eef5;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#aa4499;--c4:#8a6d00;--c5:#3fa3d9;--c6:#4b4b4b;--c7:#cc79a7;
--o0:#d55e00;--o1:#b08a00;--o2:#7a3e9d;--h0:#e8f1fa;--h1:#a9cde9;--h2:#56a0d3;--h3:#1f6aa5;--h4:#08306b"""
_DARK = """--ink:#e6ebf1;--soft:#9aa7b5;--line:#2c3641;--paper:#161c23;--ground:#0e1318;--accent:#74b7f2;
--good:#57d3a1;--good-ground:#12342a;--warn:#f3b95f;--warn-ground:#3a2a10;--bad:#ff8a80;--bad-ground:#43191a;
--calm:#a9bbd1;--calm-ground:#222d3a;
--c0:#56b4e9;--c1:#ff9046;--c2:#35cf9f;--c3:#e08bd2;--c4:#e6c84f;--c5:#9bd3f5;--c6:#b6bfc9;--c7:#f0a6cb;
--o0:#ff9046;--o1:#e6c84f;--o2:#c39be0;--h0:#172a3d;--h1:#1d4e79;--h2:#2f86c4;--h3:#7cc4f2;--h4:#e9f6ff"""

STYLE: Final = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
* {{ box-sizing: border-box }}
html {{ scroll-behavior: smooth; -webkit-text-size-adjust: 100% }}
body {{ margin: 0; color: var(--ink); background: var(--ground);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif }}
.skip {{ position: absolute; left: -100vw }} .skip:focus {{ left: 1rem; top: 1rem; background: var(--paper);
  padding: .5rem }}
.page {{ max-width: 74rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem }}
header h1 {{ margin: 0; font-size: 1.7rem; letter-spacing: -.02em; line-height: 1.2 }}
header p {{ margin: .3rem 0 1.25rem; color: var(--soft) }}
h2 {{ margin: 0; font-size: 1.25rem; letter-spacing: -.01em; line-height: 1.25 }}
h3 {{ margin: 0; font-size: 1rem; line-height: 1.3 }}
p {{ margin: .4rem 0; max-width: 46rem }} a {{ color: var(--accent) }}
.verdict {{ display: flex; gap: 1rem; align-items: center; padding: 1.1rem 1.25rem; border-radius: .75rem;
  border: 1px solid currentColor; margin-bottom: 1rem }}
.verdict h2 {{ font-size: 1.35rem }} .verdict p {{ margin: .2rem 0 0; color: var(--ink) }}
.verdict .sign {{ flex: none; width: 2.6rem; height: 2.6rem; border-radius: 50%; display: grid; place-items: center;
  font-size: 1.3rem; font-weight: 700; color: var(--paper); background: currentColor; position: relative }}
.verdict .sign {{ color: inherit; background: none; border: 2.5px solid }}
.good.verdict {{ color: var(--good); background: var(--good-ground) }}
.warn.verdict {{ color: var(--warn); background: var(--warn-ground) }}
.bad.verdict {{ color: var(--bad); background: var(--bad-ground) }}
.none.verdict {{ color: var(--calm); background: var(--calm-ground) }}
.tiles {{ display: grid; gap: .75rem; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); margin: 0 0 1rem }}
.tile {{ background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; padding: .8rem 1rem }}
.tile dt {{ color: var(--soft); font-size: .85rem }}
.tile dd {{ margin: 0; font-size: 1.55rem; font-weight: 650; letter-spacing: -.02em; line-height: 1.25;
  font-variant-numeric: tabular-nums }}
.tile dd.note {{ font-size: .8rem; font-weight: 400; letter-spacing: 0 }}
.note, .rest {{ color: var(--soft); font-size: .85rem }}
nav ul {{ list-style: none; display: flex; flex-wrap: wrap; gap: .4rem; padding: 0; margin: 0 0 1rem }}
nav a {{ display: block; padding: .25rem .8rem; border: 1px solid var(--line); border-radius: 99px; font-size: .9rem;
  background: var(--paper); text-decoration: none }}
nav a:hover, nav a:focus-visible {{ border-color: var(--accent) }}
section {{ background: var(--paper); border: 1px solid var(--line); border-radius: .75rem; padding: 1.25rem;
  margin: 0 0 1rem;
  scroll-margin-top: 1rem }}
.lead {{ color: var(--soft); margin: .25rem 0 1rem; max-width: 60rem }}
.nothing {{ margin: 0; padding: .8rem 1rem; border-radius: .5rem; background: var(--ground); color: var(--soft);
  max-width: none }}
figure {{ margin: 0 0 1.5rem }} section > :last-child {{ margin-bottom: 0 }}
figcaption p {{ color: var(--soft); font-size: .9rem; margin: .1rem 0 .3rem }}
.plot {{ width: 100%; overflow: hidden }}
details {{ font-size: .9rem; margin-top: .3rem }} summary {{ cursor: pointer; color: var(--accent);
  width: max-content }}
.wide {{ overflow-x: auto; margin: .5rem 0 1rem; border-radius: .5rem }}
table {{ border-collapse: collapse; width: 100%; font-size: .9rem; font-variant-numeric: tabular-nums }}
caption {{ text-align: left; font-weight: 600; padding: .2rem 0 .5rem }}
th, td {{ padding: .4rem .75rem .4rem 0; text-align: left; border-top: 1px solid var(--line); vertical-align: top;
  overflow-wrap: break-word; min-width: 3.5rem }}
thead th {{ border-top: 0; color: var(--soft); font-weight: 500; font-size: .8rem; vertical-align: bottom;
  overflow-wrap: normal }}
tbody th {{ font-weight: 600 }} th.figure, td.figure {{ text-align: right }} td.figure {{ white-space: nowrap }}
td:last-child, th:last-child {{ padding-right: 0 }}
.badge {{ display: inline-block; padding: .05rem .55rem; border-radius: 99px; font-size: .78rem; font-weight: 600;
  line-height: 1.5 }}
.badge.good {{ color: var(--good); background: var(--good-ground) }} .badge.warn {{ color: var(--warn);
  background: var(--warn-ground) }}
.badge.bad {{ color: var(--bad); background: var(--bad-ground) }} .badge.calm {{ color: var(--calm);
  background: var(--calm-ground) }}
.score {{ display: inline-flex; gap: .5rem; align-items: center; font-weight: 600; white-space: nowrap }}
.score .bar {{ width: 3.5rem; height: .5rem; border-radius: 99px;
  background: linear-gradient(currentColor, currentColor) left / var(--w) 100% no-repeat var(--line) }}
.score.good {{ color: var(--good) }} .score.warn {{ color: var(--warn) }} .score.bad {{ color: var(--bad) }}
.cards {{ list-style: none; padding: 0; margin: 0; display: grid; gap: .75rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)) }}
.card {{ border: 1px solid var(--line); border-left: .3rem solid var(--calm); border-radius: .5rem; padding: .8rem 1rem;
  overflow-wrap: anywhere }}
.card.bad {{ border-left-color: var(--bad) }} .card.warn {{ border-left-color: var(--warn) }}
.card-head {{ display: flex; gap: .75rem; justify-content: space-between; align-items: start }}
.card-head .badge {{ flex: none }}
.card p {{ margin: .35rem 0; font-size: .92rem }} .card p.note {{ font-size: .82rem }}
code, pre {{ font: .85em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }}
code {{ overflow-wrap: anywhere }}
pre.command {{ margin: .5rem 0; padding: .5rem .75rem; border-radius: .4rem; background: var(--ground);
  border: 1px solid var(--line);
  white-space: pre-wrap; overflow-wrap: anywhere; user-select: all }}
footer {{ color: var(--soft); font-size: .85rem; margin-top: 1.5rem }}
:focus-visible {{ outline: 2px solid var(--accent); outline-offset: 2px }}
@media (max-width: 40rem) {{
  .page {{ padding: 1rem .75rem 3rem }} section {{ padding: 1rem .85rem }}
  header h1 {{ font-size: 1.4rem }} .tiles {{ grid-template-columns: 1fr 1fr; gap: .5rem }}
  .tile dd {{ font-size: 1.25rem }}
  .tile {{ padding: .6rem .75rem }}
  /* A row becomes a card: each cell says its own head. */
  thead {{ position: absolute; left: -100vw }} table, tbody, tr, caption {{ display: block }}
  tr {{ border-top: 1px solid var(--line); padding: .5rem 0 }}
  tr > * {{ display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .12rem 0; text-align: right;
    min-width: 0 }}
  tr > *::before {{ content: attr(data-head); color: var(--soft); font-weight: 400; text-align: left; flex: none }}
  tbody th {{ text-align: left; font-size: .95rem }} tbody th::before {{ content: none }}
  td.figure {{ white-space: normal }}
}}
@page {{ margin: 14mm }}
@media print {{
  :root {{ color-scheme: light; {_LIGHT}; --ground: #fff }}
  body {{ font-size: 10pt }} .page {{ max-width: none; padding: 0 }} nav, details, .skip {{ display: none }}
  section {{ border: 0; border-top: 1.5pt solid var(--ink); border-radius: 0; padding: 10pt 0 }}
  figure, tr, .card, .verdict, .tile {{ break-inside: avoid }} h2, h3, caption, .lead {{ break-after: avoid }}
  .wide {{ overflow: visible }} thead {{ display: table-header-group }} table {{ font-size: 8pt }}
  th, td {{ min-width: 0 }}
  .nothing {{ padding: 0 }} * {{ print-color-adjust: exact; -webkit-print-color-adjust: exact }}
}}
@media (prefers-reduced-motion: reduce) {{ html {{ scroll-behavior: auto }} }}
""".strip()
