// Faults between the daemon and the API for a while: error bodies with status 200, a line that loses two answers in three, one cursor that the server does not accept any more.
import type { Clock } from '../../src/core/clock.ts'
import { ConnectorError } from '../../src/core/errors.ts'
import type { HttpReply, Transport } from '../../src/contracts/platform.ts'
import { dice } from './random.ts'
import type { Dice } from './random.ts'

const MINUTE_MS = 60_000
const SHARE = 0.12
const LOST_SHARE = 2 / 3

const errorBodies = [
  '{"error":"Unexpected server error"}',
  '[{"error":"Unexpected server error"}]',
  '[null]',
  '{"events":[{"error":"Unexpected server error"}]}',
  '<!doctype html><html><head><title>Sign in</title></head><body><h1>Sign in</h1></body></html>\n',
] as const

/** Epoch ms. */
interface Span {
  readonly from: number
  readonly until: number
}

export interface OutageScenario {
  /** status 200 and this body, from pages and windows alone while `search` and `latest` answer, or from all paths */
  readonly errorBody: (Span & { readonly body: string; readonly pagesOnly: boolean }) | undefined
  /** two thirds of the answers are lost: connections reset before or after the request arrived, 500, bodies cut */
  readonly flaky: Span | undefined
  /** from this instant on, the next requested cursor is answered with 500 for good, and no other */
  readonly deadCursorAt: number | undefined
}

/** Drawn apart, so that the rest of a seed stays the same. */
export function outagesOf(seed: number, startAt: number, troubleMs: number): OutageScenario {
  const roll = dice(seed + 1_100_009)
  const instant = () => startAt + Math.floor(roll() * troubleMs)
  const span = (minutes: readonly number[]): Span => {
    const from = instant()
    return { from, until: Math.min(from + roll.pick(minutes) * MINUTE_MS, startAt + troubleMs) }
  }
  return {
    errorBody: roll.chance(SHARE)
      ? { ...span([2, 20, 120, 360]), body: roll.pick(errorBodies), pagesOnly: roll.chance(0.7) }
      : undefined,
    flaky: roll.chance(SHARE) ? span([20, 120, 360]) : undefined,
    deadCursorAt: roll.chance(SHARE) ? instant() : undefined,
  }
}

const isPage = (url: string) => !/\/(search|latest|earliest)(\?|$)/.test(url)
const cursorOf = (url: string) => /\/logs\/audit\?from=([^&]+)/.exec(url)?.[1]
const isWithin = (span: Span | undefined, now: number): span is Span =>
  span !== undefined && now >= span.from && now < span.until

const broken = () => new ConnectorError('unreachable', 'the line broke')

function answer(status: number, body: string): HttpReply {
  const bytes = Buffer.from(body)
  const headers = { 'content-type': 'application/json', 'content-length': String(bytes.length) }
  return {
    status,
    headers,
    body: (async function* () {
      yield await Promise.resolve(bytes)
    })(),
  }
}

/** In the first piece that has more than a bracket; never read to its end, so nothing of it counts as shown. */
async function* cut(body: HttpReply['body'], share: number): AsyncGenerator<Uint8Array> {
  for await (const piece of body) {
    if (piece.length > 1) {
      yield piece.subarray(0, Math.floor(piece.length * share))
      throw broken()
    }
    yield piece
  }
}

async function lost(api: Transport, roll: Dice, ...asked: Parameters<Transport>): Promise<HttpReply> {
  const how = roll.pick(['before', 'after', 'status', 'cut'] as const)
  if (how === 'before') throw broken()
  if (how === 'status') return answer(500, errorBodies[0])
  const reply = await api(...asked)
  if (how === 'cut') return { ...reply, body: cut(reply.body, roll()) }
  await reply.body[Symbol.asyncIterator]().return?.()
  throw broken()
}

export interface Outages {
  readonly transport: Transport
  /** its id, once it was requested */
  readonly deadCursor: () => string | undefined
}

/** The API behind the outages of a seed: `api` with those faults. */
export function withOutages(api: Transport, scenario: OutageScenario, clock: Clock, roll: Dice): Outages {
  const { errorBody, flaky, deadCursorAt = Infinity } = scenario
  let deadCursor: string | undefined
  const transport: Transport = async (request, signal) => {
    const now = clock.now()
    const cursor = cursorOf(request.url)
    if (now >= deadCursorAt) deadCursor ??= cursor
    if (cursor !== undefined && cursor === deadCursor) return answer(500, errorBodies[0])
    if (isWithin(errorBody, now) && (!errorBody.pagesOnly || isPage(request.url)))
      return answer(200, errorBody.body)
    if (isWithin(flaky, now) && roll.chance(LOST_SHARE)) return lost(api, roll, request, signal)
    return api(request, signal)
  }
  return { transport, deadCursor: () => deadCursor }
}
