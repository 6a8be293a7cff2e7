// The journal's state in a map, under whole names.
import type { State, StateChange } from '../../src/contracts/journal.ts'
import { ScopedState } from '../../src/journal/rules/state.ts'

/** `check` may throw before a change is made. */
export function stateIn(entries: Map<string, string>, check?: (change: StateChange) => void): State {
  return new ScopedState({
    get: async (name) => entries.get(name),
    list: async (prefix, limit) =>
      [...entries]
        .filter(([name]) => name.startsWith(prefix))
        .map(([name, value]) => ({ name, value }))
        .slice(0, limit),
    async change(change, only) {
      if (only && entries.get(only.name) !== only.value) return false
      check?.(change)
      for (const name of change.drop) entries.delete(name)
      for (const { name, value } of change.put) entries.set(name, value)
      return true
    },
  })
}
