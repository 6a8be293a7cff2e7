// V8's heap, told what this process is like: a small heap of long-lived code, and megabytes of bodies beside it that live for milliseconds.
import { setFlagsFromString } from 'node:v8'

/**
 * Call before anything is loaded. V8 counts the bodies' bytes against the small heap and would mark all of it every ten
 * pages; measured on a drain of 500,000 entries: 55 full collections become 8, a third of the CPU time goes. New space stays
 * at its first size, so that dead bodies are freed soon: 25 MB less at the peak.
 */
export function tuneHeap(): void {
  setFlagsFromString('--heap-growing-percent=300')
  setFlagsFromString('--semi-space-growth-factor=1')
}
