// The browser script: fetches the page again and updates the open one in place. Plain JavaScript,
// because it is sent unchanged.

/**
 * Changes text, attributes and rows one by one, so that scroll position, selection, focus and
 * opened parts stay; `data-key` identifies rows. Without an answer, the page says since when.
 */
export const script = `
(() => {
'use strict'
const EVERY_MS = 5000
const PATIENCE_MS = 10000
const pauseButton = document.getElementById('hold')
const lost = document.getElementById('lost')
const edition = (page) => page.querySelector('meta[name=edition]')?.content
const keyOf = (node) => node.dataset?.key
let paused = false
let asking = false
let timer

const alike = (one, other) =>
  one && one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other)

function attributes(from, to) {
  const mine = (name) => name === 'open' && from.nodeName === 'DETAILS'
  for (const { name } of [...from.attributes]) if (!mine(name) && !to.hasAttribute(name)) from.removeAttribute(name)
  for (const { name, value } of to.attributes)
    if (!mine(name) && from.getAttribute(name) !== value) from.setAttribute(name, value)
}

function children(from, to) {
  const wantedKeys = new Set([...to.children].map(keyOf))
  for (const child of [...from.children]) if (keyOf(child) && !wantedKeys.has(keyOf(child))) child.remove()
  const known = new Map([...from.children].filter(keyOf).map((child) => [keyOf(child), child]))
  let at = from.firstChild
  for (const wanted of [...to.childNodes]) {
    const same = known.get(keyOf(wanted))
    if (same && same !== at) from.insertBefore(same, at)
    const current = same ?? (alike(at, wanted) ? at : undefined)
    if (!current) {
      from.insertBefore(document.importNode(wanted, true), at)
      continue
    }
    at = current.nextSibling
    patch(current, wanted)
  }
  while (at) {
    const next = at.nextSibling
    at.remove()
    at = next
  }
}

function patch(from, to) {
  if (from.isEqualNode(to)) return
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.data !== to.data) from.data = to.data
    return
  }
  attributes(from, to)
  children(from, to)
}

function show(text) {
  const fresh = new DOMParser().parseFromString(text, 'text/html')
  if (!edition(fresh)) throw new Error('another page')
  if (edition(fresh) !== edition(document)) return location.reload()
  for (const region of document.querySelectorAll('[data-live]')) {
    const now = fresh.getElementById(region.id)
    if (now) patch(region, now)
  }
  document.title = fresh.title
  const icon = fresh.querySelector('link[rel=icon]').getAttribute('href')
  const link = document.querySelector('link[rel=icon]')
  if (link.getAttribute('href') !== icon) link.setAttribute('href', icon)
}

async function refresh() {
  if (asking) return
  asking = true
  clearTimeout(timer)
  try {
    const reply = await fetch(location.pathname, { cache: 'no-store', signal: AbortSignal.timeout(PATIENCE_MS) })
    if (!reply.ok) throw new Error('no page')
    const text = await reply.text()
    if (!paused) show(text)
    lost.hidden = true
  } catch {
    if (lost.hidden) {
      lost.textContent = 'No answer since ' + new Date().toLocaleTimeString() + ': the daemon may have stopped. Below is its last report.'
      lost.hidden = false
    }
  }
  asking = false
  later()
}

function later() {
  clearTimeout(timer)
  if (!paused && !document.hidden) timer = setTimeout(refresh, EVERY_MS)
}

pauseButton.hidden = false
pauseButton.addEventListener('click', () => {
  paused = !paused
  pauseButton.setAttribute('aria-pressed', String(paused))
  if (paused) later()
  else void refresh()
})
document.addEventListener('visibilitychange', () => {
  if (paused || document.hidden) later()
  else void refresh()
})
later()
})()
`
