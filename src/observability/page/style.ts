// The style sheet of the status page: system fonts, two palettes, one card per section.
// Colours have a contrast of at least 4.5:1 against their background.

const palette = `
:root{color-scheme:light dark;--back:#f5f6f4;--card:#fff;--ink:#18201d;--soft:#566460;--line:#dde3e0;--track:#e6ebe8;
--good:#17714a;--busy:#1f5fa8;--warn:#8a5200;--bad:#b3261e;--wash:#fdf3f2}
@media (prefers-color-scheme:dark){:root{--back:#101413;--card:#181e1c;--ink:#e5eae7;--soft:#9aa8a3;--line:#2a3330;--track:#2a3330;
--good:#5fc795;--busy:#82b6ec;--warn:#e3b053;--bad:#f3938b;--wash:#251b1a}}`

const frame = `
*{box-sizing:border-box}
[hidden]{display:none!important}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;scrollbar-gutter:stable}
body{margin:0;background:var(--back);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;font-variant-numeric:tabular-nums}
main,header,footer,#lost{max-width:76rem;margin:0 auto;padding:0 1.5rem}
main:focus{outline:0}
:focus-visible{outline:2px solid var(--busy);outline-offset:2px;border-radius:.2rem}
.hidden,.skip:not(:focus){position:absolute;width:1px;height:1px;margin:-1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.skip:focus{position:absolute;z-index:1;margin:.5rem;padding:.5rem 1rem;background:var(--card)}
header{display:flex;flex-wrap:wrap;gap:.25rem .75rem;align-items:center;padding-top:1.5rem;color:var(--soft);font-size:.925rem}
header b{color:var(--ink);font-size:1.05rem}
.logo{width:1.75rem;height:1.75rem;fill:none;stroke:var(--good);stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.logo .water{stroke:var(--busy)}
.clock{margin-left:auto;display:flex;gap:.75rem;align-items:center}
button{font:inherit;color:inherit;background:none;border:1px solid var(--soft);border-radius:.4rem;padding:.1rem .7rem;cursor:pointer}
button[aria-pressed=true]{background:var(--ink);border-color:var(--ink);color:var(--back)}
#lost{margin-top:1rem;color:var(--bad);font-weight:600}
h1{font-size:clamp(1.35rem,1rem + 2vw,2rem);line-height:1.25;font-weight:600;letter-spacing:-.01em;margin:1.5rem 0 1.75rem;text-wrap:balance;
padding:.15rem 0 .15rem 1rem;border-left:.3rem solid var(--good);overflow-wrap:anywhere}
h1.bad{border-color:var(--bad)}
h1.long{font-size:clamp(1.15rem,1rem + .8vw,1.4rem)}
h2{font-size:1.05rem;font-weight:600;margin:0 0 .6rem}
h3{font-size:1rem;font-weight:600;margin:0;overflow-wrap:anywhere}
section{background:var(--card);border:1px solid var(--line);border-radius:.75rem;padding:1.1rem 1.4rem;margin:0 0 1rem}
p{margin:.35rem 0}
a{color:inherit;text-underline-offset:.15em}
code{font:.875em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;overflow-wrap:anywhere}
.soft{color:var(--soft)}
.good{color:var(--good)}.busy{color:var(--busy)}.warn{color:var(--warn)}.bad{color:var(--bad)}
h1.good,h1.bad{color:inherit}
footer{padding-top:.25rem;padding-bottom:2.5rem;font-size:.9rem;color:var(--soft)}`

const tiles = `
.tiles{display:grid;grid-template-columns:repeat(4,minmax(0,1fr));gap:1rem;background:none;border:0;padding:0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:.75rem;padding:1rem 1.2rem}
.tile h3{font-size:.875rem;font-weight:500;color:var(--soft)}
.tile p.soft{font-size:.85rem;margin:.5rem 0 0}
.figure{font-size:1.75rem;line-height:1.2;font-weight:600;letter-spacing:-.015em;margin:.1rem 0 .6rem}
.spark{display:block;width:100%;height:2.75rem;overflow:visible}
.spark path{vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke-linecap:round}
.spark .base{fill:none;stroke:var(--line)}
.spark .area{fill:var(--busy);fill-opacity:.14;stroke:none}
.spark .line{fill:none;stroke:var(--busy);stroke-width:1.75}`

const rows = `
details>summary{display:flex;flex-wrap:wrap;align-items:center;gap:.25rem .75rem;cursor:pointer;list-style:none;padding:.35rem 0}
summary::-webkit-details-marker{display:none}
summary::before{content:"";width:.45rem;height:.45rem;border:solid var(--soft);border-width:0 2px 2px 0;transform:rotate(-45deg);margin:0 .25rem 0 .1rem}
[open]>summary::before{transform:rotate(45deg)}
summary h2{margin:0}
details+details{border-top:1px solid var(--line);margin-top:.5rem;padding-top:.5rem}
table{width:100%;border-collapse:collapse}
thead th{text-align:left;font-weight:500;font-size:.825rem;color:var(--soft);padding:.25rem 1.1rem .25rem 0;white-space:nowrap}
tbody th{text-align:left;font-weight:600;overflow-wrap:anywhere}
tbody th .soft{font-weight:400;font-size:.9rem}
td,tbody th{padding:.5rem 1.1rem .5rem 0;border-top:1px solid var(--line);vertical-align:baseline}
tr>:last-child{padding-right:0}
tbody>tr:last-child>*{padding-bottom:0}
th.number,td.number{text-align:right}
.state{white-space:nowrap}
.state::before{content:"";display:inline-block;width:.62em;height:.62em;margin-right:.5em;background:currentColor;forced-color-adjust:none}
.state.good::before{border-radius:50%}
.state.busy::before{border-radius:50%;background:none;border:2px solid currentColor}
.state.warn::before{clip-path:polygon(50% 0,100% 100%,0 100%);width:.72em}
.state.bad::before{clip-path:polygon(50% 0,100% 50%,50% 100%,0 50%);width:.76em;height:.76em}
.note td{border-top:0;padding:0 0 .6rem}
.note.fault td{color:var(--bad);overflow-wrap:anywhere;white-space:pre-wrap}
.note.progress td,.note.limit td{color:var(--soft);font-size:.9rem}
.errors .note.fault td{color:var(--ink)}
.matters{list-style:none;margin:0;padding:0}
.matters li{padding:.45rem 0}
.matters b{color:var(--warn)}
pre{margin:.6rem 0 .2rem;padding:.9rem 1.1rem;border-radius:.5rem;background:var(--back);border:1px solid var(--line);overflow:auto;max-height:32rem}
pre code{overflow-wrap:normal}`

const bars = `
.bar{display:inline-block;width:3.2rem;height:.55rem;border-radius:.3rem;background:var(--track);fill:currentColor;vertical-align:.02em;forced-color-adjust:none}
.bar.progressbar{width:9rem;max-width:60%;margin-right:.4rem}
.tile .bar{display:block;width:100%;height:.7rem;margin:2.05rem 0 0}`

const narrow = `
@media (max-width:62rem){
.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}
thead{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
table,tbody{display:block}
tr{display:grid;grid-template-columns:repeat(auto-fill,minmax(15rem,1fr));gap:0 2rem;padding:.6rem 0;border-top:1px solid var(--line)}
tbody>tr:first-child{border-top:0}
tr.note{display:block;border-top:0;padding-top:0}
td,tbody th{border:0;padding:.12rem 0}
tbody th{grid-column:1/-1;font-size:1.05rem}
td[data-label]{display:flex;justify-content:space-between;gap:1rem;text-align:right}
td[data-label]::before{content:attr(data-label);color:var(--soft);text-align:left;flex:none}}
@media (max-width:40rem){
main,header,footer,#lost{padding-left:1rem;padding-right:1rem}
section,.tile{padding:.9rem 1rem}
.tiles{gap:.75rem;padding:0}
.clock{margin-left:0;width:100%;justify-content:space-between}
tr{grid-template-columns:minmax(0,1fr)}}
@media (max-width:26rem){.tiles{grid-template-columns:minmax(0,1fr)}}
@media (prefers-contrast:more){:root{--soft:var(--ink);--line:var(--ink)}}
@media print{body{background:#fff}#hold{display:none}section{break-inside:avoid}}
`

export const style = palette + frame + tiles + rows + bars + narrow
