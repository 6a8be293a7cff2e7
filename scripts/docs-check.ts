// Checks the documents: links and anchors lead somewhere, and paragraphs, table cells and pages keep to their lengths.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import MarkdownIt from 'markdown-it'
import type { Token } from 'markdown-it'
import { slugOf } from './slug.ts'

const LIMITS = { paragraph: 90, cell: 40, docs: 38_000 } as const
const PAGE_LIMITS: Readonly<Record<string, number>> = { 'README.md': 700, 'docs/architecture.md': 1200 }
/** A list of changes: its entries have no limit of length. */
const UNLIMITED = ['CHANGELOG.md']

const parser = new MarkdownIt({ html: true })

export const wordsIn = (text: string): number => text.split(/\s+/).filter((word) => word !== '').length

/** What a reader sees of a line: the text of a link, not its address. */
const shown = (inline: Token): string =>
  (inline.children ?? [])
    .map((child) => (child.type === 'softbreak' || child.type === 'hardbreak' ? ' ' : child.content))
    .join('')

/** The anchors of a page: its headings, and the ids in its HTML. */
export function anchorsIn(text: string): Set<string> {
  const taken = new Map<string, number>()
  const tokens = parser.parse(text, {})
  const headings = tokens.flatMap((token, at) =>
    token.type === 'inline' && tokens[at - 1]?.type === 'heading_open' ? [slugOf(shown(token), taken)] : [],
  )
  const ids = Array.from(text.matchAll(/<\w+ [^>]*id="([^"]+)"/g), ([, id = '']) => id)
  return new Set([...headings, ...ids])
}

/** The addresses that a token names: links and images, in Markdown or HTML. */
function addressesOf(token: Token): string[] {
  if (token.type === 'html_block' || token.type === 'html_inline')
    return Array.from(token.content.matchAll(/(?:href|src|srcset)="([^"]+)"/g), ([, address = '']) => address)
  const own = token.attrGet('href') ?? token.attrGet('src')
  return [...(own === null ? [] : [String(own)]), ...(token.children ?? []).flatMap(addressesOf)]
}

function linkFault(page: string, address: string, read: Read): string | undefined {
  if (/^[a-z]+:/.test(address)) return undefined
  const [path = '', anchor] = decodeURI(address).split('#')
  const target = path === '' ? page : normalize(join(dirname(page), path))
  const text = read(target)
  if (text === undefined) return `the link ${address} leads to no file`
  if (anchor !== undefined && !anchorsIn(text).has(anchor)) return `${target} has no heading #${anchor}`
  return undefined
}

/** The text of a file of the repository, empty for a folder; undefined where there is none. */
type Read = (path: string) => string | undefined

/** The faults of one page, each as `file:line: what`. */
export function pageFaults(page: string, read: Read): string[] {
  const text = read(page) ?? ''
  const faults: string[] = []
  let line = 0
  let within = ''
  const add = (what: string) => faults.push(`${page}:${line}: ${what}`)
  for (const token of parser.parse(text, {})) {
    if (token.map) line = token.map[0] + 1
    if (token.nesting === 1) within = token.type
    for (const address of addressesOf(token)) {
      const fault = linkFault(page, address, read)
      if (fault !== undefined) add(fault)
    }
    if (token.type !== 'inline' || UNLIMITED.includes(page)) continue
    const words = wordsIn(shown(token))
    if (within === 'paragraph_open' && words > LIMITS.paragraph)
      add(`a paragraph has ${words} words; ${LIMITS.paragraph} are allowed`)
    if (/^t[dh]_open$/.test(within) && words > LIMITS.cell)
      add(`a table cell has ${words} words; ${LIMITS.cell} are allowed`)
  }
  const limit = PAGE_LIMITS[page]
  const words = wordsIn(text)
  if (limit !== undefined && words > limit)
    faults.push(`${page}:1: the page has ${words} words; ${limit} are allowed`)
  return faults
}

/** The faults of all pages, and whether docs/ as a whole keeps to its length. */
export function docsFaults(pages: readonly string[], read: Read): string[] {
  const total = pages
    .filter((page) => page.startsWith('docs/'))
    .reduce((sum, page) => sum + wordsIn(read(page) ?? ''), 0)
  const tooLong = `docs:1: all pages have ${total} words; ${LIMITS.docs} are allowed`
  return [...pages.flatMap((page) => pageFaults(page, read)), ...(total > LIMITS.docs ? [tooLong] : [])]
}

if (import.meta.main) {
  const elsewhere = /(^|\/)(node_modules|dist|fixtures|coverage|pages|out|data)$/
  const pages = globSync('**/*.md', { exclude: (path) => elsewhere.test(path) }).sort()
  const faults = docsFaults(pages, (path) => {
    if (!existsSync(path)) return undefined
    return path.endsWith('.md') ? readFileSync(path, 'utf8') : ''
  })
  for (const fault of faults) process.stderr.write(`${fault}\n`)
  process.exitCode = faults.length > 0 ? 1 : 0
}
