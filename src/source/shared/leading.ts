// How far in the future an entry's own time may lie for reading to go by it.

/** Clocks differ, and entries are dated in the future by mistake. */
const FUTURE_MS = 600_000

/** What is dated after this instant (µs) is shipped, but may not lead the way. `nowMs`: by the clock that is believed, epoch ms. */
export const mayLeadUs = (nowMs: number): number => 1000 * (nowMs + FUTURE_MS)
