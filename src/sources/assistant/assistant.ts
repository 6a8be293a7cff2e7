// The canary's request to the assistant (spec §2.7, §4.4): one prompt; its answer is not stored.
import { WHOLE_BODY_BYTES } from '../../contracts/entries.ts'
import { COMPLETION_PATH } from '../../core/api.ts'
import type { Random } from '../../core/clock.ts'
import type { Client } from '../http/client.ts'
import type { BodyLimits } from '../http/deadline.ts'
import { formOf } from '../http/form.ts'

/** An answer arrives while it is written, which may take minutes, but is smaller than a page. */
export const assistantLimits: BodyLimits = {
  capBytes: WHOLE_BODY_BYTES,
  totalMs: 5 * 60_000,
  wholeBytes: WHOLE_BODY_BYTES,
  idleMs: 2 * 60_000,
  minBytesPerSecond: 1,
}

interface Prompt {
  readonly prompt: string
  readonly userAgent: string
  readonly random: Random
}

/** Returns the server's clock from the `Date` header, epoch ms. Throws as `Client.send` does. */
export async function prompted(
  client: Client,
  { prompt, userAgent, random }: Prompt,
  signal: AbortSignal,
): Promise<number | undefined> {
  // `model` is called a form parameter, so the fields go as a form.
  const { headers, stream } = formOf([{ name: 'prompt', value: prompt }], random)
  const ask = {
    ...({ method: 'POST', path: COMPLETION_PATH, limits: assistantLimits } as const),
    ...{ headers: { ...headers, 'user-agent': userAgent }, stream },
    accept: ['text/event-stream', 'application/x-ndjson', 'text/plain'],
  }
  let answeredAt: number | undefined
  const pieces = client.send(ask, 'live', signal, ({ serverAt, body }) => {
    answeredAt = serverAt
    return body
  })
  while (!(await pieces.next()).done);
  return answeredAt
}
