// Randomness that a seed repeats (mulberry32), with the few draws that scenarios need.

export interface Dice {
  (): number
  below(bound: number): number
  chance(share: number): boolean
  pick<T>(of: readonly T[]): T
}

export function dice(seed: number): Dice {
  let state = (seed * 2654435761) >>> 0
  const roll = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
  return Object.assign(roll, {
    below: (bound: number) => Math.floor(roll() * bound),
    chance: (share: number) => roll() < share,
    pick: <T>(of: readonly T[]): T => of[Math.floor(roll() * of.length)] as T,
  })
}
