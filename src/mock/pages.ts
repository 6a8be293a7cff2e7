// Runs of entries as they go out: their bytes joined, and word back when they have been shown.
import type { Entry, ShownIn } from './entry.ts'

export interface Page {
  readonly count: number
  element(index: number): Uint8Array
  /** The elements with `separator` between them. */
  joined(separator: string): Uint8Array
  /** Called when an answer with this page in it was sent to its end. */
  show(where: ShownIn, at: number): void
}

export function join(elements: readonly Uint8Array[], separator: string): Uint8Array {
  const between = Buffer.from(separator)
  return Buffer.concat(elements.flatMap((element, i) => (i === 0 ? [element] : [between, element])))
}

/** Where a poisoned entry makes the page unreadable, that entry alone counts as shown. */
export function pageOf(entries: readonly Entry[]): Page {
  return {
    count: entries.length,
    element: (index) => entries[index]?.raw ?? new Uint8Array(0),
    joined: (separator) =>
      join(
        entries.map((entry) => entry.raw),
        separator,
      ),
    show: (where, at) => {
      const poisoned = entries.filter((entry) => entry.defect === 'poison')
      for (const entry of poisoned.length > 0 ? poisoned : entries) entry.show(where, at)
    },
  }
}

export const emptyPage: Page = pageOf([])

/** The elements of `page` in another order, or some of them twice. */
export function arranged(page: Page, order: readonly number[]): Page {
  const elements = order.map((index) => page.element(index))
  return {
    count: order.length,
    element: (index) => elements[index] ?? new Uint8Array(0),
    joined: (separator) => join(elements, separator),
    show: (where, at) => page.show(where, at),
  }
}

export function chained(first: Page, second: Page): Page {
  if (second.count === 0) return first
  if (first.count === 0) return second
  return {
    count: first.count + second.count,
    element: (index) => (index < first.count ? first.element(index) : second.element(index - first.count)),
    joined: (separator) => join([first.joined(separator), second.joined(separator)], separator),
    show: (where, at) => {
      first.show(where, at)
      second.show(where, at)
    },
  }
}
