// The mock's own paths beside the API's, off unless asked for: what an administrator does elsewhere than in the API.
import { heardBody } from './request-body.ts'
import type { Mock } from './mock.ts'

const MOST_BYTES = 4096

/** The status of an answer without a body. */
interface ControlAnswer {
  readonly status: 204 | 400 | 404
}

/** Undefined when the path is none of its own. `POST /mock/rotate-key` takes `{"old": …, "new": …}`: 404 when there is no such key. */
export async function controlled(
  mock: Mock,
  method: string,
  path: string,
  body: AsyncIterable<Uint8Array>,
): Promise<ControlAnswer | undefined> {
  if (method !== 'POST' || path !== '/mock/rotate-key') return undefined
  const heard = await heardBody(body, MOST_BYTES)
  const keys = heard && keysOf(heard)
  if (!keys) return { status: 400 }
  return { status: mock.rotateKey(keys.old, keys.fresh) ? 204 : 404 }
}

function keysOf(body: Uint8Array): { old: string; fresh: string } | undefined {
  try {
    const { old, new: fresh } = JSON.parse(Buffer.from(body).toString()) as Record<string, unknown>
    return typeof old === 'string' && typeof fresh === 'string' && /^[!-~]+$/.test(fresh)
      ? { old, fresh }
      : undefined
  } catch {
    return undefined
  }
}
