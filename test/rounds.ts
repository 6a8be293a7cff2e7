// Which rounds of a suite run: `npm test` takes the first ones, `npm run test:long` the rest.

/** Seeds of the simulation from 1 on: the first of `npm test`, and all with `npm run test:long`. */
export const seeds = { first: 24, all: 300 } as const
/** The same with the journal in PostgreSQL, in the suite of that. */
export const postgresSeeds = { first: 2, all: 14 } as const

/** Those of `all` that this run takes: the first `count`, or all behind them. */
export function roundsOf<T>(all: readonly T[], count: number): readonly T[] {
  return process.env['AUDITFERRY_ROUNDS'] === 'rest' ? all.slice(count) : all.slice(0, count)
}
