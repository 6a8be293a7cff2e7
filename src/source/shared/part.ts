// A part with nothing in it but what is said: every source begins its own from here.
import { Entries } from '../../model/entries.ts'
import type { Part } from '../../model/source.ts'

export function partOf(more: Partial<Part>): Part {
  return {
    entries: Entries.none,
    quarantined: [],
    findings: [],
    headUs: undefined,
    cursor: undefined,
    gaps: 0,
    fault: undefined,
    ...more,
  }
}
