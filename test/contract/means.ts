// What a bench has to bring for the cases that not every receiver can show. For what it does not bring, it has a reason, and the report shows it.
import { expect, test } from 'vitest'

/** What can happen to the answer to one batch. */
export const answerFaults = ['lost', 'cut', 'slow', 'endless', 'of a wrong type', 'nonsense'] as const
export type AnswerFault = (typeof answerFaults)[number]

/** As the bench names them. `later`: the sink itself reports that a batch is taken now and safe later. */
type Means =
  'refuse' | 'poison' | 'stall' | 'key' | 'secured' | 'loseAnswer' | 'later' | `answers ${AnswerFault}`

/** Why a receiver cannot show a case. `answers`: all but the lost one, where nothing is answered. */
export type Lacks = Readonly<Partial<Record<Means | 'answers', string>>>

/** A case that needs these means: a test, or nothing if there is a reason. */
export type CaseWith = (means: Means) => (title: string, run: () => Promise<void>) => void

function reasonFor(means: Means, lacks: Lacks): string | undefined {
  const spoken = means.startsWith('answers ') && means !== 'answers lost'
  return lacks[means] ?? (spoken ? lacks.answers : undefined)
}

interface Bench {
  readonly answers?: Partial<Record<AnswerFault, () => void>> | undefined
}

function meansOf(bench: Bench, means: Means): unknown {
  const fault = answerFaults.find((each) => means === `answers ${each}`)
  return fault ? bench.answers?.[fault] : (bench as Partial<Record<Means, unknown>>)[means]
}

/** For one suite of one sink: each reason is reported once, and is valid only as long as the bench lacks what it is for. */
export function casesWith(setUp: () => Bench, lacks: Lacks): CaseWith {
  const reported = new Set<Means>()
  return (means) => {
    const reason = reasonFor(means, lacks)
    if (reason === undefined) return test
    if (!reported.has(means))
      test(`does not apply: ${means}: ${reason}`, () => {
        expect(meansOf(setUp(), means)).toBeUndefined()
      })
    reported.add(means)
    return () => undefined
  }
}

/** Neither means nor reason: an oversight. */
export function given<T>(means: T | undefined): T {
  if (means === undefined) throw new Error('the bench lacks the means for this, and no reason says why')
  return means
}
