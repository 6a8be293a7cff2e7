// Questions to the open page, as text: it runs in the browser, whose names this project does not know.

/** The reader's state on the page: what is read, where the focus is, what is open, and whether a row is still the same one. */
export interface Place {
  readonly at: number
  readonly focus: string
  readonly open: readonly boolean[]
  readonly sameRow: boolean
}

export const place = `(() => {
  globalThis.row ??= document.querySelector('tr[data-key="sink archive"]')
  return {
    at: document.querySelector('pre').getBoundingClientRect().top,
    focus: document.activeElement.tagName,
    open: [...document.querySelectorAll('details')].map((each) => each.open),
    sameRow: globalThis.row.isConnected,
  }
})()`

/** From now on \`announced\` counts how often a screen reader has something new to say. */
export const watchNews = `(() => {
  globalThis.announced = 0
  const change = { subtree: true, childList: true, characterData: true }
  new MutationObserver(() => globalThis.announced++).observe(document.getElementById('news'), change)
})()`

export const announced = 'globalThis.announced'

/** Tries what the page's policy must not allow; returns the directives that refused. */
export const trespass = `(async () => {
  const refused = new Set()
  const tries = 6
  const all = new Promise((resolve) => {
    document.addEventListener('securitypolicyviolation', ({ effectiveDirective }) => {
      refused.add(effectiveDirective)
      if (refused.size === tries) resolve()
    })
    setTimeout(resolve, 5000)
  })
  const add = (tag, change) => {
    const element = document.createElement(tag)
    change(element)
    document.body.append(element)
    element.click()
  }
  add('script', (element) => (element.textContent = 'document.title = "run"'))
  add('style', (element) => (element.textContent = 'body { display: none }'))
  add('p', (element) => element.setAttribute('style', 'color: red'))
  add('button', (element) => element.setAttribute('onclick', 'document.title = "run"'))
  add('iframe', (element) => element.setAttribute('src', 'https://example.com/'))
  await fetch('https://example.com/').catch(() => undefined)
  await all
  return [...refused].sort()
})()`

/** Above 0: the page is wider than the window. */
export const overflow = 'document.documentElement.scrollWidth - innerWidth'

export const background = 'getComputedStyle(document.body).backgroundColor'

export interface Focus {
  readonly text: string
  readonly outline: string
}

export const focus = `({
  text: document.activeElement.textContent.trim(),
  outline: getComputedStyle(document.activeElement).outlineStyle,
})`

/** Once axe is loaded: its findings, a line each. */
export const axeFindings = `(async () => {
  const runOnly = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
  const { violations } = await axe.run(document, { runOnly })
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html, failureSummary }) => id + ': ' + html.slice(0, 160) + ' ' + failureSummary))
})()`
