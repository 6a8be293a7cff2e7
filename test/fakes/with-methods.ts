// A journal of which some methods are another's: to fail, to wait, to count, to die.
import type { Journal } from '../../src/model/journal.ts'

export function withMethods(journal: Journal, methods: Partial<Journal>): Journal {
  return new Proxy(journal, {
    get(target, name: keyof Journal) {
      // It also goes through promises, which ask whether it is one.
      const own = (Reflect.get(methods, name) ?? Reflect.get(target, name)) as unknown
      return typeof own === 'function' ? (own.bind(target) as unknown) : own
    },
  })
}
