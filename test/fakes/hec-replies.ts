// Splunk's answers: each code of the HTTP Event Collector with its status and text, and the shapes that an answer can have.

export interface RawReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** The body never ends. */
  readonly endless: boolean
  readonly reset: boolean
  readonly delayMs: number
}

/** An answer before the balancer has put its cookie on it. */
export type Answered = Omit<RawReply, 'headers'> & { readonly headers?: Readonly<Record<string, string>> }

export const replies = {
  0: [200, 'Success'],
  1: [403, 'Token disabled'],
  2: [401, 'Token is required'],
  3: [401, 'Invalid authorization'],
  4: [403, 'Invalid token'],
  5: [400, 'No data'],
  6: [400, 'Invalid data format'],
  7: [400, 'Incorrect index'],
  8: [500, 'Internal server error'],
  9: [503, 'Server is busy'],
  10: [400, 'Data channel is missing'],
  11: [400, 'Invalid data channel'],
  12: [400, 'Event field is required'],
  13: [400, 'Event field cannot be blank'],
  14: [400, 'ACK is disabled'],
  15: [400, 'Error in handling indexed fields'],
  16: [400, 'Query string authorization is not enabled'],
  17: [200, 'HEC is healthy'],
  18: [503, 'HEC is unhealthy, queues are full'],
  19: [503, 'HEC is unhealthy, ack service unavailable'],
  20: [503, 'HEC is unhealthy, queues are full, ack service unavailable'],
  21: [400, 'Invalid token'],
  22: [400, 'Token disabled'],
  23: [503, 'Server is shutting down'],
  24: [200, 'Queue approaching maximum capacity'],
  25: [200, 'ACK channel approaching maximum capacity'],
  26: [429, 'Queue at maximum capacity'],
  27: [429, 'ACK channel at maximum capacity'],
  28: [400, 'Invalid data channel'],
} as const satisfies Record<number, readonly [number, string]>

export type Code = keyof typeof replies

const JSON_TYPE = 'application/json; charset=UTF-8'

export function plain(status: number, body: string | Uint8Array, type: string): Answered {
  return {
    status,
    headers: { 'content-type': type },
    body: Buffer.from(body),
    endless: false,
    reset: false,
    delayMs: 0,
  }
}

export const json = (status: number, body: unknown): Answered =>
  plain(status, JSON.stringify(body), JSON_TYPE)

export function coded(code: Code, more: Record<string, unknown> = {}): Answered {
  const [status, text] = replies[code]
  return json(status, { text, code, ...more })
}

export function page(status: number, title: string): Answered {
  const body = `<!doctype html><html><head><title>${status} ${title}</title></head><body><h1>${title}</h1></body></html>`
  return plain(status, body, 'text/html; charset=UTF-8')
}

export const endless = (): Answered => ({ ...plain(200, '{"text":"', JSON_TYPE), endless: true })

/** A number in the answer's JSON, such as its `code`. */
export function numberIn(body: Uint8Array, key: string): number | undefined {
  try {
    const value = (JSON.parse(Buffer.from(body).toString('utf8')) as Record<string, unknown>)[key]
    return typeof value === 'number' ? value : undefined
  } catch {
    return undefined
  }
}
