// The status page's one style sheet, and the header that lets this sheet and nothing else in.
import { createHash } from 'node:crypto'

export const style = `
:root{color-scheme:light dark;--back:#f6f7f5;--card:#fff;--ink:#1c2321;--soft:#5d6965;--line:#dfe4e1;
--good:#1b7f4f;--busy:#2b6cb0;--warn:#a86400;--bad:#b3261e}
@media (prefers-color-scheme:dark){:root{--back:#121615;--card:#1a201e;--ink:#e6ebe8;--soft:#97a49f;--line:#2c3532;
--good:#5ec892;--busy:#7fb4ea;--warn:#e5b04f;--bad:#f28b82}}
*{box-sizing:border-box}
body{margin:0;background:var(--back);color:var(--ink);font:16px/1.5 system-ui,sans-serif}
main,header,footer{max-width:68rem;margin:0 auto;padding:0 1.25rem}
header{display:flex;flex-wrap:wrap;gap:.25rem 1rem;align-items:baseline;padding-top:1.5rem;color:var(--soft)}
header b{color:var(--ink);font-size:1.05rem;letter-spacing:.01em}
h1{font-size:clamp(1.35rem,1rem + 2.2vw,2.1rem);line-height:1.25;font-weight:600;margin:1.25rem 0 1.75rem;text-wrap:balance;
padding-left:1rem;border-left:.35rem solid var(--good);overflow-wrap:anywhere}
h1.bad{border-color:var(--bad)}
h2{display:flex;flex-wrap:wrap;align-items:baseline;justify-content:space-between;gap:0 1rem;font-size:1rem;font-weight:600;margin:0 0 .5rem}
h2 .soft{font-weight:400;font-size:.9rem}
section{background:var(--card);border:1px solid var(--line);border-radius:.6rem;padding:1rem 1.25rem;margin:0 0 1rem}
table{width:100%;border-collapse:collapse;font-variant-numeric:tabular-nums}
th{text-align:left;font-weight:500;font-size:.8rem;color:var(--soft);padding:.25rem 1rem .25rem 0}
td{padding:.45rem 1rem .45rem 0;border-top:1px solid var(--line);vertical-align:top}
th:last-child,td:last-child{padding-right:0}
.name{font-weight:600;overflow-wrap:anywhere}
.soft{color:var(--soft)}.name .soft{font-weight:400;font-size:.9rem}
.state::before{content:"";display:inline-block;width:.6rem;height:.6rem;border-radius:50%;margin-right:.45rem;
background:currentColor}
.good{color:var(--good)}.busy{color:var(--busy)}.warn{color:var(--warn)}.bad{color:var(--bad)}
.fault td{border-top:0;padding-top:0;color:var(--bad);overflow-wrap:anywhere}
meter{display:block;width:100%;height:.8rem;margin:.75rem 0 .5rem;border:0;background:none}
meter::-webkit-meter-inner-element{display:block;height:100%}
meter::-webkit-meter-bar{display:block;border:0;border-radius:.3rem;background:var(--line)}
meter::-webkit-meter-optimum-value{background:var(--good)}
meter::-webkit-meter-suboptimum-value{background:var(--warn)}
meter::-webkit-meter-even-less-good-value{background:var(--bad)}
p{margin:.35rem 0}
a{color:inherit}
footer{padding-top:.5rem;padding-bottom:2rem;font-size:.9rem;color:var(--soft)}
@media (max-width:40rem){
thead{position:absolute;clip-path:inset(50%);width:1px;height:1px;overflow:hidden}
table,tbody{display:block}tr{display:block;padding:.6rem 0;border-top:1px solid var(--line)}
tr:first-child{border-top:0}tr.fault{border-top:0;padding-top:0}
td{display:flex;justify-content:space-between;gap:1rem;padding:.15rem 0;border:0;text-align:right}
td::before{content:attr(data-label);color:var(--soft);text-align:left;flex:none}
td.name::before,.fault td::before{content:none}td.name{font-size:1.05rem}.fault td{text-align:left}}
`

const styleHash = createHash('sha256').update(style).digest('base64')

/** Nothing is loaded, framed, sent or run; one style sheet by its hash, and the icon that is part of the page. */
export const pageHeaders: Readonly<Record<string, string>> = {
  'content-security-policy': `default-src 'none'; style-src 'sha256-${styleHash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'referrer-policy': 'no-referrer',
}
